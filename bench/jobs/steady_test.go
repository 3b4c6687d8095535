package jobs

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/bench"
	"fencepost/core/engine"
	"fencepost/core/store/sim"
	"fencepost/reports"
	"fencepost/reports/measure"
)

// steady runs loads over time and nothing else.
func steady(t *testing.T, w *world, c Config, run func(s *Suite, r *bench.Result, p *bench.Progress) error) *bench.Result {
	t.Helper()
	c.NoRounds = true
	s := newSuite(t, c)
	if err := s.Open(t.Context(), w.env); err != nil {
		t.Fatal(err)
	}
	r := &bench.Result{Suite: s, Design: s.Design()}
	if err := run(s, r, bench.NewProgress(nil)); err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if len(r.Violations) > 0 {
		t.Errorf("violations %q", r.Violations)
	}
	return r
}

// offer runs the load at a rate alone.
func offer(t *testing.T, w *world, c Config) (*bench.Result, reports.BenchSteady) {
	t.Helper()
	r := steady(t, w, c, func(s *Suite, r *bench.Result, p *bench.Progress) error {
		return s.carry(t.Context(), r, p, "steady", s.offered)
	})
	if len(r.Steady) != 1 {
		t.Fatalf("%d loads", len(r.Steady))
	}
	return r, r.Steady[0]
}

func lateness(t *testing.T, l reports.BenchSteady, percent float64) time.Duration {
	t.Helper()
	h, err := reports.DecodeHistogram(l.Late)
	if err != nil {
		t.Fatal(err)
	}
	return measure.Quantile(h, percent)
}

func TestLoadsOverTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate, length = 100, 50 * time.Second
		r := steady(t, newWorld(sim.Faults{Latency: 2 * oneWay}), Config{Steady: length, Rate: rate}, func(s *Suite, r *bench.Result, p *bench.Progress) error {
			return s.then(t.Context(), r, p)
		})
		if len(r.Steady) != 2 {
			t.Fatalf("%d loads", len(r.Steady))
		}
		offered, saturated := r.Steady[0], r.Steady[1]
		if len(r.Problems) > 0 {
			t.Errorf("problems %q", r.Problems)
		}
		if len(offered.Buckets) != 5 || len(saturated.Buckets) != 5 {
			t.Fatalf("%d and %d buckets, want 5 of 10 s", len(offered.Buckets), len(saturated.Buckets))
		}
		for i, b := range offered.Buckets {
			if b.Seconds != 10 || b.Done < rate*10*95/100 || b.Done > rate*10*102/100 || b.LateMax == 0 {
				t.Errorf("bucket %d of the offered load: %+v", i, b)
			}
		}
		// A run begins after a tick, which waits for another that is on its way: 1 to 2 round trips
		// of 80 ms.
		if p50, top := lateness(t, offered, 50), lateness(t, offered, 100); p50 < 120*time.Millisecond || top > 500*time.Millisecond {
			t.Errorf("lateness p50 %s, max %s", p50, top)
		}
		if offered.Backlog > rate/2 || offered.Drained < 0 || offered.Drained > time.Second {
			t.Errorf("%d open at the end, drained in %s", offered.Backlog, offered.Drained)
		}
		if perJob := float64(offered.LWTs) / float64(offered.Done); perJob < 0.1 || perJob > 0.5 {
			t.Errorf("%v LWTs a job; with 4 jobs a round trip and shard, two ticks each", perJob)
		}
		// In what groups jobs travel through the batches changes now and then, and with it the
		// rate, by a tenth: of single buckets of 10 s no less can be said.
		for i, b := range saturated.Buckets {
			if b.Done < 5000 || b.Done > 6300 {
				t.Errorf("bucket %d at saturation: %d done, about 5700 are meant", i, b.Done)
			}
		}
		decay, ok := saturated.Decay()
		if first, last := float64(saturated.Buckets[0].Done), float64(saturated.Buckets[4].Done); !ok || math.Abs(decay-(1-last/first)) > 1e-9 || saturated.Done < 20_000 {
			t.Errorf("decay %v, %v from %v to %v; %d done", decay, ok, first, last, saturated.Done)
		}
		targets, err := (&Suite{}).targets(r)
		if err != nil || len(targets) != 3 {
			t.Fatalf("targets %v, %v", targets, err)
		}
		for _, x := range targets {
			if want := decay <= mostDecay || !strings.Contains(x.Name, "Saturation"); x.Met != want {
				t.Error(x.Text())
			}
		}
	})
}

