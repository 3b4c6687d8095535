package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// TestPendingRenewal: a renewal that its caller abandoned is continued, not
// repeated, and a release settles it first.
func TestPendingRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a", noRenew)
		l := r.acquire(c, "h")
		s.SetFaults(sim.Faults{Latency: time.Millisecond, LoseReply: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := l.Renew(ctx); store.OutcomeOf(err) != store.Unknown || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("renew: %v", err)
		}
		s.SetFaults(sim.Faults{Latency: time.Millisecond})
		r.release(l)
		r.ops("[acquire:ok/1 renew:ok/2 release:ok/1]")
	})
	t.Run("up to the deadline", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			c, s := r.client("a", noRenew)
			l := r.acquire(c, "h")
			s.SetFaults(sim.Faults{Latency: time.Millisecond, LoseReply: 1})
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			if err := l.Renew(ctx); store.OutcomeOf(err) != store.Unknown {
				t.Errorf("renew: %v", err)
			}
			time.AfterFunc(testTTL-500*time.Millisecond, func() { s.SetFaults(sim.Faults{Latency: time.Millisecond}) }) // no copy is sent any more
			r.release(l)
			r.ops("[acquire:ok/1 renew:unknown/7 read:ok/1 release:ok/1]")
		})
	})
	lost := errors.New("the answer is lost")
	for name, c := range map[string]struct {
		err     *store.Error // ends the first copy
		applied bool
	}{
		"refused at first":          {&store.Error{Outcome: store.Fail, Cause: lost}, false},
		"timed out at first":        {&store.Error{ServerTimeout: true, Cause: lost}, false},
		"applied at first, unheard": {&store.Error{Cause: lost}, true},
	} {
		t.Run(name, func(t *testing.T) { // the one after it is another
			bubble(t, func(t *testing.T, r *rig) {
				first := true
				k := mistake.Locks{Locks: r.store.Connect("a", 1), Kind: lock.Renew, Do: func(cas mistake.CAS) (store.CASResult, error) {
					if !first {
						return cas.Send()
					}
					if first = false; c.applied {
						_, _ = cas.Send()
					}
					return store.CASResult{}, c.err
				}}
				l := r.acquire(r.clientOn(k, noRenew), "h")
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // less than the pause
				defer cancel()
				if err := l.Renew(ctx); store.OutcomeOf(err) != store.Unknown || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lost) {
					t.Errorf("renew: %v", err)
				}
				for range 2 {
					if err := l.Renew(t.Context()); err != nil {
						t.Errorf("renew: %v", err)
					}
				}
				r.ops("[acquire:ok/1 renew:ok/2 renew:ok/1]")
				if row := r.store.Row("r"); row.Beat != 2 {
					t.Errorf("row %s", row)
				}
			})
		})
	}
}

// TestRenewalThatIsNotSent: it certainly renewed nothing, and nothing is left to continue.
func TestRenewalThatIsNotSent(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a", noRenew)
		l := r.acquire(c, "h")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 50 { // as it may see its turn or the end first
			if err := l.Renew(ctx); store.OutcomeOf(err) != store.Fail || !errors.Is(err, context.Canceled) {
				t.Fatalf("renew: %v", err)
			}
		}
		r.ops("[acquire:ok/1]")
	})
}

// TestUnknownRelease: who is told that the outcome is unknown is told why.
func TestUnknownRelease(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		k := mistake.Locks{Locks: r.store.Connect("a", 1), Kind: lock.Release, Do: func(c mistake.CAS) (store.CASResult, error) {
			if c.N < 2 {
				return store.CASResult{}, &store.Error{Cause: errors.New("the request is lost")}
			}
			r.steal()
			return c.Send()
		}}
		l := r.acquire(r.clientOn(k, noRenew), "h")
		err := l.Release(t.Context())
		if store.OutcomeOf(err) != store.Unknown || errors.As(err, new(*lock.LostError)) || !strings.Contains(err.Error(), "refused after 2 earlier copies") {
			t.Errorf("release: %v", err)
		}
		r.ops("[acquire:ok/1 release:unknown/3]")
	})
}

