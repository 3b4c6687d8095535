package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fencepost/reports"
	"fencepost/reports/measure"
)

// TestSpent: what is read of a process that works rises, and of one that is gone nothing is
// made up.
func TestSpent(t *testing.T) {
	t.Parallel()
	w := Window{PIDs: []int{os.Getpid()}}
	before := w.spent(Traffic{})
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	for begin := used(); used()-begin < 60*time.Millisecond; {
	}
	c := w.spent(Traffic{LWTs: 6, SinkLWTs: 1, Plain: 3}).since(before, 2)
	for _, name := range []string{reports.SpentClientCPU, reports.SpentStoreCPU} {
		if v := c.Spent[name]; v < 0.02 || v > 60 {
			t.Errorf("%s: %v s after 60 ms of processor time", name, v)
		}
	}
	if c.Ops != 2 || c.Spent[reports.SpentLWTs] != 7 || c.Spent[reports.SpentRequests] != 10 {
		t.Errorf("%+v, want 7 LWTs and 10 requests", c)
	}
	if _, ok := c.Spent[reports.SpentNetBytes]; !ok {
		t.Error("the bytes of the node's network are not told")
	}
	for _, gone := range []Window{{}, {PIDs: []int{os.Getpid(), 1 << 30}}} {
		c := gone.spent(Traffic{}).since(gone.spent(Traffic{}), 1)
		if _, ok := c.Spent[reports.SpentStoreCPU]; ok {
			t.Errorf("processor time of nodes %v is told", gone.PIDs)
		}
		if _, ok := c.Spent[reports.SpentClientCPU]; !ok {
			t.Error("the client's own is not")
		}
	}
}

// TestSyncs: each call that waits for storage is counted, of threads that begin later too.
func TestSyncs(t *testing.T) {
	t.Parallel()
	s, err := countSyncs([]int{os.Getpid()})
	if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
		t.Skipf("the kernel does not let this process count: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	before, _ := s.total()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const calls = 40
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			runtime.LockOSThread() // a thread of its own, which ends with it
			if err := f.Sync(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if after, ok := s.total(); !ok || after-before < calls {
		t.Errorf("%v calls counted, %v; %d were made", after-before, ok, calls)
	}
}

// costly gives each sample of a result a cost; of is the cost of an operation of an arm in
// a round.
func costly(r *Result, of func(arm string, round int) float64) {
	for i := range r.Samples {
		s := &r.Samples[i]
		s.Cost = &reports.BenchCost{Ops: s.Done, Spent: map[string]float64{
			reports.SpentStoreCPU: of(s.Arm, s.Round) * float64(s.Done), reports.SpentClientCPU: 0, reports.SpentDiskBytes: float64(s.Round * 1e6),
		}}
	}
}

func TestJudgeCosts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		copy []float64 // what an operation of the copy costs, by round, where the original's is 1
		bad  bool
	}{
		{"equal", []float64{1, 1, 1, 1, 1}, false},
		{"noise within the limit", []float64{0.95, 1.08, 1, 1.05, 0.97}, false},
		{"dearer", []float64{1.12, 1.12, 1.12, 1.12, 1.12}, true},
		{"cheaper", []float64{0.88, 0.88, 0.88, 0.88, 0.88}, true},
		{"too much noise", []float64{0.8, 1, 1, 1, 1.3}, true},
	} {
		r := made(t, steady())
		costly(r, func(arm string, round int) float64 {
			if arm == "L2/2/6s" {
				return c.copy[round-1]
			}
			return 1
		})
		if err := r.judge(); err != nil {
			t.Fatal(err)
		}
		said := func(texts []string) bool {
			return slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, "cpu_s_per_1000") })
		}
		if said(r.Problems) != c.bad || said(r.Notes) == c.bad || (r.ExitCode() == ExitInvalid) != c.bad {
			t.Errorf("%s: problems %q, notes %q", c.name, r.Problems, r.Notes)
		}
		if strings.Contains(strings.Join(r.Problems, " "), "bytes_per_op") {
			t.Errorf("%s: bursts of the disk are judged: %q", c.name, r.Problems)
		}
	}
}

// slices of made up costs.
type costs struct {
	*suite
	noise float64
}

func (c *costs) Design() Design {
	return Design{Setting: "costs", Plan: c.plan, WarmUp: []Arm{{ID: "warm-up", Threads: 1}}}
}
func (c *costs) Open(context.Context, *Env) error         { return nil }
func (c *costs) Subject(a Arm, _ uint64) (Subject, error) { return &costsArm{c, a}, nil }
func (c *costs) Round([]Sample) string                    { return "" }
func (c *costs) Finish(context.Context, *Result) error    { return nil }
func (c *costs) Headlines(*Result) []string               { return nil }

type costsArm struct {
	*costs
	a Arm
}

