package locks

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/bench"
	"fencepost/core/clock"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/reports/stat"
)

// world is a simulated store in a bubble of virtual time.
type world struct {
	t       *testing.T
	store   *sim.Store
	session *sim.Session
	audit   *audit
}

const oneWay = time.Millisecond // mean; 0.5 to 1.5 of it

func newWorld(t *testing.T, faults sim.Faults) *world {
	s := sim.New()
	w := &world{t: t, store: s, session: s.Connect("bench", 1), audit: newAudit()}
	faults.Latency = oneWay
	w.session.SetFaults(faults)
	return w
}

func (w *world) bare() bench.Subject {
	return (&Ceiling{locks: w.session, audit: w.audit, ttl: 6 * time.Second}).Subject()
}

func (w *world) lock() bench.Subject {
	s, err := (&Cycles{w.audit}).Subject(Client{Rows: w.session, TTL: 6 * time.Second, Rand: rand.New(rand.NewPCG(1, 1)), Clock: clock.Go()})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) run(s bench.Subject, arm bench.Arm, c Contention, window time.Duration) bench.Sample {
	w.t.Helper()
	arm.Contention = string(c)
	sample, err := s.Window(w.t.Context(), bench.Window{Arm: arm, Round: 1, Length: window, Seed: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	return sample
}

// end settles a subject and returns the violations of rows by count.
func (w *world) end(s bench.Subject, count func(*store.Version) int64) []string {
	w.t.Helper()
	if err := s.Close(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.session.SetFaults(sim.Faults{Latency: oneWay})
	if err := w.audit.verifyRows(w.t.Context(), w.session, count); err != nil {
		w.t.Fatal(err)
	}
	return w.audit.found()
}

func grants(v *store.Version) int64 { return v.Fence }

func near(got, want, within float64) bool { return math.Abs(got-want) <= within*want }

func TestBareUncontended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, sim.Faults{})
		s := w.bare()
		got := w.run(s, bench.Arm{ID: "C/4", Kind: "cas", Threads: 4}, Low, 2*time.Second)
		// A round trip takes 2 ms in the mean, so four threads do 2,000 a second.
		if !near(got.Rate(), 2000, 0.05) || got.Fail != 0 || got.Unknown != 0 {
			t.Errorf("%v/s, %d failed, %d unknown; want about 2000/s", got.Rate(), got.Fail, got.Unknown)
		}
		if got.LWTsPerOp() != 1 || got.Sent.Rejected != 0 {
			t.Errorf("%v LWTs an operation, %d rejected", got.LWTsPerOp(), got.Sent.Rejected)
		}
		if j := stat.Jain(got.PerThread); j < 0.99 {
			t.Errorf("fairness %v of %v", j, got.PerThread)
		}
		if found := w.end(s, updates); len(found) > 0 {
			t.Error(found)
		}
	})
}

// Under contention useful work is lost to stale expectations, and the count of
// requests must show it.
func TestBareContended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, sim.Faults{})
		s := w.bare()
		got := w.run(s, bench.Arm{ID: "C/8", Kind: "cas", Threads: 8}, High, 2*time.Second)
		if got.OK == 0 || got.LWTsPerOp() < 3 {
			t.Errorf("%d updates with %v LWTs each; want many rejections", got.OK, got.LWTsPerOp())
		}
		if got.OK != got.Latency.TotalCount() {
			t.Errorf("%d latencies of %d operations", got.Latency.TotalCount(), got.OK)
		}
		if found := w.end(s, updates); len(found) > 0 {
			t.Error(found)
		}
	})
}

func TestLockCycle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		contention Contention
		threads    int
		rate       float64 // by hand: a cycle is two round trips of 2 ms
	}{
		{Low, 1, 250},
		{Low, 8, 2000},
		{High, 1, 250},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, sim.Faults{})
			s := w.lock()
			got := w.run(s, bench.Arm{ID: "L", Kind: "lock", Threads: c.threads, TTL: 6 * time.Second}, c.contention, 2*time.Second)
			if !near(got.Rate(), c.rate, 0.05) || got.Fail != 0 || got.Unknown != 0 {
				t.Errorf("%s, %d threads: %v/s, %d failed, %d unknown; want about %v/s", c.contention, c.threads, got.Rate(), got.Fail, got.Unknown, c.rate)
			}
			if got.LWTsPerOp() != 2 || got.Sent.Plain != 0 {
				t.Errorf("%s, %d threads: %v LWTs and %d reads; want 2 LWTs a cycle and no reads", c.contention, c.threads, got.LWTsPerOp(), got.Sent.Plain)
			}
			if found := w.end(s, grants); len(found) > 0 {
				t.Error(found)
			}
		})
	}
}

