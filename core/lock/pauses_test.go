package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/lock"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// quorumless is a store whose nodes see no quorum for reads, or for writes, and say so at
// once. It notes when.
type quorumless struct {
	store.Locks
	reads, writes atomic.Bool

	mu      sync.Mutex
	refused []time.Time
}

func (q *quorumless) refuse() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refused = append(q.refused, time.Now())
	return errNoQuorum
}

// tries is when requests of so many copies were first refused.
func (q *quorumless) tries(copies int) (first []time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := 0; i < len(q.refused); i += copies {
		first = append(first, q.refused[i])
	}
	return first
}

var errNoQuorum = &store.Error{Outcome: store.Fail, Cause: errors.New("no quorum")}

func (q *quorumless) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	if q.reads.Load() {
		return &store.Version{Fence: 9, Holder: "nobody"}, q.refuse() // what comes with an error is no answer
	}
	return q.Locks.Read(ctx, resource, serial)
}

func (q *quorumless) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, n int) (store.CASResult, error) {
	if q.writes.Load() {
		return store.CASResult{}, q.refuse()
	}
	return q.Locks.CAS(ctx, resource, from, to, n)
}

// slowly makes pauses of 1 s that double to 64 s. Copies of one request follow each other
// within 10 ms, so that the pauses are those between requests.
func slowly(o *lock.Options) {
	o.Backoff = lock.Backoff{Min: time.Second, Max: 64 * time.Second}
	o.RequestTimeout = 10 * time.Millisecond
}

// double fails unless the pauses between instants double, half of each more or less. What
// happens at the instants takes less than so long.
func double(t *testing.T, at []time.Time, b lock.Backoff, work time.Duration) {
	t.Helper()
	if d := b.Max; len(at) < 2 || at[len(at)-1].Sub(at[0]) < 2*d {
		t.Errorf("only %d tries", len(at))
	}
	for i, d := 1, b.Min; i < len(at); i++ {
		if w := at[i].Sub(at[i-1]); w < d/2 || w >= d/2+d+work {
			t.Errorf("pause %d lasts %s, want %s, half of it more or less", i, w, d)
		}
		d = min(2*d, b.Max)
	}
}

// TestPausesWhileAcquiring: an acquire that is refused tries again after 1 s, 2 s, 4 s and so on,
// half of it more or less. Each try to write has three copies.
func TestPausesWhileAcquiring(t *testing.T) {
	for name, c := range map[string]struct {
		refuse func(*quorumless)
		copies int
	}{
		"reads":               {func(q *quorumless) { q.reads.Store(true) }, 1},
		"writes after a look": {func(q *quorumless) { q.writes.Store(true) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				q := &quorumless{Locks: r.store.Connect("a", 1)}
				c.refuse(q)
				client := r.clientOn(q, slowly)
				_, err := client.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "h", Timeout: 10 * time.Minute})
				if !errors.Is(err, lock.ErrTimeout) || !errors.Is(err, errNoQuorum) {
					t.Errorf("acquire: %v", err)
				}
				double(t, q.tries(c.copies), lock.Backoff{Min: time.Second, Max: 64 * time.Second}, 100*time.Millisecond)
			})
		})
	}
}

// TestPausesWhileReleasing: a release that is refused is tried again, with pauses that double,
// for two ttls: as long as the row may keep others out.
func TestPausesWhileReleasing(t *testing.T) {
	const ttl = 5 * time.Minute
	bubble(t, func(t *testing.T, r *rig) {
		q := &quorumless{Locks: r.store.Connect("a", 1)}
		c := r.clientOn(q, slowly, noRenew, func(o *lock.Options) { o.TTL = ttl })
		l := r.acquire(c, "h")
		q.writes.Store(true)
		start := time.Now()
		err := l.Release(t.Context())
		if store.OutcomeOf(err) != store.Fail || !errors.Is(err, errNoQuorum) {
			t.Errorf("release: %v", err)
		}
		if d := time.Since(start); d < 2*ttl || d > 2*ttl+97*time.Second {
			t.Errorf("it gave up after %s", d)
		}
		double(t, q.tries(3), lock.Backoff{Min: time.Second, Max: 64 * time.Second}, 100*time.Millisecond)
	})
	t.Run("until a quorum is there", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			q := &quorumless{Locks: r.store.Connect("a", 1)}
			l := r.acquire(r.clientOn(q, slowly, noRenew), "h")
			q.writes.Store(true)
			time.AfterFunc(4*time.Second, func() { q.writes.Store(false) })
			r.release(l)
			if row := r.store.Row("r"); row.Holder != "" || row.Beat != 1 {
				t.Errorf("row %s", row)
			}
		})
	})
}

