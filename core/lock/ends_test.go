package lock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// begun is a clock whose timers run a moment after they have fired: to stop them is too late.
type begun struct{ clock.Clock }

func (c begun) AfterFunc(d time.Duration, f func()) func() bool {
	return c.Clock.AfterFunc(d, func() {
		time.Sleep(time.Millisecond)
		f()
	})
}

// TestTimerThatHasBegun: the deadline's timer finds a lease that is lost already.
func TestTimerThatHasBegun(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a", noRenew, func(o *lock.Options) { o.Clock = begun{clock.Go()} })
		l := r.acquire(c, "h")
		time.Sleep(l.Deadline() - clock.Go().Now())
		if l.Valid() {
			t.Error("valid at its deadline")
		}
		time.Sleep(time.Second)
		if n := len(r.rec.losses()); n != 1 {
			t.Errorf("lost %d times", n)
		}
	})
}

// early is a clock whose timers of more than a second fire a second too soon.
type early struct{ clock.Clock }

func (c early) AfterFunc(d time.Duration, f func()) func() bool {
	if d > time.Second {
		d -= time.Second
	}
	return c.Clock.AfterFunc(d, f)
}

// TestTimerThatFiresEarly: a lease is held up to its deadline, and not longer, whenever the timer fires.
func TestTimerThatFiresEarly(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a", noRenew, func(o *lock.Options) { o.Clock = early{clock.Go()} })
		l := r.acquire(c, "h")
		deadline := l.Deadline()
		<-l.Context().Done()
		if late := clock.Go().Now() - deadline; late < 0 || late > time.Millisecond {
			t.Errorf("it ended %s after its deadline", late)
		}
	})
}

// leaving is a store that answers a request for a lock as its caller goes.
type leaving struct {
	store.Locks
	leave context.CancelFunc
}

func (s *leaving) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, n int) (store.CASResult, error) {
	res, err := s.Locks.CAS(ctx, resource, from, to, n)
	if to.Holder == "leaver" {
		s.leave()
	}
	return res, err
}

// TestGrantedAsItsCallerLeaves: whichever comes first, the next caller gets the lock.
func TestGrantedAsItsCallerLeaves(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := &leaving{Locks: r.store.Connect("a", 1)}
		c := r.clientOn(s)
		for range 50 {
			ctx, cancel := context.WithCancel(t.Context())
			s.leave = cancel
			if l, err := c.Acquire(ctx, lock.Request{Resource: "r", Holder: "leaver"}); err == nil {
				r.release(l)
			} else if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			l, err := c.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "next", Timeout: testTTL / 2})
			if err != nil {
				t.Fatal(err)
			}
			r.release(l)
		}
	})
}

// TestReleasedAsACallerLooks: what happens between a caller's look and its wait for news is not missed.
func TestReleasedAsACallerLooks(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		hook := &hookClock{Clock: clock.Go()}
		c := r.clientOn(r.store.Connect("a", 1), noRenew, func(o *lock.Options) { o.Clock, o.Backoff.Min = hook, time.Second })
		l := r.acquire(c, "h")
		synctest.Wait()
		hook.n, hook.call = 1, func() { r.release(l) }
		start := time.Now()
		r.release(r.acquire(c, "next"))
		if d := time.Since(start); d > 100*time.Millisecond || hook.disarm() {
			t.Errorf("the next caller has it after %s", d)
		}
	})
}

// timers is a clock that counts the timers that are set.
type timers struct {
	clock.Clock
	set atomic.Int64
}

func (c *timers) AfterFunc(d time.Duration, f func()) func() bool {
	c.set.Add(1)
	stop := c.Clock.AfterFunc(d, func() { c.set.Add(-1); f() })
	return func() bool {
		stopped := stop()
		if stopped {
			c.set.Add(-1)
		}
		return stopped
	}
}

// TestTimersAreStopped: a lease has one timer, however often it was renewed, and none once it has
// ended. What was asked of the store leaves none.
func TestTimersAreStopped(t *testing.T) {
	for name, end := range map[string]func(*rig, *lock.Lease){
		"released": func(r *rig, l *lock.Lease) { r.release(l) },
		"taken over": func(r *rig, l *lock.Lease) {
			r.steal()
			if err := l.Renew(r.t.Context()); !errors.Is(err, lock.ErrTakenOver) {
				r.t.Errorf("renew: %v", err)
			}
		},
		"released while it is renewed": func(r *rig, l *lock.Lease) {
			go func() { _ = l.Renew(r.t.Context()) }()
			synctest.Wait()
			r.release(l)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				set := &timers{Clock: clock.Go()}
				c, _ := r.client("a", noRenew, func(o *lock.Options) { o.Clock = set })
				l, err := c.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "h", Timeout: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				held := func() {
					t.Helper()
					if n := set.set.Load(); n != 1 {
						t.Errorf("a held lease has %d timers", n)
					}
				}
				held()
				for range 5 {
					time.Sleep(time.Second)
					if err := l.Renew(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				held()
				end(r, l)
				if n := set.set.Load(); n != 0 {
					t.Errorf("a lease that has ended has %d timers", n)
				}
			})
		})
	}
}

