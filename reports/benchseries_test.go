package reports

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// aSeries is copied on several days, each a little dearer.
func aSeries(t testing.TB, days int) []BenchResult {
	t.Helper()
	rng := rand.New(rand.NewPCG(9, 9))
	var out []BenchResult
	for day := range days {
		b := copied(t, 1)
		b.Name = fmt.Sprintf("day-%02d", day)
		b.Started = b.Started.AddDate(0, 0, day)
		b.Seed = uint64(day)
		b.Command = fmt.Sprintf("bin/fencepost bench --subject=jobs --seed=%d --shards=4", day)
		b.Versions["fencepost"] = fmt.Sprintf("%012x", rng.Uint64()>>16)
		for _, a := range b.Arms {
			for _, r := range a.Rounds {
				r.Cost.Spent[SpentStoreCPU] *= 1 + 0.05*float64(day) + 0.1*rng.Float64()
			}
		}
		out = append(out, b)
	}
	return out
}

func TestSeries(t *testing.T) {
	t.Parallel()
	all := aSeries(t, 4)
	all[1].Problems = []string{"the machine was busy"}
	all[2] = withCosts(all[2], 1.3)
	other := aSeries(t, 1)[0]
	other.Name, other.Command, other.Machine = "another", "bin/fencepost bench --contention=high --seed=5", map[string]string{"cores": "64"}
	all = append(all, other)
	slices.Reverse(all) // the order of arguments means nothing
	series, err := seriesOf(all)
	must(t, err)
	if len(series) != 2 || series[1].Command != "bin/fencepost bench --subject=jobs --shards=4" || len(series[1].Results) != 4 || series[1].Results[0].Name != "day-00" {
		t.Fatalf("%d series", len(series))
	}
	s := series[1]
	if i := slices.IndexFunc(s.Arms, func(a seriesArm) bool { return strings.Contains(a.Name, "A/A") }); i >= 0 || len(s.Arms) != 6 {
		t.Errorf("%d arms, the copy is the one with the number %d", len(s.Arms), i)
	}
	// CPU, LWTs, requests, bytes, ratio.
	jobs := s.Arms[2]
	if len(jobs.Charts) != 5 || len(s.Arms[0].Charts) != 4 { // a ceiling has no ratio
		t.Fatalf("%d charts of jobs, %d of the ceiling", len(jobs.Charts), len(s.Arms[0].Charts))
	}
	cpu, lwts := jobs.Charts[0], jobs.Charts[1]
	if !slices.Equal(cpu.Lines[0].X, []float64{0, 3}) || len(cpu.Lines[0].Bars) != 2 || len(cpu.Crosses) != 2 || cpu.Crosses[0][0] != 1 || cpu.Crosses[1][0] != 2 {
		t.Errorf("points at %v, crosses %v: the second is not to be quoted, nor the copy's CPU in the third", cpu.Lines[0].X, cpu.Crosses)
	}
	if !slices.Equal(lwts.Lines[0].X, []float64{0, 2, 3}) {
		t.Errorf("LWTs at %v: their copies agree in the third", lwts.Lines[0].X)
	}
	if len(cpu.Names) != 4 || !strings.HasPrefix(cpu.Names[3], "5 Jan\n") || cpu.High < cpu.Lines[0].Bars[1][1] {
		t.Errorf("names %q up to %v", cpu.Names, cpu.High)
	}
	page := filepath.Join(t.TempDir(), "kept.html")
	must(t, WriteBenchSeries(page, all))
	d := readPage(t, page)
	d.selfContained()
	has(t, text(d.root), "bench --subject=jobs --shards=4", "the machine was busy", "4 results", "kept.csv")
	if strings.Contains(text(d.root), "several machines") {
		t.Error("machines of different command lines are compared")
	}
	lines := readCSV(t, strings.TrimSuffix(page, ".html")+".csv")
	quotable := map[string]int{}
	for _, l := range lines[1:] {
		if l[4] == "J/4" && l[5] == CostCPU && l[1] != "another" {
			quotable[l[9]]++
		}
	}
	if !maps.Equal(quotable, map[string]int{"true": 2, "false": 2}) {
		t.Errorf("CPU of J/4: %v", quotable)
	}
	all[0].Command = all[1].Command // and so on the same page
	must(t, WriteBenchSeries(page, all))
	has(t, text(readPage(t, page).root), "several machines", "cores 64")
	all[0].Arms[0].ID = ""
	if err := WriteBenchSeries(page, all); err == nil || !strings.Contains(err.Error(), "another") {
		t.Errorf("a result that is broken: %v", err)
	}
}

// TestSeriesOfOld: results without costs have a ratio alone.
func TestSeriesOfOld(t *testing.T) {
	t.Parallel()
	b := benchSample(t, 0.9)
	series, err := seriesOf([]BenchResult{b})
	must(t, err)
	for _, a := range series[0].Arms {
		if len(a.Charts) != 1 || !strings.HasPrefix(a.Charts[0].Title, "ratio to ceiling: ") {
			t.Errorf("%s: %d charts", a.Name, len(a.Charts))
		}
	}
	if len(series[0].Arms) != 6 { // ceilings have nothing
		t.Errorf("%d arms", len(series[0].Arms))
	}
}

// TestLookSeries writes a page to look at.
func TestLookSeries(t *testing.T) {
	if *samples == "" {
		t.Skip("writes a page to look at; give -samples DIR")
	}
	all := aSeries(t, 14)
	must(t, WriteBenchSeries(filepath.Join(*samples, "series3.html"), all[:3]))
	all[5].Problems = []string{"two equal things differ by more than 15 %"}
	all[9] = withCosts(all[9], 1.3)
	must(t, WriteBenchSeries(filepath.Join(*samples, "series.html"), all))
}
