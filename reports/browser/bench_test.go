//go:build browser

package browser

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"fencepost/internal/pagetest"
	"fencepost/reports"
	"fencepost/reports/measure"
)

// measured is a benchmark with made-up numbers: an A/A copy that costs more than its original.
func measured(t *testing.T, day int) reports.BenchResult {
	t.Helper()
	h := measure.NewHistogram()
	for i := range 3000 {
		must(t, measure.Record(h, time.Duration(i)*time.Millisecond))
	}
	latency, err := reports.EncodeHistogram(h)
	must(t, err)
	b := reports.BenchResult{
		Version: reports.BenchVersion, Name: fmt.Sprintf("bench-%d", day), Setting: "Jobs, 8 rounds of 2s an arm", Command: "bin/fencepost bench --subject=jobs --seed=1",
		Started: time.Date(2026, 1, 2+day, 0, 0, 0, 0, time.UTC), Versions: map[string]string{"nodes": "3", "fencepost": "0123456789ab"}, Machine: map[string]string{"cores": "2"},
		Targets: []reports.BenchTarget{{Name: "jobs/s by those of a lock for every job, 4 shards", Want: "at least 8", Got: "7.1 [6.8, 7.6]"}},
	}
	for _, a := range []struct {
		id, scenario, ceiling, baseline, control string
		rate, cpu                                float64
	}{
		{"C/32", "bare LWT", "", "", "", 1500, 3.2}, {"P", "lock per job with an unfenced effect", "C/32", "", "", 180, 10},
		{"J/4", "jobs with a fenced effect", "C/32", "P", "", 2100, 0.7}, {"J2/4", "jobs, A/A copy", "C/32", "", "J/4", 2000, 0.9},
	} {
		arm := reports.BenchArm{ID: a.id, Scenario: a.scenario, Ceiling: a.ceiling, Baseline: a.baseline, Control: a.control, Threads: 400, Shards: 4, Contention: "low", TTL: 6 * time.Second}
		for round := 1; round <= 8; round++ {
			n := a.rate * (1 + 0.05*float64(round%3))
			spent := map[string]float64{}
			for _, q := range reports.BenchQuantities {
				for _, of := range q.Of {
					spent[of] = a.cpu * n / 1000 / 3
				}
			}
			spent[reports.SpentNetBytes] = 123_456 * n
			arm.Rounds = append(arm.Rounds, reports.BenchRound{Round: round, Seconds: 1, OK: int64(n), Fair: 0.99, Latency: latency, Cost: &reports.BenchCost{Ops: int64(n), Spent: spent}})
		}
		b.Arms = append(b.Arms, arm)
	}
	b.Headline, err = b.Claim(reports.BenchClaim{Arm: "J/4", To: "P", Unit: "job", Whom: "one lock per job", Setting: "4 shards"})
	must(t, err)
	return b
}

// landscape is A4 with margins of 10 mm.
var landscape = pagetest.Screen{W: 1047, H: 718, Print: true}

// TestBenchEverywhere: the pages of a benchmark and of several fit screens and paper, and axe
// finds nothing serious.
func TestBenchEverywhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := measured(t, 0)
	must(t, reports.WriteBench(dir, b))
	series := filepath.Join(dir, "series.html")
	must(t, reports.WriteBenchSeries(series, []reports.BenchResult{b, measured(t, 1), measured(t, 2)}))
	for _, c := range []struct {
		name, path string
		s          pagetest.Screen
		bars       string // those that are to be seen
	}{
		{"wide", filepath.Join(dir, reports.BenchPage), pagetest.Wide, "wide"},
		{"dark", filepath.Join(dir, reports.BenchPage), pagetest.Screen{W: 1280, H: 900, Dark: true}, "wide"},
		{"narrow", filepath.Join(dir, reports.BenchPage), pagetest.Screen{W: 390, H: 844, Density: 2}, "narrow"},
		{"print", filepath.Join(dir, reports.BenchPage), landscape, "wide"},
		{"series", series, pagetest.Wide, ""},
		{"series narrow", series, pagetest.Screen{W: 390, H: 844, Density: 2}, ""},
		{"series print", series, landscape, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := open(t, c.path, c.s)
			p.Until(`document.querySelectorAll('.curves').length > 0 && [].every.call(document.querySelectorAll('.curves'), function (f) { return f.querySelector('canvas'); })`)
			p.Painted()
			if pagetest.Eval[bool](p.Tab, `document.documentElement.scrollWidth > innerWidth + 1`) {
				t.Errorf("the page is %d px wide", pagetest.Eval[int](p.Tab, `document.documentElement.scrollWidth`))
			}
			// What is wider scrolls, by keys too; what has no such region is whole.
			for _, what := range pagetest.Eval[[]string](p.Tab, `[].filter.call(document.querySelectorAll('main *'), function (e) {
				return e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 1 && getComputedStyle(e).overflowX !== 'visible' && !(e.matches('.scroll') && e.tabIndex === 0) && !e.closest('.curves');
			}).map(function (e) { return e.outerHTML.slice(0, 80); })`) {
				t.Errorf("clipped: %s", what)
			}
			if seen := pagetest.Eval[string](p.Tab, `[].filter.call(document.querySelectorAll('.bars'), function (f) { return f.clientHeight; }).map(function (f) { return f.classList[2]; }).join(' ')`); c.bars != "" && seen != c.bars+" "+c.bars {
				t.Errorf("bars are seen of the kinds %q, want the two that are %s", seen, c.bars)
			}
			for _, finding := range p.Axe() {
				t.Error(finding)
			}
		})
	}
}
