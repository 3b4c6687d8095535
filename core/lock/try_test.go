package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/lock"
)

func TestTryAcquire(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, _ := r.client("a")
		b, _ := r.client("b")
		req := lock.Request{Resource: "r", Holder: "x"}
		l, err := a.TryAcquire(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*lock.Client{a, b} {
			start := time.Now()
			if _, err := c.TryAcquire(t.Context(), req); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("TryAcquire on a held lock: %v", err)
			}
			if time.Since(start) > 100*time.Millisecond {
				t.Errorf("it took %s", time.Since(start))
			}
		}
		r.release(l)
		// b's cached row is stale: the try must look again, not give up.
		time.Sleep(time.Second)
		if _, err := b.TryAcquire(t.Context(), req); err != nil {
			t.Errorf("TryAcquire on a free lock: %v", err)
		}
	})
}

// TestTryAcquireBehindAnother: it does not wait behind who waits in the same process.
func TestTryAcquireBehindAnother(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, _ := r.client("a")
		b, _ := r.client("b")
		l := r.acquire(a, "a")
		waiting := make(chan *lock.Lease)
		go func() { waiting <- r.acquire(b, "b") }()
		synctest.Wait()
		start := time.Now()
		if _, err := b.TryAcquire(t.Context(), lock.Request{Resource: "r", Holder: "x"}); !errors.Is(err, lock.ErrHeld) || time.Since(start) > 0 {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		r.release(l)
		r.release(<-waiting)
	})
}

// TestTryAcquireThatIsRejected: a rejected request is itself a look.
func TestTryAcquireThatIsRejected(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		w := &watchful{Locks: r.store.Connect("b", 1)}
		b := r.clientOn(w)
		r.release(r.acquire(b, "b"))
		r.steal()
		if _, err := b.TryAcquire(t.Context(), lock.Request{Resource: "r", Holder: "b"}); !errors.Is(err, lock.ErrHeld) {
			t.Error(err)
		}
		r.ops("[acquire:ok/1 release:ok/1 acquire:fail/1]")
		if n := len(w.reads); n != 1 {
			t.Errorf("%d looks, want that of the first acquire", n)
		}
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