// TestStallMakesLate: what was meant to be asked for while nothing went on is late from
// then, whether it was sent or not. The stall is longer than the shards' leases: they have no owner
// for 1.0 to 1.4 ttl afterwards.
func TestStallMakesLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate, length, stall = 100, 50 * time.Second, 15 * time.Second
		w := newWorld(sim.Faults{})
		time.AfterFunc(12*time.Second, func() { w.session.Pause(stall) })
		r, offered := offer(t, w, Config{Steady: length, Rate: rate})
		top := lateness(t, offered, 100)
		if top < stall+engine.DefaultTTL || top > stall+engine.DefaultTTL*14/10+2*time.Second {
			t.Errorf("max lateness %s of a stall of %s", top, stall)
		}
		// Of 50 s the first 15 were late by more than 15 % of 50 s less than the most.
		if p85 := lateness(t, offered, 85); p85 < top-9*time.Second || p85 > top-6*time.Second {
			t.Errorf("p85 of lateness %s: the jobs of the stall are missing", p85)
		}
		if b := offered.Buckets[0]; b.LateMax > time.Second.Microseconds() {
			t.Errorf("late before the stall: %+v", b)
		}
		if b := offered.Buckets[1]; b.LateMax < 10*time.Second.Microseconds() {
			t.Errorf("not late in the stall: %+v", b)
		}
		targets, err := (&Suite{}).targets(r)
		if err != nil {
			t.Fatal(err)
		}
		missed := false
		for _, x := range targets {
			missed = missed || strings.HasPrefix(x.Name, "p99 of lateness") && !x.Met
		}
		if !missed {
			t.Errorf("lateness is on target: %v", targets)
		}
	})
}

// TestTooMuchIsSaid: a load that the scheduler cannot carry ends with a backlog.
func TestTooMuchIsSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate = 40 // of about 25
		_, offered := offer(t, newWorld(sim.Faults{Latency: 20 * oneWay}), Config{Steady: 50 * time.Second, Rate: rate, Shards: []int{1}})
		if offered.Backlog < 10*rate {
			t.Errorf("%d open at the end", offered.Backlog)
		}
		if top := lateness(t, offered, 100); top < 10*time.Second {
			t.Errorf("max lateness %s", top)
		}
	})
}

// TestNeverStarted: what has not begun in the end is as late as that.
func TestNeverStarted(t *testing.T) {
	t.Parallel()
	b := newBook("q", 1, 1)
	const s = time.Second
	b.entries = []entry{
		{asked: 1 * s, started: 2 * s, ended: 3 * s},
		{asked: 12 * s, started: 14 * s}, // not completed
		{asked: 15 * s},                  // not begun
	}
	out := reports.BenchSteady{Buckets: b.buckets(0, 20*s)}
	if err := b.lateness(&out, 0, 100*s); err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want time.Duration) {
		if got < want || got > want+want/100 {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	near("least lateness", lateness(t, out, 1), 1*s)
	near("most lateness", lateness(t, out, 100), 85*s)
	h, err := reports.DecodeHistogram(out.Ended)
	if err != nil {
		t.Fatal(err)
	}
	near("most until completed", measure.Quantile(h, 100), 88*s)
	near("lateness in the first bucket", time.Duration(out.Buckets[0].LateMax)*time.Microsecond, 1*s)
	near("lateness in the second bucket", time.Duration(out.Buckets[1].LateMax)*time.Microsecond, 85*s)
	if out.Buckets[0].Done != 1 || out.Buckets[1].Done != 0 {
		t.Errorf("%d and %d done, want 1 and none", out.Buckets[0].Done, out.Buckets[1].Done)
	}
}
