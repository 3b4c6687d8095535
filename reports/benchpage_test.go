package reports

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// withCosts adds made-up costs to a benchmark: what its arms spend for an operation, by the
// beginning of the arm's ID; off is by how much A/A copies cost more.
func withCosts(b BenchResult, off float64) BenchResult {
	rng := rand.New(rand.NewPCG(7, 8))
	type spent struct{ client, scheduler, store, lwts, requests, net float64 }
	of := func(id string) spent {
		for _, c := range []struct {
			prefix string
			spent  spent
		}{
			{"P", spent{0.9e-3, 0, 9.3e-3, 4.2, 6.6, 15_200}}, {"JS", spent{0.5e-3, 0.4e-3, 3.1e-3, 1.08, 2.2, 5100}},
			{"J", spent{0.12e-3, 0.24e-3, 0.45e-3, 0.084, 0.21, 1900}}, {"W", spent{0.2e-3, 0, 0.42e-3, 0, 1, 900}},
			{"L", spent{0.6e-3, 0, 4.4e-3, 2.02, 2.1, 5200}}, {"lock", spent{0.6e-3, 0, 4.4e-3, 2.02, 2.1, 5200}},
		} {
			if strings.HasPrefix(id, c.prefix) {
				return c.spent
			}
		}
		return spent{0.4e-3, 0, 2.8e-3, 1.4, 1.4, 3100}
	}
	for i := range b.Arms {
		a := &b.Arms[i]
		c, factor := of(a.ID), 1.0
		if a.Control != "" {
			factor = off
		}
		for k := range a.Rounds {
			r := &a.Rounds[k]
			n := float64(r.OK)
			some := func(v float64) float64 { return v * n * factor * (0.96 + 0.08*rng.Float64()) }
			r.Cost = &BenchCost{Ops: r.OK, Spent: map[string]float64{
				SpentClientCPU: some(c.client), SpentStoreCPU: some(c.store), SpentLWTs: c.lwts * n, SpentRequests: c.requests * n,
				SpentNetBytes: some(c.net), SpentDiskBytes: some(c.net / 3), SpentSyncs: some(c.lwts*2.1 + 1),
			}}
			if c.scheduler > 0 {
				r.Cost.Spent[SpentSchedulerCPU] = some(c.scheduler)
			}
		}
	}
	return b
}

// jobSampleJSON is jobSample, made once.
var jobSampleJSON = func() func(testing.TB) []byte {
	var once sync.Once
	var b []byte
	return func(t testing.TB) []byte {
		once.Do(func() {
			var err error
			b, err = json.Marshal(jobSample(t))
			must(t, err)
		})
		return b
	}
}()

// copied is jobSample with an A/A copy of J/4 and made-up costs.
func copied(t testing.TB, off float64) BenchResult {
	t.Helper()
	var b BenchResult
	must(t, json.Unmarshal(jobSampleJSON(t), &b))
	again := b.Arms[2]
	again.ID, again.Scenario, again.Control, again.Baseline = "J2/4", "jobs, A/A copy", again.ID, ""
	again.Rounds = slices.Clone(again.Rounds)
	b.Arms = append(b.Arms, again)
	b.Versions = map[string]string{"nodes": "3"}
	return withCosts(b, off)
}

var jobClaim = BenchClaim{Arm: "J/4", To: "P", Unit: "job", Whom: "one lock per job", Setting: "4 shards"}

func TestHeadline(t *testing.T) {
	t.Parallel()
	bare := copied(t, 1)
	for i := range bare.Arms {
		for k := range bare.Arms[i].Rounds {
			bare.Arms[i].Rounds[k].Cost = nil
		}
	}
	unsteady := copied(t, 1)
	unsteady.Problems = []string{"a reason"}
	idle := copied(t, 1)
	for k := range idle.Arms[1].Rounds {
		idle.Arms[1].Rounds[k] = BenchRound{Round: k + 1, Seconds: 2}
	}
	nowhere := copied(t, 1)
	nowhere.Versions, nowhere.Machine = nil, nil
	const cost = `^1/1[23] of the processor time per job and 1[0-9]\.[0-9] times the jobs per second of one lock per job$`
	for _, c := range []struct {
		name        string
		b           BenchResult
		text, basis string
	}{
		{"with costs", copied(t, 1), cost, `^95 % CI 1/1[34] to 1/1[23] and [0-9.]+ to [0-9.]+; 4 shards; three nodes$`},
		{"without costs", bare, `^1[0-9]\.[0-9] times the jobs per second of one lock per job$`, `^95 % CI [0-9.]+ to [0-9.]+; 4 shards; three nodes$`},
		{"costs that differ from their copy's", copied(t, 1.2), `^1[0-9]\.[0-9] times the jobs per second of one lock per job$`, `^95 % CI [0-9.]+ to [0-9.]+; 4`},
		{"of an unknown machine", nowhere, cost, `; 4 shards$`},
		{"not to be quoted", unsteady, "", ""},
		{"an arm that did nothing", idle, "", ""},
	} {
		h, err := c.b.Claim(jobClaim)
		must(t, err)
		switch {
		case c.text == "" && h != nil:
			t.Errorf("%s: %+v", c.name, h)
		case c.text != "" && (h == nil || !regexp.MustCompile(c.text).MatchString(h.Text) || !regexp.MustCompile(c.basis).MatchString(h.Basis)):
			t.Errorf("%s: %+v, want %s and %s", c.name, h, c.text, c.basis)
		}
	}
	for ratio, want := range map[float64]string{0.0714: "1/14 of", 0.4: "40 % of", 1: "1.0 times", 1.26: "1.3 times", 14.2: "14.2 times"} {
		if got := shareText(ratio); got != want {
			t.Errorf("a ratio of %v is %q, want %q", ratio, got, want)
		}
	}
}

