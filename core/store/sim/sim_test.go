package sim_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	s := sim.New().Connect("p", 1)
	storetest.RunAll(t, s, "conformance", func(name string, f func(storetest.T)) {
		t.Run(name, func(t *testing.T) { t.Parallel(); f(t) })
	})
}

// failures counts what the suite finds in a store.
type failures struct{ n atomic.Int64 }

func (f *failures) Helper()               {}
func (f *failures) Logf(string, ...any)   {}
func (f *failures) Errorf(string, ...any) { f.n.Add(1) }

// TestConformanceFindsBrokenStores: the suite must fail on stores that are not
// what the protocol needs.
func TestConformanceFindsBrokenStores(t *testing.T) {
	t.Parallel()
	same := func(ignore func(v *store.Version)) func(row, from *store.Version) bool {
		return func(row, from *store.Version) bool {
			if row == nil || from == nil {
				return row == from
			}
			a, b := *row, *from
			ignore(&a)
			ignore(&b)
			return a == b
		}
	}
	for name, breakIt := range map[string]func(s *sim.Store){
		"nothing is compared":         func(s *sim.Store) { s.Match = func(_, _ *store.Version) bool { return true } },
		"the fence is not compared":   func(s *sim.Store) { s.Match = same(func(v *store.Version) { v.Fence = 0 }) },
		"the beat is not compared":    func(s *sim.Store) { s.Match = same(func(v *store.Version) { v.Beat = 0 }) },
		"the attempt is not compared": func(s *sim.Store) { s.Match = same(func(v *store.Version) { v.Attempt = "" }) },
		"the holder is not compared":  func(s *sim.Store) { s.Match = same(func(v *store.Version) { v.Holder = "" }) },
		"the ttl is not compared":     func(s *sim.Store) { s.Match = same(func(v *store.Version) { v.TTL = 0 }) },
		"absent rows match": func(s *sim.Store) {
			s.Match = func(row, from *store.Version) bool { return row == nil || store.Same(row, from) }
		},
		"writes are lost":          func(s *sim.Store) { s.Write = func(row *store.Version, _ store.Version) *store.Version { return row } },
		"rejections show old rows": func(s *sim.Store) { s.Reject = func(_, before *store.Version) *store.Version { return before } },
		"rejections show no row":   func(s *sim.Store) { s.Reject = func(_, _ *store.Version) *store.Version { return nil } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sim.New()
			breakIt(s)
			var f failures
			storetest.RunAll(&f, s.Connect("p", 1), "broken", func(_ string, run func(storetest.T)) { run(&f) })
			if f.n.Load() == 0 {
				t.Error("the conformance suite passes")
			}
		})
	}
}

// TestFates checks that each fault does what its name says.
func TestFates(t *testing.T) {
	t.Parallel()
	to := store.Version{Fence: 1, Attempt: "a", Holder: "h", TTL: time.Second}
	for name, c := range map[string]struct {
		faults        sim.Faults
		outcome       store.Outcome
		serverTimeout bool
		atOnce, later bool // is the row there when the caller returns, and at the end
	}{
		"none":           {sim.Faults{Latency: time.Millisecond}, store.OK, false, true, true},
		"request lost":   {sim.Faults{LoseRequest: 1}, store.Unknown, false, false, false},
		"reply lost":     {sim.Faults{LoseReply: 1}, store.Unknown, false, true, true},
		"applied late":   {sim.Faults{Latency: 4 * time.Second, Late: 1, LateBy: time.Minute}, store.Unknown, false, false, true},
		"refused":        {sim.Faults{Refuse: 1}, store.Fail, false, false, false},
		"server timeout": {sim.Faults{ServerTimeout: 1}, store.Unknown, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := sim.New()
				p := s.Connect("p", 2)
				p.SetFaults(c.faults)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if c.serverTimeout {
					ctx = t.Context()
				}
				res, err := p.CAS(ctx, "r", nil, to, 0)
				if got := store.OutcomeOf(err); got != c.outcome || res.Applied != (c.outcome == store.OK) {
					t.Errorf("outcome %s, applied %v, want %s", got, res.Applied, c.outcome)
				}
				if got := store.IsServerTimeout(err); got != c.serverTimeout {
					t.Errorf("server timeout %v, want %v", got, c.serverTimeout)
				}
				if got := s.Row("r") != nil; got != c.atOnce && !c.serverTimeout {
					t.Errorf("row there at return: %v, want %v", got, c.atOnce)
				}
				time.Sleep(2 * time.Minute)
				if got := s.Row("r") != nil; got != c.later && !c.serverTimeout {
					t.Errorf("row there at the end: %v, want %v", got, c.later)
				}
			})
		})
	}
}