// TestReleaseAtTheDeadline: who releases a lease at its deadline, before its timer has run, has lost it.
func TestReleaseAtTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a", noRenew, func(o *lock.Options) { o.Clock = begun{clock.Go()} })
		l := r.acquire(c, "h")
		time.Sleep(l.Deadline() - clock.Go().Now())
		if err := l.Release(t.Context()); !errors.Is(err, lock.ErrDeadline) || len(r.rec.losses()) != 1 {
			t.Errorf("release: %v", err)
		}
	})
}

// TestTwoRenewalsAtTheDeadline: of two that wait for each other both end with the lease.
func TestTwoRenewalsAtTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a")
		l := r.acquire(c, "h")
		time.Sleep(testTTL / 5)
		s.SetFaults(sim.Faults{Latency: time.Millisecond, LoseRequest: 1})
		if err := l.Renew(t.Context()); !errors.Is(err, lock.ErrDeadline) {
			t.Errorf("renew: %v", err)
		}
		s.SetFaults(sim.Faults{Latency: time.Millisecond})
		if err := l.Release(t.Context()); !errors.As(err, new(*lock.LostError)) {
			t.Errorf("release: %v", err)
		}
	})
}

// refusing answers the first copy by the coordinator's timeout, and refuses the others for good.
type refusing struct{ store.Locks }

func (f refusing) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, n int) (store.CASResult, error) {
	if to.Beat == 0 {
		return f.Locks.CAS(ctx, resource, from, to, n)
	}
	if n == 0 {
		return store.CASResult{}, &store.Error{Outcome: store.Unknown, ServerTimeout: true, Cause: errors.New("timeout")}
	}
	return store.CASResult{}, &store.Error{Outcome: store.Fail, Permanent: true, Cause: errors.New("no permission")}
}

// TestRefusedAfterATimeout: a release that ends with refusals is not reported as the server's timeout.
func TestRefusedAfterATimeout(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.store.Connect("a", 7)
		s.SetFaults(sim.Faults{Latency: time.Millisecond})
		l := r.acquire(r.clientOn(refusing{s}, noRenew), "h")
		if err := l.Release(t.Context()); store.OutcomeOf(err) != store.Unknown || !store.IsPermanent(err) {
			t.Errorf("release: %v", err)
		}
		r.ops("[acquire:ok/1 release:unknown/4]")
	})
}

// TestLateGrant: a grant that becomes known after its deadline is not given to
// its caller, who goes on trying.
func TestLateGrant(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a", func(o *lock.Options) { o.RequestTimeout = 2 * time.Second })
		r.release(r.acquire(c, "warm up"))
		s.SetFaults(sim.Faults{Latency: time.Millisecond, LoseReply: 1})
		time.AfterFunc(7*time.Second, func() { s.SetFaults(sim.Faults{Latency: time.Millisecond}) })
		l := r.acquire(c, "h")
		if l.Token() != 3 || !l.Valid() {
			t.Errorf("token %d", l.Token())
		}
		if lost := r.rec.losses(); len(lost) != 1 || !errors.Is(lost[0], lock.ErrLateGrant) {
			t.Errorf("lost %v", lost)
		}
		r.ops("[acquire:ok/1 release:ok/1 acquire:ok/5 release:ok/1 acquire:ok/1]")
	})
	t.Run("that is not given back in time", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			s := r.store.Connect("a", 7)
			k := &keeping{Locks: s}
			c := r.clientOn(k)
			r.release(r.acquire(c, "warm up"))
			k.on.Store(true)
			s.SetFaults(sim.Faults{Latency: time.Millisecond, LoseReply: 1})
			time.AfterFunc(7*time.Second, func() { s.SetFaults(sim.Faults{Latency: time.Millisecond}) })
			_, err := c.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "h", Timeout: 10 * time.Second})
			var ae *lock.AcquireError
			if !errors.As(err, &ae) || !ae.Unsettled || ae.Reason != lock.ErrTimeout || !errors.Is(err, lock.ErrLateGrant) {
				t.Errorf("acquire: %v", err)
			}
		})
	})
}

// keeping is a store that answers no release.
type keeping struct {
	store.Locks
	on atomic.Bool
}

func (k *keeping) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, n int) (store.CASResult, error) {
	if k.on.Load() && to.Holder == "" {
		<-ctx.Done()
		return store.CASResult{}, context.Cause(ctx)
	}
	return k.Locks.CAS(ctx, resource, from, to, n)
}