// TestHeadlineOfLocks: a lock cycle, which changes its row twice, is compared by change.
func TestHeadlineOfLocks(t *testing.T) {
	t.Parallel()
	b := withCosts(benchSample(t, 0.9), 1)
	h, err := b.Claim(BenchClaim{Arm: "lock-16", To: "cas-16", Unit: "row change", Whom: "the bare LWT"})
	must(t, err)
	// 5.0 ms for two changes, 3.2 ms for one.
	if h == nil || !regexp.MustCompile(`^7[789] % of the processor time per row change and 0\.(8|9)[0-9]? times the row changes per second of the bare LWT$`).MatchString(h.Text) ||
		!strings.HasSuffix(h.Basis, "; two cores") {
		t.Errorf("%+v", h)
	}
}

// pageOf writes a benchmark's page and reads it.
func pageOf(t *testing.T, b BenchResult) doc {
	t.Helper()
	dir := t.TempDir()
	must(t, WriteBench(dir, b))
	d := readPage(t, filepath.Join(dir, BenchPage))
	d.selfContained()
	return d
}

func TestPageBeginsWithTheResult(t *testing.T) {
	t.Parallel()
	b := copied(t, 1)
	var err error
	b.Headline, err = b.Claim(jobClaim)
	must(t, err)
	b.Setting = "Jobs, 8 rounds"
	page := pageOf(t, b)
	if h := page.heading(); h != b.Headline.Text {
		t.Errorf("the page begins with %q", h)
	}
	has(t, text(page.root), b.Headline.Basis, "Jobs, 8 rounds.")
	order(t, text(page.root), b.Headline.Text, "Targets", "An arm is", "Cost of an operation", "Rate", "Latency")
	order(t, page.raw, "Processor time of 1000 operations", "Operations per second", "Ratio to ceiling")
	b.Problems = []string{"the copy differs"}
	page = pageOf(t, b)
	if h := page.heading(); h != "Do not quote these numbers" || strings.Contains(text(page.root), b.Headline.Text) {
		t.Errorf("numbers that are not to be quoted begin with %q", h)
	}
	has(t, text(page.root), "the copy differs")
	md, err := Results(Kept{Benches: []BenchResult{b}})
	must(t, err)
	if strings.Contains(md, b.Headline.Text) {
		t.Error("the results quote it")
	}
	b.Problems = nil
	md, err = Results(Kept{Benches: []BenchResult{b}})
	must(t, err)
	has(t, md, "**"+b.Headline.Text+"**")
}

// heading is the page's first.
func (d doc) heading() string {
	for n := range d.root.Descendants() {
		if n.Type == html.ElementNode && n.Data == "h1" {
			return text(n)
		}
	}
	return ""
}

// order fails unless the parts follow each other.
func order(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		_, after, ok := strings.Cut(text, p)
		if !ok {
			t.Errorf("%q is missing, or not behind the others of %q", p, parts)
			return
		}
		text = after
	}
}

