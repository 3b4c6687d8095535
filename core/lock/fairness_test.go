package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"fencepost/core/lock"
	"fencepost/core/store/sim"
)

// TestQuickHandOverBetweenProcesses: a release is seen by another process's
// looker soon, though it had been waiting for long.
func TestQuickHandOverBetweenProcesses(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, _ := r.client("a")
		b, _ := r.client("b")
		l := r.acquire(a, "a")
		var waited time.Duration
		done := make(chan struct{})
		released := make(chan time.Time, 1)
		go func() {
			defer close(done)
			l := r.acquire(b, "b")
			waited = time.Since(<-released)
			r.release(l)
		}()
		time.Sleep(2 * testTTL)
		released <- time.Now()
		r.release(l)
		<-done
		if waited > testTTL/8+50*time.Millisecond {
			t.Errorf("seen %s after the release", waited)
		}
	})
}

// TestStandsBack: after four grants in a row, a process that has seen another waits for as long as
// the last one lasted, and 50 ms, half of that more or less.
func TestStandsBack(t *testing.T) {
	const held = 200 * time.Millisecond
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.clientOn(r.store.Connect("a", 1)), r.clientOn(r.store.Connect("b", 1))
		l := r.acquire(b, "b")
		if _, err := a.TryAcquire(t.Context(), lock.Request{Resource: "r", Holder: "a"}); !errors.Is(err, lock.ErrHeld) {
			t.Fatal(err)
		}
		r.release(l)
		for n := range 6 {
			start := time.Now()
			l := r.acquire(a, "a")
			waited := time.Since(start)
			if back := n == 4; back != (waited >= held) && n > 0 || back && (waited < held+25*time.Millisecond || waited > held+76*time.Millisecond) {
				t.Errorf("grant %d after %s", n+1, waited)
			}
			time.Sleep(held)
			r.release(l)
		}
	})
}

// TestLooksAfterStandingBack: who has stood back looks before it asks again, and who has given up
// meanwhile does neither.
func TestLooksAfterStandingBack(t *testing.T) {
	const held = 200 * time.Millisecond
	for name, c := range map[string]struct {
		timeout time.Duration
		looks   bool
	}{
		"its caller goes":        {held / 2, false},
		"another takes the lock": {2 * held, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				w := &watchful{Locks: r.store.Connect("a", 1)}
				a := r.clientOn(w)
				l := r.acquire(r.clientOn(r.store.Connect("b", 1)), "b")
				if _, err := a.TryAcquire(t.Context(), lock.Request{Resource: "r", Holder: "a"}); !errors.Is(err, lock.ErrHeld) {
					t.Fatal(err)
				}
				r.release(l)
				for range 4 {
					l := r.acquire(a, "a")
					time.Sleep(held)
					r.release(l)
				}
				before, looks := r.rec.all(), len(w.reads)
				time.AfterFunc(held*3/4, func() { r.steal() })
				_, err := a.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "a", Timeout: c.timeout})
				if !errors.Is(err, lock.ErrTimeout) || len(w.reads) > looks != c.looks {
					t.Errorf("%d looks, %v", len(w.reads)-looks, err)
				}
				r.ops(before)
			})
		})
	}
}

// TestNobodyStarves: a process with a queue stands back for the pollers of others.
func TestNobodyStarves(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		cycles := map[string]int{}
		var mu sync.Mutex
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b", "c"} {
			c, s := r.client(name)
			s.SetFaults(sim.Faults{Latency: 3 * time.Millisecond})
			clients := 3
			if name == "c" {
				clients = 1
			}
			for range clients {
				wg.Go(func() {
					for ctx.Err() == nil {
						l, err := c.Acquire(ctx, lock.Request{Resource: "r", Holder: name})
						if err != nil {
							continue
						}
						time.Sleep(20 * time.Millisecond)
						_ = l.Release(context.Background())
						mu.Lock()
						cycles[name]++
						mu.Unlock()
					}
				})
			}
		}
		wg.Wait()
		total := cycles["a"] + cycles["b"] + cycles["c"]
		t.Logf("cycles in 30 s: %v", cycles)
		for name, n := range cycles {
			if n < total/20 {
				t.Errorf("%s had %d of %d cycles", name, n, total)
			}
		}
		if total < 500 {
			t.Errorf("%d cycles in 30 s", total)
		}
	})
}

// TestLongHoldsAreShared: of processes that hold for about a ttl, with a queue
// each, none keeps the lock for more than a few holds. Those who wait look only every
// eighth of a ttl by then, and a local successor takes a freed lock at once.
func TestLongHoldsAreShared(t *testing.T) {
	for _, hold := range []time.Duration{testTTL / 2, testTTL, 8 * time.Second} {
		t.Run(hold.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				var mu sync.Mutex
				var order []string
				ctx, cancel := context.WithTimeout(t.Context(), 60*hold)
				defer cancel()
				var wg sync.WaitGroup
				for _, name := range []string{"a", "b", "c"} {
					c, _ := r.client(name)
					for range 4 {
						wg.Go(func() {
							for ctx.Err() == nil {
								l, err := c.Acquire(ctx, lock.Request{Resource: "r", Holder: name})
								if err != nil {
									continue
								}
								mu.Lock()
								order = append(order, name)
								mu.Unlock()
								time.Sleep(hold)
								_ = l.Release(context.Background())
							}
						})
					}
				}
				wg.Wait()
				t.Logf("%v", order)
				had, inRow, longest := map[string]int{}, 0, 8 // before another is seen
				for i, name := range order {
					had[name]++
					if inRow++; i > 0 && order[i-1] != name {
						inRow, longest = 1, 3
					}
					if inRow > longest {
						t.Fatalf("%s had grants %d to %d: %v", name, i-inRow+1, i, order)
					}
				}
				for _, name := range []string{"a", "b", "c"} {
					if had[name] < len(order)/10 {
						t.Errorf("%s had %d of %d grants", name, had[name], len(order))
					}
				}
				if len(order) < 45 {
					t.Errorf("%d grants in the time of 60 holds: too much of it was given to standing back", len(order))
				}
			})
		})
	}
}