// TestGivenUpAtOnce: what is given up at the instant at which it was sent has not left,
// in whatever order the two are scheduled.
func TestGivenUpAtOnce(t *testing.T) {
	t.Parallel()
	for name, crashes := range map[string]bool{"crash": true, "caller": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := sim.New()
				p := s.Connect("p", 3)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() {
					_, err := p.CAS(ctx, "r", nil, store.Version{Fence: 1, Attempt: "a", Holder: "h", TTL: time.Second}, 0)
					done <- err
				}()
				synctest.Wait() // it is sent
				if crashes {
					p.Crash()
				}
				cancel()
				if err := <-done; store.OutcomeOf(err) != store.Fail {
					t.Errorf("CAS: %v", err)
				}
				time.Sleep(time.Minute)
				if s.Row("r") != nil {
					t.Error("it was done")
				}
			})
		})
	}
}

// TestCrashAndCut: a crashed process hears nothing, what it sent stays on its way.
func TestCrashAndCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sim.New()
		p := s.Connect("p", 3)
		p.SetFaults(sim.Faults{Latency: time.Second})
		done := make(chan error)
		go func() {
			_, err := p.CAS(t.Context(), "r", nil, store.Version{Fence: 1, Attempt: "a", Holder: "h", TTL: time.Second}, 0)
			done <- err
		}()
		time.Sleep(time.Nanosecond)
		p.Crash()
		if err := <-done; store.OutcomeOf(err) != store.Unknown {
			t.Errorf("CAS of a crashed process: %v", err)
		}
		if _, err := p.Read(t.Context(), "r", true); store.OutcomeOf(err) != store.Fail {
			t.Errorf("Read after the crash: %v", err)
		}
		time.Sleep(3 * time.Second)
		if s.Row("r") == nil {
			t.Error("the request that was on its way did not arrive")
		}
		q := s.Connect("q", 3)
		q.Cut(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := q.Read(ctx, "r", true); store.OutcomeOf(err) != store.Unknown {
			t.Errorf("Read of a process that is cut off: %v", err)
		}
		q.Cut(false)
		if v, err := q.Read(t.Context(), "r", true); err != nil || v == nil {
			t.Errorf("Read after the cut: %s, %v", v, err)
		}
	})
}

// TestReplay: one seed draws the same fates.
func TestReplay(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) (out string) {
		synctest.Test(t, func(t *testing.T) {
			s := sim.New()
			p := s.Connect("p", seed)
			p.SetFaults(sim.Faults{Latency: time.Millisecond, LoseRequest: 0.2, LoseReply: 0.2, Refuse: 0.2, ServerTimeout: 0.2})
			start := time.Now()
			for i := range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_, err := p.CAS(ctx, fmt.Sprint(i), nil, store.Version{Fence: 1, Attempt: "a", Holder: "h", TTL: time.Second}, 0)
				cancel()
				out += fmt.Sprintln(store.OutcomeOf(err), time.Since(start))
			}
		})
		return out
	}
	if first, again := run(1), run(1); first != again {
		t.Error("two runs of one seed differ")
	}
	if run(1) == run(2) {
		t.Error("runs of two seeds are the same")
	}
}
