package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// quorumless is a store whose nodes see no quorum for reads, or for writes, and say so at
// once. It counts what it refuses.
type quorumless struct {
	store.Locks
	reads, writes atomic.Bool
	refused       atomic.Int64
}

var errNoQuorum = &store.Error{Outcome: store.Fail, Cause: errors.New("no quorum")}

func (q *quorumless) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	if q.reads.Load() {
		q.refused.Add(1)
		return nil, errNoQuorum
	}
	return q.Locks.Read(ctx, resource, serial)
}

func (q *quorumless) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, n int) (store.CASResult, error) {
	if q.writes.Load() {
		q.refused.Add(1)
		return store.CASResult{}, errNoQuorum
	}
	return q.Locks.CAS(ctx, resource, from, to, n)
}

// slowly makes pauses of 1 s that double to 4 s. Copies of one request follow each other
// within 10 ms, so that the pauses are those between requests.
func slowly(o *lock.Options) {
	o.Backoff = lock.Backoff{Min: time.Second, Max: 4 * time.Second}
	o.RequestTimeout = 10 * time.Millisecond
}

// TestPausesWhileAcquiring: an acquire that is refused tries again after 1 s, 2 s, 4 s and so on,
// half of it more or less: 6 to 17 times in 30 s. Each try to write has three copies.
func TestPausesWhileAcquiring(t *testing.T) {
	for name, c := range map[string]struct {
		refuse func(*quorumless)
		copies int64
	}{
		"reads":               {func(q *quorumless) { q.reads.Store(true) }, 1},
		"writes after a look": {func(q *quorumless) { q.writes.Store(true) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				q := &quorumless{Locks: r.store.Connect("a", 1)}
				c.refuse(q)
				client := r.clientOn(q, slowly)
				_, err := client.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "h", Timeout: 30 * time.Second})
				if !errors.Is(err, lock.ErrTimeout) || !errors.Is(err, errNoQuorum) {
					t.Errorf("acquire: %v", err)
				}
				if n := q.refused.Load() / c.copies; n < 6 || n > 17 {
					t.Errorf("it tried %d times in 30 s", n)
				}
			})
		})
	}
}

// TestPausesWhileReleasing: a release that is refused is tried again, with pauses that double,
// for two ttls: as long as the row may keep others out.
func TestPausesWhileReleasing(t *testing.T) {
	const ttl = 20 * time.Second
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
		if d := time.Since(start); d < 2*ttl || d > 2*ttl+7*time.Second {
			t.Errorf("it gave up after %s", d)
		}
		if n := q.refused.Load() / 3; n < 8 || n > 23 {
			t.Errorf("it tried %d times in %s", n, 2*ttl)
		}
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

// TestTryAcquireHasALimit: without an answer it ends after the ttl that it asks for.
func TestTryAcquireHasALimit(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{0: testTTL, 3 * time.Second: 3 * time.Second} {
		t.Run(fmt.Sprint(asked), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				c, s := r.client("a")
				s.Cut(true)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				start := time.Now()
				_, err := c.TryAcquire(ctx, lock.Request{Resource: "r", Holder: "h", TTL: asked})
				if d := time.Since(start); !errors.Is(err, lock.ErrTimeout) || d != want {
					t.Errorf("after %s: %v", d, err)
				}
			})
		})
	}
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
