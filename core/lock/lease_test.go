package lock_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/sink"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

func TestRenewalKeepsTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a")
		l := r.acquire(c, "h")
		before := l.Deadline()
		time.Sleep(10 * testTTL)
		if !l.Valid() || l.Deadline() <= before || l.Context().Err() != nil {
			t.Error("the lease was not kept")
		}
		if beat := r.store.Row("r").Beat; beat < 29 || beat > 40 {
			t.Errorf("%d renewals in 10 ttl, want one a quarter to a third of it after the other", beat)
		}
		r.release(l)
		if err := context.Cause(l.Context()); !errors.Is(err, lock.ErrReleased) {
			t.Errorf("cause %v", err)
		}
		if err := l.Renew(t.Context()); !errors.Is(err, lock.ErrReleased) || errors.As(err, new(*lock.LostError)) {
			t.Errorf("renew after release: %v", err)
		}
		if l.Valid() || l.Release(t.Context()) != nil {
			t.Error("a second release")
		}
	})
}

// TestDeadline: without a renewal the lease ends a margin before its ttl from
// the first send, and its context says why.
func TestDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a", noRenew)
		start := time.Now()
		l := r.acquire(c, "h")
		<-l.Context().Done()
		want := testTTL - clock.Drift{Bound: 0.01, Base: 100 * time.Millisecond}.Margin(testTTL)
		if got := time.Since(start).Round(5 * time.Millisecond); got != want {
			t.Errorf("lost after %s, want %s", got, want)
		}
		var lost *lock.LostError
		if cause := context.Cause(l.Context()); !errors.As(cause, &lost) || !errors.Is(cause, lock.ErrDeadline) || lost.Token != 1 {
			t.Errorf("cause %v", cause)
		}
		if l.Valid() {
			t.Error("valid after its deadline")
		}
		if err := l.Renew(t.Context()); !errors.Is(err, lock.ErrDeadline) {
			t.Errorf("renew: %v", err)
		}
		synctest.Wait()
		if lost := r.rec.losses(); len(lost) != 1 {
			t.Errorf("reported lost %d times", len(lost))
		}
		if err := l.Release(t.Context()); !errors.As(err, &lost) {
			t.Errorf("release: %v", err)
		}
		r.ops("[acquire:ok/1 release:ok/1]") // no renewal was sent; the row is freed all the same
	})
}

// TestValidLooksAtTheClock: after a suspend the timer has not fired yet.
func TestValidLooksAtTheClock(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		jump := &jumpClock{Clock: clock.Go()}
		c, _ := r.client("a", func(o *lock.Options) { o.Clock = jump })
		l := r.acquire(c, "h")
		jump.jump(time.Hour)
		if l.Valid() {
			t.Error("valid an hour later")
		}
		if !errors.Is(context.Cause(l.Context()), lock.ErrDeadline) {
			t.Errorf("cause %v", context.Cause(l.Context()))
		}
	})
}

// jumpClock is a clock that went on while the machine slept; its timers did not.
type jumpClock struct {
	clock.Clock
	mu  sync.Mutex
	off time.Duration
}

func (c *jumpClock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Clock.Now() + c.off
}

func (c *jumpClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

// TestTakenOverIsNoticed: a renewal that is rejected ends the lease at once. A release that is
// rejected says so, and leaves the row alone.
func TestTakenOverIsNoticed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, _ := r.client("a", noRenew)
		l := r.acquire(a, "a")
		r.steal()
		err := l.Renew(t.Context())
		if !errors.As(err, new(*lock.LostError)) || !errors.Is(err, lock.ErrTakenOver) {
			t.Errorf("renew: %v", err)
		}
		if l.Valid() || l.Context().Err() == nil {
			t.Error("the lease lives on")
		}
		if err := l.Release(t.Context()); !errors.Is(err, lock.ErrTakenOver) {
			t.Errorf("release: %v", err)
		}
		r.ops("[acquire:ok/1 renew:fail/1]") // the stale release sends nothing
	})
	t.Run("by a release", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			a, _ := r.client("a", noRenew)
			l := r.acquire(a, "a")
			thief := r.steal()
			var lost *lock.LostError
			if err := l.Release(t.Context()); !errors.As(err, &lost) || !errors.Is(err, lock.ErrTakenOver) || lost.Token != 1 {
				t.Errorf("release: %v", err)
			}
			if row := r.store.Row("r"); *row != thief {
				t.Errorf("row %s", row)
			}
			r.ops("[acquire:ok/1 release:fail/1]")
		})
	})
}

// TestRenewalThroughRefusals: refusals do not end a renewal before its deadline.
func TestRenewalThroughRefusals(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a", noRenew)
		l := r.acquire(c, "h")
		s.SetFaults(sim.Faults{Latency: time.Millisecond, Refuse: 1})
		time.AfterFunc(3*time.Second, func() { s.SetFaults(sim.Faults{Latency: time.Millisecond}) })
		before := l.Deadline()
		if err := l.Renew(t.Context()); err != nil {
			t.Errorf("renew: %v", err)
		}
		// The trust counts from the first send, not from the copy that succeeded.
		if moved := l.Deadline() - before; moved > 100*time.Millisecond {
			t.Errorf("the deadline moved by %s", moved)
		}
	})
}

