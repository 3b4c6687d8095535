package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/lock"
	"fencepost/core/store/sim"
)

func TestUncontendedCost(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a")
		for i := range int64(3) {
			l := r.acquire(c, "h")
			if l.Token() != i+1 || !l.Valid() || l.Holder() != "h" || l.Resource() != "r" || l.TTL() != testTTL {
				t.Errorf("lease %d of %q by %q", l.Token(), l.Resource(), l.Holder())
			}
			r.release(l)
		}
		r.ops("[acquire:ok/1 release:ok/1 acquire:ok/1 release:ok/1 acquire:ok/1 release:ok/1]")
		if row := r.store.Row("r"); row.Fence != 3 || row.Holder != "" {
			t.Errorf("row %s", row)
		}
	})
}

func TestTakeover(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, _ := r.client("a", noRenew)
		b, _ := r.client("b")
		la := r.acquire(a, "a")
		start := time.Now()
		lb := r.acquire(b, "b")
		if waited := time.Since(start); waited < testTTL || waited > testTTL+20*time.Millisecond {
			t.Errorf("taken over after %s", waited)
		}
		if la.Valid() || lb.Token() != 2 {
			t.Errorf("token %d, the old one valid: %v", lb.Token(), la.Valid())
		}
		if err := la.Release(t.Context()); !errors.As(err, new(*lock.LostError)) {
			t.Errorf("stale release: %v", err)
		}
		if row := r.store.Row("r"); row.Holder != "b" {
			t.Errorf("the stale release changed the row: %s", row)
		}
		r.ops("[acquire:ok/1 takeover:ok/1 release:fail/1]")
	})
}

// TestLiveHolderIsLeftAlone: a contender never takes a lease that is renewed.
func TestLiveHolderIsLeftAlone(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, _ := r.client("a")
		b, _ := r.client("b")
		l := r.acquire(a, "a")
		_, err := b.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "b", Timeout: 20 * testTTL})
		var ae *lock.AcquireError
		if !errors.Is(err, lock.ErrTimeout) || !errors.As(err, &ae) || ae.Row == nil || ae.Row.Holder != "a" || ae.Unsettled {
			t.Errorf("contender: %v", err)
		}
		if !l.Valid() {
			t.Error("the holder lost its lease")
		}
	})
}

func TestFIFO(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a")
		l := r.acquire(c, "first")
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				l := r.acquire(c, fmt.Sprint(i))
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				r.release(l)
			})
			synctest.Wait()
		}
		start := time.Now()
		r.release(l)
		wg.Wait()
		if fmt.Sprint(order) != "[0 1 2 3 4]" {
			t.Errorf("order %v", order)
		}
		if d := time.Since(start); d > 100*time.Millisecond {
			t.Errorf("five hand-overs took %s", d)
		}
	})
}

// TestQueueLeft: a caller that gives up leaves no gap in the queue.
func TestQueueLeft(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a")
		l := r.acquire(c, "first")
		done := make(chan string, 3)
		for i, timeout := range []time.Duration{time.Second, 2 * time.Second, 0} {
			go func() {
				_, err := c.Acquire(t.Context(), lock.Request{Resource: "r", Holder: fmt.Sprint(i), Timeout: timeout})
				done <- fmt.Sprint(i, err == nil, errors.Is(err, lock.ErrTimeout))
			}()
			synctest.Wait()
		}
		for _, want := range []string{"0 false true", "1 false true"} {
			if got := <-done; got != want {
				t.Errorf("caller %s, want %s", got, want)
			}
		}
		r.release(l)
		if got := <-done; got != "2 true false" {
			t.Errorf("caller %s", got)
		}
	})
}