// TestCostColumns: of each quantity that was read, with its interval, and a mark where a copy
// costs something else.
func TestCostColumns(t *testing.T) {
	t.Parallel()
	b := copied(t, 1.2)
	for i := range b.Arms { // as where no tracer may count them
		for _, r := range b.Arms[i].Rounds {
			delete(r.Cost.Spent, SpentSyncs)
		}
	}
	ns, err := b.Numbers()
	must(t, err)
	columns, rows := benchTable(ns)
	doubt := map[string]bool{}
	for k, c := range columns {
		if c.Group != groupCost {
			continue
		}
		doubt[c.quantity] = c.Doubt != ""
		if cell := rows[2][k]; len(cell.Below) == 0 || !strings.HasPrefix(cell.Below[0], "[") {
			t.Errorf("%s has no interval: %+v", c.Head, cell)
		}
	}
	if want := map[string]bool{CostCPU: true, "client_cpu_s_per_1000": true, "scheduler_cpu_s_per_1000": true, "store_cpu_s_per_1000": true,
		costLWTs: false, "requests_per_op": false, "net_bytes_per_op": true, "bytes_per_op": true}; !maps.Equal(doubt, want) {
		t.Errorf("the columns, and which are not to be quoted: %v", doubt)
	}
	page := text(pageOf(t, b).root)
	has(t, page, "Do not quote what is marked below.", "CPU s/1000: A/A copies ×1.2", "CPU s/1000do not quote", "in s (do not quote)")
	if n := strings.Count(page, "LWTs/op"); strings.Contains(page, "fsyncs/op") || n != 2 { // the head, and what it says
		t.Errorf("LWTs/op %d times", n)
	}
	if page := text(pageOf(t, copied(t, 1)).root); strings.Contains(strings.ToLower(page), "do not quote") || !strings.Contains(page, "fsyncs/op") {
		t.Error("a copy that costs what its original does is called doubtful")
	}
	var terminal strings.Builder
	must(t, b.PrintArms(&terminal))
	order(t, terminal.String(), "CPU s/1000 (do not quote)", "J2/4", "ops/s")
}

// TestFewOperations: a percentile that fewer than ten operations took longer than is marked.
func TestFewOperations(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for n, want := range map[int]string{19: "p50 p95 p99 p99.9", 20: "p95 p99 p99.9", 199: "p95 p99 p99.9", 200: "p99 p99.9", 999: "p99 p99.9", 1000: "p99.9", 9999: "p99.9", 10000: ""} {
		b := BenchResult{Arms: []BenchArm{{ID: "a", Rounds: []BenchRound{{Round: 1, Seconds: 1, OK: int64(n), Latency: latencies(t, rng, n, time.Millisecond)}}}}}
		ns, err := b.Numbers()
		must(t, err)
		var marked []string
		for _, c := range latencyColumns {
			if c.of(ns[0]).Few {
				marked = append(marked, c.Head)
			}
		}
		if got := strings.Join(marked, " "); got != want {
			t.Errorf("%d operations: %q are marked, want %q", n, got, want)
		}
	}
}

// TestOldBenchmarks: what was kept before costs and headlines is read and drawn.
func TestOldBenchmarks(t *testing.T) {
	t.Parallel()
	for _, b := range []BenchResult{benchSample(t, 0.9), jobSample(t)} {
		b.Version = BenchVersion
		line, err := json.Marshal(b)
		must(t, err)
		for _, no := range []string{`"headline"`, `"setting"`, `"cost"`} {
			if strings.Contains(string(line), no) {
				t.Fatalf("an old result has %s", no)
			}
		}
		file := filepath.Join(t.TempDir(), "bench.jsonl")
		must(t, os.WriteFile(file, append(line, '\n'), 0o644))
		kept, err := ReadBenches(file)
		must(t, err)
		d := pageOf(t, kept[0])
		if h := d.heading(); h != "Benchmark "+b.Name {
			t.Errorf("%s begins with %q", b.Name, h)
		}
		has(t, text(d.root), b.About, "Operations per second", "p99.9", "samples", "What the columns say")
		if strings.Contains(d.raw, "Processor time of 1000") {
			t.Error("costs that are not known are drawn")
		}
	}
}

// TestLook writes the pages of what the repository keeps, and of the same with made-up
// costs, to look at them: -samples DIR.
func TestLook(t *testing.T) {
	if *samples == "" {
		t.Skip("writes pages to look at; give -samples DIR")
	}
	claims := []BenchClaim{
		{Arm: "L/32/6s", To: "C/32", Unit: "row change", Whom: "the bare LWT", Setting: "high contention (1 key), 32 clients"},
		{Arm: "J/4", To: "P", Unit: "job", Whom: "one lock per job", Setting: "4 shards"},
	}
	for name, change := range map[string]func(BenchResult) BenchResult{
		"old": func(b BenchResult) BenchResult { return b }, "costs": func(b BenchResult) BenchResult { return withCosts(b, 1) },
		"doubtful": func(b BenchResult) BenchResult { return withCosts(b, 1.2) },
		"bad": func(b BenchResult) BenchResult {
			b.Problems = []string{"A/A control with 32 threads: 1.31 of the arm that it copies: two equal things differ by more than 15 %"}
			return withCosts(b, 1)
		},
	} {
		kept, err := ReadBenches("../results/bench.jsonl")
		must(t, err)
		for i, b := range kept {
			b = change(b)
			if name != "old" {
				b.Setting = "MADE-UP COSTS, to look at the page"
			}
			if i < len(claims) {
				b.Headline, err = b.Claim(claims[i])
				must(t, err)
			}
			dir := filepath.Join(*samples, fmt.Sprintf("%s-%d", name, i))
			must(t, os.MkdirAll(dir, 0o755))
			must(t, WriteBench(dir, b))
		}
	}
}