// TestServerTimeout: End says when no copy is on its way any more.
func TestServerTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a", noRenew)
		l := r.acquire(c, "h")
		s.SetFaults(sim.Faults{Latency: time.Millisecond, ServerTimeout: 1})
		if err := l.Renew(t.Context()); !errors.As(err, new(*lock.LostError)) {
			t.Errorf("renew: %v", err)
		}
		ops := r.rec.all()
		if ops[len(ops)-2] != '!' {
			t.Errorf("operations %s: the last should be known to be over", ops)
		}
	})
	t.Run("a copy without an answer", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			c, s := r.client("a", noRenew)
			l := r.acquire(c, "h")
			s.SetFaults(sim.Faults{Latency: time.Millisecond, LoseRequest: 1})
			time.AfterFunc(500*time.Millisecond, func() { s.SetFaults(sim.Faults{Latency: time.Millisecond, ServerTimeout: 1}) })
			_ = l.Renew(t.Context())
			ops := r.rec.all()
			if ops[len(ops)-2] == '!' {
				t.Errorf("operations %s: the first copy may still be on its way", ops)
			}
		})
	})
}

// TestRenewalBehindAnother: who gives up waiting for another renewal is not told that it renewed.
func TestRenewalBehindAnother(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a", noRenew)
		l := r.acquire(c, "h")
		s.Cut(true)
		go func() { _ = l.Renew(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Renew(ctx); store.OutcomeOf(err) != store.Fail || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("renew: %v", err)
		}
	})
}

func TestReleaseInTheBackground(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a", noRenew)
		l := r.acquire(c, "h")
		s.Cut(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Release(ctx); store.OutcomeOf(err) != store.Unknown || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("release: %v", err)
		}
		s.Cut(false)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if row := r.store.Row("r"); row.Holder != "" {
			t.Errorf("row %s", row)
		}
	})
}

// TestRestoredLocks: an old copy of the rows gives tokens out again, which a sink that was
// not restored refuses as stale. With fences raised it takes them, and those of holders
// from before stay refused.
func TestRestoredLocks(t *testing.T) {
	t.Parallel()
	for _, raised := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			effects := sinktest.NewMemory()
			token := func(s *sim.Store, name string) int64 {
				c, err := lock.New(s.Connect("w", 1), lock.Options{Logger: quiet})
				if err != nil {
					t.Fatal(err)
				}
				l, err := c.Acquire(t.Context(), lock.Request{Resource: name, Holder: "h"})
				if err != nil {
					t.Fatal(err)
				}
				token := l.Token()
				if err := l.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := c.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				return token
			}
			// The copy has the row of one lock as of its third grant, and not that of the other.
			live, copied := sim.New(), sim.New()
			for n := range 10 {
				if n < 3 {
					token(copied, "old")
				}
				for _, name := range []string{"old", "young"} {
					if _, err := effects.Raise(t.Context(), name, name, token(live, name)); err != nil {
						t.Fatal(err)
					}
				}
			}
			for name, want := range map[string]int64{"old": 1003, "young": 1000} {
				if raised {
					if got, err := lock.RaiseFence(t.Context(), copied.Connect("operator", 1), name, 1000); err != nil || got != want {
						t.Fatalf("%s: %d, %v", name, got, err)
					}
				}
				a, err := effects.Raise(t.Context(), name, name, token(copied, name))
				if err != nil || (a.Result == sink.Stale) == raised {
					t.Errorf("raised %v, %s: %+v, %v", raised, name, a, err)
				}
				if a, err := effects.Raise(t.Context(), name, name, 9); err != nil || a.Result != sink.Stale {
					t.Errorf("a holder from before: %+v, %v", a, err)
				}
			}
		})
	}
}

// TestRaiseFence: what cannot be raised is left as it is.
func TestRaiseFence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sim.New().Connect("operator", 1)
		full := store.Version{Fence: math.MaxInt64 - 10, Attempt: "3b241101-e2bb-4255-8caf-4136c566a962", TTL: lock.DefaultTTL}
		if res, err := s.CAS(t.Context(), "full", nil, full, 0); err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		for name, by := range map[string]int64{"full": 9, "none": 0, "less": -1} {
			if got, err := lock.RaiseFence(t.Context(), s, name, by); err == nil {
				t.Errorf("%s by %d: raised to %d", name, by, got)
			}
		}
		if row, err := s.Read(t.Context(), "full", true); err != nil || *row != full {
			t.Errorf("%v, %v", row, err)
		}
		if got, err := lock.RaiseFence(t.Context(), s, "full", 8); err != nil || got != math.MaxInt64-2 {
			t.Errorf("%d, %v", got, err)
		}
		if got, err := lock.RaiseFence(t.Context(), s, "new", 1); err != nil || got != 1 {
			t.Errorf("by 1: %d, %v", got, err)
		}
		// What a plain read shows may be late: it would name a version that is gone.
		s.SetFaults(sim.Faults{StaleRead: 1})
		if got, err := lock.RaiseFence(t.Context(), s, "new", 1); err != nil || got != 2 {
			t.Errorf("again: %d, %v", got, err)
		}
		none := &quorumless{Locks: s}
		for _, refuses := range []*atomic.Bool{&none.reads, &none.writes} {
			refuses.Store(true)
			if got, err := lock.RaiseFence(t.Context(), none, "new", 1); !errors.Is(err, errNoQuorum) || got != 0 {
				t.Errorf("without a quorum: %d, %v", got, err)
			}
			refuses.Store(false)
		}
		if got, err := lock.RaiseFence(t.Context(), blind{s}, "new", 1); err == nil {
			t.Errorf("raised to %d though another was quicker", got)
		}
		if row, err := s.Read(t.Context(), "new", true); err != nil || row.Fence != 2 || !row.Free() {
			t.Errorf("%s, %v", row, err)
		}
	})
}

// blind is a store that is always changed between a read and what follows from it.
type blind struct{ store.Locks }

func (blind) Read(context.Context, string, bool) (*store.Version, error) { return nil, nil }