func TestLockContended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, sim.Faults{})
		s := w.lock()
		got := w.run(s, bench.Arm{ID: "L", Kind: "lock", Threads: 8, TTL: 6 * time.Second}, High, 5*time.Second)
		if got.LWTsPerOp() > 2.05 || got.OK < 500 {
			t.Errorf("%d cycles with %v LWTs each", got.OK, got.LWTsPerOp())
		}
		if j := stat.Jain(got.PerThread); j < 0.99 {
			t.Errorf("fairness %v of %v", j, got.PerThread)
		}
		if got.Waiting == 0 || got.Oldest <= 0 {
			t.Errorf("%d operations waited at the end, the oldest for %s; want the queue", got.Waiting, got.Oldest)
		}
		if found := w.end(s, grants); len(found) > 0 {
			t.Error(found)
		}
	})
}

// Lost replies leave outcomes unknown; no acknowledged change may be missing,
// and unknown ones may or may not be there.
func TestUnknownOutcomes(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"cas", "lock"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, sim.Faults{LoseReply: 0.02, LoseRequest: 0.01, ServerTimeout: 0.02, Refuse: 0.02})
			s, count := w.bare(), updates
			if kind == "lock" {
				s, count = w.lock(), grants
			}
			got := w.run(s, bench.Arm{ID: kind, Kind: kind, Threads: 4, TTL: 6 * time.Second}, Medium, 20*time.Second)
			if got.OK == 0 || got.Sent.Unknown == 0 {
				t.Errorf("%s: %d ok, %d requests unknown; want both", kind, got.OK, got.Sent.Unknown)
			}
			if kind == "cas" && (got.Fail == 0 || got.Unknown == 0) {
				t.Errorf("%s: %d failed, %d unknown; want both", kind, got.Fail, got.Unknown)
			}
			if found := w.end(s, count); len(found) > 0 {
				t.Error(kind, found)
			}
		})
	}
}

// A lock that is fast because it is unsafe must not win.
func TestUnsafeStoreIsFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		sabotage func(*sim.Store)
		kind     string
		want     string
	}{
		{"tokens that do not rise", func(s *sim.Store) {
			s.Write = func(row *store.Version, to store.Version) *store.Version {
				if row != nil {
					to.Fence = row.Fence
				}
				return &to
			}
		}, "lock", "was handed out twice"},
		{"acknowledged updates that are lost", func(s *sim.Store) {
			n := 0
			s.Write = func(row *store.Version, to store.Version) *store.Version {
				if n++; n%10 == 0 && row != nil {
					return row
				}
				return &to
			}
		}, "cas", "were acknowledged"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, sim.Faults{})
			c.sabotage(w.store)
			s, count := w.bare(), updates
			if c.kind == "lock" {
				s, count = w.lock(), grants
			}
			w.run(s, bench.Arm{ID: "x", Kind: c.kind, Threads: 2, TTL: 6 * time.Second}, High, time.Second)
			if found := strings.Join(w.end(s, count), "\n"); !strings.Contains(found, c.want) {
				t.Errorf("%s: found %q, want %q", c.name, found, c.want)
			}
		})
	}
}

// A store that answers nothing gives no numbers, and says so.
func TestNothingAnswers(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"cas", "lock"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, sim.Faults{})
			w.session.Cut(true)
			s := w.bare()
			if kind == "lock" {
				s = w.lock()
			}
			got := w.run(s, bench.Arm{ID: "x", Kind: kind, Threads: 2, TTL: 6 * time.Second}, Low, 2*time.Second)
			if got.OK != 0 || got.Done != 0 || got.Waiting != 2 || got.Oldest < 2*time.Second-time.Millisecond {
				t.Errorf("%s: %d ok, %d done, %d waiting for %s; want only two that waited all the time", kind, got.OK, got.Done, got.Waiting, got.Oldest)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