// TestAbandonedAcquire: a grant whose caller has gone is released in the
// background, and the next caller of the process waits for that.
func TestAbandonedAcquire(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a")
		s.SetFaults(sim.Faults{Latency: time.Millisecond, LoseReply: 1})
		_, err := c.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "h", Timeout: 1500 * time.Millisecond})
		var ae *lock.AcquireError
		if !errors.As(err, &ae) || !errors.Is(err, lock.ErrTimeout) {
			t.Fatalf("acquire: %v", err)
		}
		// The read of the row was lost too, so nothing was sent yet.
		s.SetFaults(sim.Faults{Latency: time.Millisecond})
		r.release(r.acquire(c, "warm up"))
		s.SetFaults(sim.Faults{Latency: time.Millisecond, LoseReply: 1})
		_, err = c.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "h", Timeout: 1500 * time.Millisecond})
		if !errors.As(err, &ae) || !ae.Unsettled || !errors.Is(err, lock.ErrTimeout) {
			t.Fatalf("acquire: %v", err)
		}
		if row := r.store.Row("r"); row.Holder != "h" {
			t.Fatalf("row %s", row)
		}
		s.SetFaults(sim.Faults{Latency: time.Millisecond})
		start := time.Now()
		l := r.acquire(c, "next")
		if d := time.Since(start); d > 2*time.Second || l.Token() != 3 {
			t.Errorf("token %d after %s", l.Token(), d)
		}
		r.release(l)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestNewsNeedNoLook: a release that comes after the lease was lost hands the known row on too.
func TestNewsNeedNoLook(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		w := &watchful{Locks: r.store.Connect("a", 1)}
		c := r.clientOn(w, noRenew, func(o *lock.Options) { o.Backoff.Min = time.Second })
		l := r.acquire(c, "lapsed")
		<-l.Context().Done()
		synctest.Wait()
		start := time.Now()
		time.AfterFunc(50*time.Millisecond, func() { _ = l.Release(context.Background()) })
		r.release(r.acquire(c, "next"))
		if d := time.Since(start); d > 60*time.Millisecond || len(w.reads) != 1 {
			t.Errorf("%d looks, %s", len(w.reads), d)
		}
	})
}

// TestRefusal: a node that refuses is followed by the next; if all refuse, the
// operation has failed and a new one is tried.
func TestRefusal(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a")
		r.release(r.acquire(c, "warm up"))
		s.SetFaults(sim.Faults{Latency: time.Millisecond, Refuse: 1})
		_, err := c.TryAcquire(t.Context(), lock.Request{Resource: "r", Holder: "h", Timeout: time.Second})
		if !errors.As(err, new(*lock.AcquireError)) || !errors.Is(err, lock.ErrTimeout) || !errors.Is(err, sim.ErrRefused) {
			t.Errorf("error %v", err)
		}
		if ops := r.rec.all(); ops[:len("[acquire:ok/1 release:ok/1 acquire:fail/3")] != "[acquire:ok/1 release:ok/1 acquire:fail/3" {
			t.Errorf("operations %s", ops)
		}
	})
}

func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a")
		l := r.acquire(c, "h")
		waiting := make(chan error)
		go func() {
			_, err := c.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "w"})
			waiting <- err
		}()
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- c.Close(t.Context()) }()
		if err := <-waiting; !errors.Is(err, lock.ErrClosed) {
			t.Errorf("a waiting call: %v", err)
		}
		if _, err := c.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "w"}); !errors.Is(err, lock.ErrClosed) {
			t.Errorf("a new call: %v", err)
		}
		time.Sleep(2 * testTTL)
		if !l.Valid() {
			t.Error("Close ended a lease that is in use")
		}
		r.release(l)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
	t.Run("by force", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			c, s := r.client("a")
			l := r.acquire(c, "h")
			s.Cut(true)
			go func() {
				_, _ = c.Acquire(context.Background(), lock.Request{Resource: "other", Holder: "w"})
			}()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Close: %v", err)
			}
			if time.Since(start) != time.Second {
				t.Errorf("Close took %s", time.Since(start))
			}
			if !errors.Is(context.Cause(l.Context()), lock.ErrClosed) {
				t.Errorf("cause %v", context.Cause(l.Context()))
			}
			if err := l.Release(t.Context()); !errors.Is(err, lock.ErrClosed) {
				t.Errorf("release after Close: %v", err)
			}
		})
	})
	t.Run("by force, one lease", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			c, _ := r.client("a", noRenew)
			r.acquire(c, "h")
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := c.Close(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Close: %v", err)
			}
		})
	})
	t.Run("with nothing left", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for range 30 { // as it may see either end first
				c, _ := r.client("a")
				if err := c.Close(ctx); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
		})
	})
	t.Run("with a renewal on its way", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			c, s := r.client("a")
			r.acquire(c, "h")
			s.Cut(true)
			time.Sleep(testTTL/3 + testTTL/60) // it is sent, and not yet sent again
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := c.Close(ctx); err == nil {
				t.Error("Close says that nothing is left")
			}
			synctest.Wait()
			// Nobody releases the lease any more, and an observer is called for each end.
			r.ops("[acquire:ok/1 renew:unknown/1]")
		})
	})
	t.Run("with an acquire on its way", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			c, s := r.client("a")
			r.release(r.acquire(c, "warm up"))
			s.Cut(true)
			ctx, cancel := context.WithTimeout(t.Context(), testTTL/4)
			defer cancel()
			if _, err := c.Acquire(ctx, lock.Request{Resource: "r", Holder: "h"}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("acquire: %v", err)
			}
			if err := c.Close(ctx); err == nil {
				t.Error("Close says that nothing is left")
			}
			synctest.Wait()
			r.ops("[acquire:ok/1 release:ok/1 acquire:unknown/2]")
		})
	})
}