func (a *costsArm) Window(_ context.Context, w Window) (Sample, error) {
	s := Sample{Arm: a.a.ID, Round: w.Round, Seconds: 1, OK: 1, Done: 1, PerThread: []int64{1}, Latency: measure.NewHistogram()}
	s.record(time.Millisecond, nil)
	// The first round is far off.
	cost := 1 + a.noise*math.Sin(float64(3*w.Round+len(a.a.ID)))
	if w.Round <= 1 {
		cost *= 3
	}
	s.Cost = &reports.BenchCost{Ops: 1, Spent: map[string]float64{reports.SpentStoreCPU: cost}}
	time.Sleep(time.Millisecond)
	return s, nil
}

func (a *costsArm) Close(context.Context) error { return nil }

// TestColdRounds: the first rounds count for nothing while an operation takes the nodes less
// processor time in the next one, four at most, and all do whose number is given.
func TestColdRounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		costs  []float64 // by round
		rounds int       // that are given
		cold   int
	}{
		"warm":               {[]float64{1, 0.91, 1.2, 1}, 0, 0},
		"one":                {[]float64{3, 1, 1, 1}, 0, 1},
		"two":                {[]float64{3, 2, 1, 1}, 0, 2},
		"not for a late one": {[]float64{1, 1, 2, 1}, 0, 0},
		"four at most":       {[]float64{32, 16, 8, 4, 2, 1}, 0, 4},
		"a number of rounds": {[]float64{3, 1, 1, 1}, 8, 0},
		"nodes out of sight": {[]float64{0, 0, 0, 0}, 0, 0},
	} {
		cfg := Config{Budget: time.Hour, Window: time.Second}
		if c.rounds > 0 {
			cfg = Config{Rounds: c.rounds, Window: time.Second}
		}
		plan, err := NewPlan(cfg, [][]Arm{{{ID: "A"}, {ID: "B"}, {ID: "C"}}})
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{plan: plan, progress: NewProgress(nil), result: &Result{}}
		for n, cost := range c.costs {
			b.forgetCold(n)
			for _, a := range plan.Arms {
				s := Sample{Arm: a.ID, Round: n + 1, Cost: &reports.BenchCost{Ops: 10, Spent: map[string]float64{reports.SpentStoreCPU: cost}}}
				if a.ID == "A" { // an arm may be off by itself
					s.Cost.Spent[reports.SpentStoreCPU] = 7 * cost / float64(n+1)
				}
				b.result.Samples = append(b.result.Samples, s)
			}
		}
		b.forgetCold(len(c.costs))
		if got := len(b.result.Warmed.Cold); got != c.cold || b.result.Samples[0].Round != 1+c.cold || len(b.result.Samples) != 3*(len(c.costs)-c.cold) {
			t.Errorf("%s: %d rounds are cold, want %d; %d samples from round %d on", name, got, c.cold, len(b.result.Samples), b.result.Samples[0].Round)
		}
		if b.result.Warmed.Stable == (c.cold == mostCold) && c.cold > 0 {
			t.Errorf("%s: stable %v", name, b.result.Warmed.Stable)
		}
	}
}

// TestBudget: rounds end when costs are known well enough, and not before; with noise that
// does not end the budget does.
func TestBudget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		noise  float64
		budget time.Duration
		least  int
		most   int
		note   string
	}{
		{"quiet", 0.01, time.Hour, MinRounds, 20, "narrow enough after"},
		{"loud", 0.5, 100 * time.Millisecond, MinRounds, mostRounds, "the budget is over; still wide: cpu_s_per_1000 of A ("},
	} {
		plan, err := NewPlan(Config{Budget: c.budget, Window: time.Second}, [][]Arm{{{ID: "A", Threads: 1}, {ID: "AA", Threads: 1, Control: "A"}}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := Measure(t.Context(), &costs{&suite{plan: plan}, c.noise}, &Env{}, NewProgress(nil))
		if err != nil {
			t.Fatal(err)
		}
		cold := len(r.Warmed.Cold)
		if n := r.Plan.Rounds; n < c.least || n > c.most || len(r.Samples) != 2*n || len(plan.Order) != n+1+cold {
			t.Errorf("%s: %d rounds, %d samples", c.name, n, len(r.Samples))
		}
		if cold < 1 || r.Samples[0].Round != 1+cold || !strings.Contains(r.Warmed.String(), fmt.Sprintf("count for nothing: %d;", cold)) {
			t.Errorf("%s: the first sample is of round %d: %s", c.name, r.Samples[0].Round, r.Warmed)
		}
		if all := strings.Join(r.Notes, "\n"); !strings.Contains(all, c.note) || !strings.Contains(all, "looks at widths") {
			t.Errorf("%s: the notes lack %q:\n%s", c.name, c.note, all)
		}
		if quiet := c.noise < 0.1; quiet == (r.ExitCode() == ExitInvalid) {
			t.Errorf("%s: exit code %d, %q", c.name, r.ExitCode(), r.Problems)
		}
	}
	for _, bad := range []Config{{Budget: -1}, {Budget: time.Minute, Rounds: 8}} {
		if _, err := NewPlan(bad, nil); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
