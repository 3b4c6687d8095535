package bench

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/core/store"
	"fencepost/reports"
	"fencepost/reports/measure"
	"fencepost/reports/stat"
)

// suite is one whose samples are made up.
type suite struct {
	Suite
	plan *Plan
}

func (s *suite) Design() Design {
	return Design{Setting: "setting", Plan: s.plan, Legend: []string{"legend"}}
}

func (s *suite) Headlines(r *Result) []string {
	a, _ := s.plan.Arm("L/2/6s")
	return []string{r.Headline(a, " with 2 threads")}
}

// made returns a result with one number of threads whose arms have these rates
// in each round, and latencies of exactly 10 ms.
func made(t *testing.T, rates map[string][]int64) *Result {
	t.Helper()
	p, err := NewPlan(Config{Rounds: 5, Window: time.Second, Seed: 3}, [][]Arm{{
		{ID: "C/2", Kind: "cas", Letter: "C", Name: "bare LWT", Threads: 2, Changes: 1},
		{ID: "W/2", Kind: "write", Letter: "W", Name: "plain write", Threads: 2, Changes: 1, Ceiling: "C/2"},
		{ID: "L/2/6s", Kind: "lock", Letter: "L", Name: "lock cycle", Threads: 2, TTL: 6 * time.Second, Changes: 2, Ceiling: "C/2", Baseline: "W/2", Parts: []string{"first half"}},
		{ID: "L2/2/6s", Kind: "lock", Letter: "L2", Name: "lock cycle, A/A copy", Threads: 2, TTL: 6 * time.Second, Changes: 2, Ceiling: "C/2", Control: "L/2/6s"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := &Result{Suite: &suite{plan: p}, Design: (&suite{plan: p}).Design(), Warmed: WarmUp{Took: 15 * time.Second, Window: warmUpWindow, Rates: []float64{100, 200, 201, 199, 200}, Stable: true}}
	for id, perRound := range rates {
		for i, n := range perRound {
			s := Sample{Arm: id, Round: i + 1, Seconds: 1, OK: n, Done: n, PerThread: []int64{n / 2, n - n/2}, Latency: measure.NewHistogram(), Sent: Traffic{LWTs: 2 * n}}
			if id == "L/2/6s" {
				s.SinkLWTs, s.Ended, s.Parts = n, n, []*hdrhistogram.Histogram{measure.NewHistogram()}
			}
			for range n {
				parts := make([]time.Duration, len(s.Parts))
				for i := range parts {
					parts[i] = 5 * time.Millisecond
				}
				if s.record(10*time.Millisecond, parts); s.Error != "" {
					t.Fatal(s.Error)
				}
			}
			r.Samples = append(r.Samples, s)
		}
	}
	return r
}

func steady() map[string][]int64 {
	return map[string][]int64{
		"C/2":     {100, 200, 100, 400, 100},
		"W/2":     {300, 600, 300, 1200, 300},
		"L/2/6s":  {40, 80, 50, 160, 30},
		"L2/2/6s": {40, 80, 50, 160, 30},
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	all, err := made(t, steady()).Numbers()
	if err != nil {
		t.Fatal(err)
	}
	ceiling, write, lock, control := all[0], all[1], all[2], all[3]
	// Two row changes a cycle: 80/100, 160/200, 100/100, 320/400, 60/100.
	want := stat.Estimate{Spread: stat.Spread{N: 5, Median: 0.8, Min: 0.6, Max: 1}, Low: 0.6, High: 1}
	if lock.ToCeiling.Estimate != want {
		t.Errorf("share %+v, want %+v", lock.ToCeiling, want)
	}
	if got, want := lock.Rate, (stat.Spread{N: 5, Median: 50, Min: 30, Max: 160}); got != want {
		t.Errorf("rate %+v, want %+v", got, want)
	}
	if lock.OK != 360 || lock.LWTs.Median != 2 || lock.AllLWTs.Median != 3 {
		t.Errorf("%d ok, %v LWTs an operation, %v with the sink; want 360, 2, 3", lock.OK, lock.LWTs.Median, lock.AllLWTs.Median)
	}
	// Three digits: 10 ms is recorded as 10.007 at most.
	if d := lock.Quantile(99) - 10*time.Millisecond; d.Abs() > 10*time.Microsecond {
		t.Errorf("p99 %s, want 10 ms", lock.Quantile(99))
	}
	if d := lock.Parts(50)["first half"] - 5*time.Millisecond; d.Abs() > 10*time.Microsecond {
		t.Errorf("parts %v, want one of 5 ms", lock.Parts(50))
	}
	if got := lock.ToBaseline; math.Abs(got.Median-40./300) > 1e-9 || got.N != 5 {
		t.Errorf("by the baseline %+v", got)
	}
	if write.ToCeiling.Median != 3 || write.ToCeiling.Low != 3 {
		t.Errorf("plain writes %+v, want 3 times the ceiling in every round", write.ToCeiling)
	}
	if ceiling.ToCeiling.N != 0 || control.ToCopied.Median != 1 {
		t.Errorf("the ceiling has a share of itself: %+v; control %+v, want 1", ceiling.ToCeiling, control.ToCopied)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	set := func(id string, rates ...int64) func(map[string][]int64) {
		return func(m map[string][]int64) { m[id] = rates }
	}
	for _, c := range []struct {
		name   string
		change func(map[string][]int64)
		want   string // in the only problem; "" for none
		code   int
	}{
		{"steady", func(map[string][]int64) {}, "", ExitOK},
		{"control within the margin", set("L2/2/6s", 44, 88, 55, 176, 33), "", ExitOK},
		{"control wild but around 1", set("L2/2/6s", 20, 160, 50, 320, 15), "", ExitOK},
		{"control far off", set("L2/2/6s", 60, 120, 75, 240, 45), "two equal things differ", ExitInvalid},
		{"control far below", set("L2/2/6s", 30, 60, 37, 120, 22), "two equal things differ", ExitInvalid},
		{"an arm did nothing", set("W/2", 0, 0, 0, 0, 0), "not one operation ended ok", ExitInvalid},
		{"one empty round", set("W/2", 300, 0, 300, 300, 300), "", ExitOK},
		{"rounds missing", set("W/2", 300, 300), "2 complete rounds", ExitInvalid},
	} {
		rates := steady()
		c.change(rates)
		r := made(t, rates)
		if err := r.judge(); err != nil {
			t.Fatal(err)
		}
		if c.want == "" && len(r.Problems) > 0 || c.want != "" && (len(r.Problems) != 1 || !strings.Contains(r.Problems[0], c.want)) {
			t.Errorf("%s: problems %q, want %q", c.name, r.Problems, c.want)
		}
		if got := r.ExitCode(); got != c.code {
			t.Errorf("%s: exit code %d, want %d", c.name, got, c.code)
		}
	}
}

func TestStarvedIsNoted(t *testing.T) {
	t.Parallel()
	r := made(t, steady())
	for i := range r.Samples {
		switch s := &r.Samples[i]; {
		case s.Arm == "C/2" && s.Round <= 3:
			s.Waiting, s.Oldest = 1, r.Plan.Window
		case s.Arm == "L/2/6s":
			s.Waiting, s.Oldest = 2, r.Plan.Window/2 // long, but something got through
		}
	}
	if err := r.judge(); err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(r.Notes, "\n")
	if !strings.Contains(notes, "C/2: in 3 of 5 windows a thread got nothing through") || strings.Contains(notes, "L/2/6s: in") {
		t.Errorf("notes:\n%s", notes)
	}
	if r.ExitCode() != ExitOK {
		t.Errorf("starvation of a bare arm made the result invalid: %q", r.Problems)
	}
}

func TestResolves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{0.95, 1.04, "less than 5 % are noise"},
		{0.98, 1.10, "less than 10 % are noise"},
		{1.10, 1.42, "less than 42 % are noise; repeat it"}, // two equal things that differ
		{0.50, 1.20, "less than 100 % are noise; repeat it"},
		{0, 1.20, "nothing can be told"},
	} {
		if got := resolves(stat.Estimate{Low: c.low, High: c.high}); !strings.Contains(got, c.want) {
			t.Errorf("[%v, %v]: %q, want %q", c.low, c.high, got, c.want)
		}
	}
}

func TestViolationWins(t *testing.T) {
	t.Parallel()
	r := &Result{Problems: []string{"noisy"}, Violations: []string{"token 3 was handed out twice"}}
	if got := r.ExitCode(); got != ExitViolation {
		t.Errorf("exit code %d, want %d", got, ExitViolation)
	}
}

func TestLatenciesMustBeThere(t *testing.T) {
	t.Parallel()
	arm := Arm{ID: "x", Threads: 1, Parts: []string{"first half"}}
	begin := time.Now()
	for name, c := range map[string]struct {
		latency time.Duration
		parts   []time.Duration
		good    bool
	}{
		"all":                    {time.Second, []time.Duration{time.Millisecond}, true},
		"beyond what is kept":    {2 * time.Hour, []time.Duration{time.Millisecond}, false},
		"a part is missing":      {time.Second, nil, false},
		"a part is out of sight": {time.Second, []time.Duration{2 * time.Hour}, false},
	} {
		ta := newTally(arm, begin, begin.Add(3*time.Hour))
		ta.add(&Thread{}, End{Outcome: store.OK, Parts: c.parts}, begin, begin.Add(c.latency))
		if err := ta.sample.check(); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		rates []float64
		want  bool
	}{
		{"none", nil, false},
		{"too few", []float64{100, 100, 100, 100, 100}, false},
		{"rising", []float64{100, 200, 300, 400, 500}, false},
		{"rising slowly", []float64{400, 410, 420, 430, 440, 450}, false},
		{"level at last", []float64{100, 300, 500, 510, 495, 505, 500, 498}, true},
		{"falling a little", []float64{510, 505, 500, 495, 490, 490}, true},
		{"one window far off", []float64{500, 500, 400, 500, 500, 500}, false},
		{"nothing", []float64{0, 0, 0, 0, 0, 0}, false},
	} {
		if got := settled(c.rates, 1); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		costs := make([]float64, len(c.rates))
		for i, r := range c.rates {
			costs[i] = 1000 / r
		}
		if got := settled(costs, -1); got != c.want && c.name != "nothing" {
			t.Errorf("%s, as costs: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestPrint(t *testing.T) {
	t.Parallel()
	r := made(t, steady())
	r.Problems, r.Violations = []string{"the problem"}, []string{"the violation"}
	report, err := r.Report(About{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Print(&b, r, report); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"setting, 5 rounds of 1s an arm", "L/2/6s              lock cycle  ", "with the sink", "Ratio to baseline", "L/2/6s, first half", "lock cycle with 2 threads: median 50.0/s, 0.80 [0.60, 1.00] times the row changes of the bare LWT", "50.0 (30.0–160)", "0.80 [0.60–1.00]", "360 / 0 / 0", "INVALID  the problem", "VIOLATION  the violation", "10 ms† (10 ms–10 ms)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, &b)
		}
	}
}

func TestWriteRounds(t *testing.T) {
	t.Parallel()
	r := made(t, steady())
	r.Samples[0].Error = `an error, with a comma and "quotes"`
	r.Samples[1].Load = load{BenchLoad: reports.BenchLoad{Other: 0.15, Stolen: 0.1}, Known: true}
	r.Samples[2].Load = load{BenchLoad: reports.BenchLoad{Other: 0.15}, Known: true}
	dir := t.TempDir()
	if err := r.WriteRounds(dir); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 1+4*5 {
		t.Errorf("%d lines, want a head and one for each of 4 arms in 5 rounds", len(lines))
	}
	last := len(lines[0]) - 1
	if got := []string{lines[0][last], lines[1][last], lines[2][last], lines[3][last]}; !slices.Equal(got, []string{"foreign_load", "false", "true", "false"}) {
		t.Errorf("marks %v", got)
	}
}

// TestWriteHDRLog: the log reads back, with the arms' names.
func TestWriteHDRLog(t *testing.T) {
	t.Parallel()
	r := made(t, steady())
	r.Started = time.Now()
	for i := range r.Samples {
		r.Samples[i].Started = r.Started.Add(time.Duration(i) * time.Second)
	}
	dir := t.TempDir()
	if err := r.WriteHDRLog(dir); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, HDRLog))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log := hdrhistogram.NewHistogramLogReader(f)
	counts := map[string]int64{}
	for {
		h, err := log.NextIntervalHistogram()
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			break
		}
		counts[h.Tag()] += h.TotalCount()
	}
	if len(counts) != 4 || counts["L/2/6s"] != 360 {
		t.Errorf("%v, want four arms, and 360 cycles of L/2/6s", counts)
	}
}