// TestPausesAfterALateGrant: after a grant, though it is of no use, they begin again.
func TestPausesAfterALateGrant(t *testing.T) {
	const late = 12
	b := lock.Backoff{Min: time.Second, Max: 8 * time.Second}
	bubble(t, func(t *testing.T, r *rig) {
		var at []time.Time
		k := mistake.Locks{Locks: r.store.Connect("a", 1), Kind: lock.Acquire, Do: func(c mistake.CAS) (store.CASResult, error) {
			switch at = append(at, time.Now()); len(at) {
			case late:
				time.Sleep(testTTL)
				fallthrough
			case 1:
				return c.Send()
			}
			return store.CASResult{}, nil // it sees no row, which settles nothing
		}}
		c := r.clientOn(k, noRenew, func(o *lock.Options) { o.Backoff, o.RequestTimeout = b, time.Minute })
		r.release(r.acquire(c, "warm up"))
		if _, err := c.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "h", Timeout: 5 * time.Minute}); !errors.Is(err, lock.ErrLateGrant) {
			t.Errorf("acquire: %v", err)
		}
		double(t, at[1:late], b, 0)
		double(t, at[late:], b, 0)
	})
}

// TestPausesBetweenCopies: a copy that has waited for its full time is followed at once by the next. One
// that is refused before is followed after a pause that doubles, but no later than if it had waited.
func TestPausesBetweenCopies(t *testing.T) {
	for name, c := range map[string]struct {
		timeout time.Duration
		backoff lock.Backoff
		lost    int           // copies without an answer, before
		after   time.Duration // which the others are refused
		want    time.Duration // between copies that are refused; 0: it doubles
	}{
		"refused":                 {time.Second, lock.Backoff{Min: 10 * time.Millisecond, Max: 640 * time.Millisecond}, 0, 0, 0},
		"lost and refused":        {time.Second, lock.Backoff{Min: 10 * time.Millisecond, Max: 640 * time.Millisecond}, 3, 0, 0},
		"refused some time later": {10 * time.Millisecond, lock.Backoff{Min: time.Second, Max: time.Second}, 0, 3 * time.Millisecond, 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				b := &beats{Locks: mistake.Locks{Locks: r.store.Connect("a", 1), Kind: lock.Renew, Do: func(cas mistake.CAS) (store.CASResult, error) {
					if cas.N < c.lost {
						<-cas.Ctx.Done()
						return store.CASResult{}, &store.Error{Cause: context.Cause(cas.Ctx)}
					}
					time.Sleep(c.after)
					return store.CASResult{}, errNoQuorum
				}}}
				l := r.acquire(r.clientOn(b, noRenew, func(o *lock.Options) {
					o.TTL, o.RequestTimeout, o.Backoff = time.Minute, c.timeout, c.backoff
				}), "h")
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if err := l.Renew(ctx); !errors.Is(err, errNoQuorum) {
					t.Errorf("renew: %v", err)
				}
				for i, at := range b.at[1:] {
					want := c.want
					if i < c.lost {
						want = c.timeout
					}
					if d := at.Sub(b.at[i]); want > 0 && d != want {
						t.Errorf("copy %d is followed after %s, want %s", i, d, want)
					}
				}
				if c.want == 0 {
					double(t, b.at[c.lost:], c.backoff, 0)
				}
			})
		})
	}
}

// watchful is a store that notes when and how it was read, and when leases were renewed. Once it
// is emptied, the rows are gone.
type watchful struct {
	store.Locks
	emptied, serial atomic.Bool

	mu            sync.Mutex
	reads, renews []time.Time
}

func (w *watchful) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	w.mu.Lock()
	w.reads = append(w.reads, time.Now())
	w.mu.Unlock()
	if serial {
		w.serial.Store(true)
	}
	return w.Locks.Read(ctx, resource, serial)
}

func (w *watchful) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, n int) (store.CASResult, error) {
	if to.Beat > 0 && to.Holder != "" && w.emptied.Load() {
		w.mu.Lock()
		w.renews = append(w.renews, time.Now())
		w.mu.Unlock()
		return store.CASResult{}, nil
	}
	return w.Locks.CAS(ctx, resource, from, to, n)
}