// TestUnsettledAtTheDeadline: the row is freed by what a SERIAL read shows.
func TestUnsettledAtTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a", noRenew)
		l := r.acquire(c, "h")
		s.SetFaults(sim.Faults{Latency: time.Millisecond, LoseReply: 1})
		if err := l.Renew(t.Context()); !errors.As(err, new(*lock.LostError)) || !errors.Is(err, lock.ErrDeadline) {
			t.Errorf("renew: %v", err)
		}
		s.SetFaults(sim.Faults{Latency: time.Millisecond, StaleRead: 1}) // no plain read would do
		if err := l.Release(t.Context()); !errors.As(err, new(*lock.LostError)) {
			t.Errorf("release: %v", err)
		}
		if row := r.store.Row("r"); row.Holder != "" || row.Fence != 1 {
			t.Errorf("row %s", row)
		}
		r.ops("[acquire:ok/1 renew:unknown/6 read:ok/1 release:ok/1]")
	})
	t.Run("which is another's", func(t *testing.T) { // and stays so; to know it costs no more
		bubble(t, func(t *testing.T, r *rig) {
			c, s := r.client("a", noRenew)
			l := r.acquire(c, "h")
			s.SetFaults(sim.Faults{Latency: time.Millisecond, LoseReply: 1})
			if err := l.Renew(t.Context()); !errors.Is(err, lock.ErrDeadline) {
				t.Errorf("renew: %v", err)
			}
			s.SetFaults(sim.Faults{Latency: time.Millisecond})
			time.Sleep(testTTL)
			thief := r.steal()
			if err := l.Release(t.Context()); !errors.As(err, new(*lock.LostError)) {
				t.Errorf("release: %v", err)
			}
			if _, err := c.TryAcquire(t.Context(), lock.Request{Resource: "r", Holder: "h"}); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("acquire: %v", err)
			}
			if row := r.store.Row("r"); *row != thief {
				t.Errorf("row %s", row)
			}
			r.ops("[acquire:ok/1 renew:unknown/6 read:ok/1]")
		})
	})
	for name, fault := range map[string]sim.Faults{
		"without a read": {Latency: time.Millisecond, LoseRequest: 1},
		"without a read, if the renewal was applied": {Latency: time.Millisecond, LoseReply: 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				s := r.store.Connect("a", 7)
				q := &quorumless{Locks: s}
				l := r.acquire(r.clientOn(q, noRenew), "h")
				s.SetFaults(fault)
				if err := l.Renew(t.Context()); !errors.Is(err, lock.ErrDeadline) {
					t.Errorf("renew: %v", err)
				}
				s.SetFaults(sim.Faults{Latency: time.Millisecond})
				q.reads.Store(true)
				if err := l.Release(t.Context()); !errors.Is(err, lock.ErrDeadline) {
					t.Errorf("release: %v", err)
				}
				if row := r.store.Row("r"); row.Holder != "" {
					t.Errorf("row %s", row)
				}
			})
		})
	}
}

// TestRenewalConfirmedTooLate: a renewal that becomes known after the deadline renewed nothing.
func TestRenewalConfirmedTooLate(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a", noRenew)
		l := r.acquire(c, "h")
		time.Sleep(testTTL - 400*time.Millisecond) // 180 ms before the deadline
		s.SetFaults(sim.Faults{Latency: 300 * time.Millisecond})
		if err := l.Renew(t.Context()); !errors.Is(err, lock.ErrDeadline) || r.store.Row("r").Beat != 1 {
			t.Errorf("renew: %v", err)
		}
	})
	t.Run("before its timer has run", func(t *testing.T) { // as the machine slept
		bubble(t, func(t *testing.T, r *rig) {
			jump := &jumpClock{Clock: clock.Go(), off: century}
			k := mistake.Locks{Locks: r.store.Connect("a", 1), Kind: lock.Renew, Do: func(c mistake.CAS) (store.CASResult, error) {
				defer jump.jump(testTTL / 2)
				return c.Send()
			}}
			c := r.clientOn(k, noRenew, func(o *lock.Options) { o.Clock = jump })
			l := r.acquire(c, "h")
			time.Sleep(testTTL / 2)
			if err := l.Renew(t.Context()); !errors.Is(err, lock.ErrDeadline) || r.store.Row("r").Beat != 1 {
				t.Errorf("renew: %v", err)
			}
			if l.Valid() || l.Context().Err() == nil || len(r.rec.losses()) != 1 {
				t.Error("the lease lives on")
			}
		})
	})
}