// TestLastFailure: that the lock is held by another does not hide that the store failed before.
func TestLastFailure(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.acquire(r.clientOn(r.store.Connect("b", 1), noRenew), "b")
		s := r.store.Connect("a", 1)
		s.SetFaults(sim.Faults{StaleRead: 1}) // it sees no row, and asks for the lock
		q := &quorumless{Locks: s}
		q.reads.Store(true)
		time.AfterFunc(10*time.Millisecond, func() { q.reads.Store(false) })
		_, err := r.clientOn(q).Acquire(t.Context(), lock.Request{Resource: "r", Holder: "a", Timeout: time.Second})
		if !errors.Is(err, lock.ErrTimeout) || !errors.Is(err, errNoQuorum) {
			t.Errorf("acquire: %v", err)
		}
		r.ops("[acquire:ok/1 acquire:fail/1]")
	})
}

func TestCallersContext(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a")
		l := r.acquire(c, "h")
		why := errors.New("the caller has better things to do")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		if _, err := c.Acquire(ctx, lock.Request{Resource: "r", Holder: "w"}); !errors.Is(err, why) {
			t.Errorf("acquire: %v", err)
		}
		r.release(l)
		// The lease outlives the call's context and keeps its values.
		type key struct{}
		ctx2, cancel2 := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		l, err := c.Acquire(ctx2, lock.Request{Resource: "r", Holder: "h"})
		if err != nil {
			t.Fatal(err)
		}
		cancel2()
		if l.Context().Err() != nil || l.Context().Value(key{}) != "value" {
			t.Error("the lease's context")
		}
		r.release(l)
	})
}

func TestBadRequests(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a")
		for name, req := range map[string]lock.Request{
			"no resource":      {Holder: "h"},
			"no holder":        {Resource: "r"},
			"short ttl":        {Resource: "r", Holder: "h", TTL: time.Millisecond},
			"fractional ttl":   {Resource: "r", Holder: "h", TTL: time.Second + 1},
			"negative timeout": {Resource: "r", Holder: "h", Timeout: -1},
		} {
			if _, err := c.Acquire(t.Context(), req); err == nil {
				t.Errorf("%s was accepted", name)
			}
		}
		r.ops("[]")
	})
	if _, err := lock.New(nil, lock.Options{}); err == nil {
		t.Error("a client without a store")
	}
}

// TestManyResources: what is remembered of idle resources is bounded, and
// forgetting costs a read only.
func TestManyResources(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a")
		for round := range int64(2) {
			for i := range 1100 {
				l, err := c.Acquire(t.Context(), lock.Request{Resource: fmt.Sprint(i), Holder: "h"})
				if err != nil || l.Token() != round+1 {
					t.Fatalf("%v, %v", l, err)
				}
				r.release(l)
			}
		}
	})
}