// TestPausesBetweenLooks: who waits for another's lock looks at it after 50 ms, 100 ms and so on,
// half of it more or less, and after 2 s at most. The looks are plain reads, which cost less.
func TestPausesBetweenLooks(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		w := &watchful{Locks: r.store.Connect("b", 1)}
		r.acquire(r.clientOn(r.store.Connect("a", 1), noRenew, func(o *lock.Options) { o.TTL = time.Minute }), "a")
		_, _ = r.clientOn(w).Acquire(t.Context(), lock.Request{Resource: "r", Holder: "b", Timeout: 30 * time.Second})
		if w.serial.Load() {
			t.Error("a serial read")
		}
		// The longest pause is the longest, not half more.
		for i := 1; i < len(w.reads); i++ {
			if d := w.reads[i].Sub(w.reads[i-1]); d > 2*time.Second+time.Millisecond {
				t.Errorf("pause %d lasts %s", i, d)
			}
		}
		double(t, w.reads, lock.Backoff{Min: 50 * time.Millisecond, Max: 2 * time.Second}, 0)
	})
}

// TestPausesBetweenRenewals: a renewal that fails is tried again soon, and then with pauses that
// double, up to a twelfth of the ttl.
func TestPausesBetweenRenewals(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		w := &watchful{Locks: r.store.Connect("a", 1)}
		c := r.clientOn(w, func(o *lock.Options) {
			o.Backoff.Min, o.Rand = time.Millisecond, rand.New(rand.NewPCG(1, 2))
		})
		l := r.acquire(c, "h")
		for range 2 { // after one that has succeeded they begin again
			start := time.Now()
			w.renews = nil
			w.emptied.Store(true)
			time.Sleep(testTTL * 5 / 6)
			w.emptied.Store(false)
			synctest.Wait()
			var pauses []time.Duration // of which each is only one, and not the rest of a third of the ttl
			for i := 1; i < len(w.renews); i++ {
				if w.renews[i-1].Sub(start) >= testTTL/3 {
					pauses = append(pauses, w.renews[i].Sub(w.renews[i-1]))
				}
			}
			if len(pauses) < 6 || pauses[0] > testTTL/24 {
				t.Fatalf("pauses %s", pauses)
			}
			for i, p := range pauses[1:] {
				if p != min(2*pauses[i], testTTL/12) {
					t.Errorf("a pause of %s after one of %s", p, pauses[i])
				}
			}
			for beat := r.store.Row("r").Beat; r.store.Row("r").Beat == beat; {
				time.Sleep(time.Millisecond)
			}
			synctest.Wait()
		}
		r.release(l)
	})
}

// TestTimeoutBehindAnAbandonedAcquire: who waits for what another caller left behind waits no
// longer than it wants to.
func TestTimeoutBehindAnAbandonedAcquire(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a")
		r.release(r.acquire(c, "warm up"))
		s.SetFaults(sim.Faults{Latency: time.Millisecond, LoseReply: 1})
		for _, holder := range []string{"first", "second"} {
			start := time.Now()
			l, err := c.Acquire(t.Context(), lock.Request{Resource: "r", Holder: holder, Timeout: time.Second})
			var ae *lock.AcquireError
			if l != nil || !errors.As(err, &ae) || ae.Reason != lock.ErrTimeout || ae.Unsettled != (holder == "first") || time.Since(start) != time.Second {
				t.Errorf("%s: %v, %v after %s", holder, l, err, time.Since(start))
			}
		}
		s.SetFaults(sim.Faults{Latency: time.Millisecond})
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if row := r.store.Row("r"); row.Holder != "" {
			t.Errorf("row %s", row)
		}
	})
}

// TestNothingIsSentAfterClose: a client that is closed has no requests left, also of leases that
// were lost with an unsettled renewal and are released only now.
func TestNothingIsSentAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a", noRenew)
		var leases []*lock.Lease
		for n := range 12 {
			l, err := c.Acquire(t.Context(), lock.Request{Resource: fmt.Sprint("r", n), Holder: "h"})
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l)
		}
		s.SetFaults(sim.Faults{Latency: time.Millisecond, LoseReply: 1})
		for _, l := range leases {
			go func() { _ = l.Renew(t.Context()) }()
		}
		time.Sleep(2 * testTTL)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		before := r.rec.all()
		for _, l := range leases {
			if err := l.Release(t.Context()); !errors.Is(err, lock.ErrDeadline) {
				t.Errorf("release: %v", err)
			}
		}
		time.Sleep(testTTL)
		r.ops(before)
	})
}
