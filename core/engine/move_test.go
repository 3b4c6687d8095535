package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// pair runs two engines that reach each other by their names, which are their addresses. The first
// owns the shard.
func pair(t *testing.T, h func(by string) worker.Handler, change ...func(*engine.Options)) (a, b *rig) {
	t.Helper()
	s := sim.New()
	at := map[string]*rig{}
	ways := func(o *engine.Options) {
		o.Addr = o.Name
		o.Forward = func(ctx context.Context, addr string, j job.Job) (engine.Receipt, error) {
			return at[addr].eng.Enqueue(ctx, j)
		}
	}
	change = append(change, ways)
	a = run(t, s, "a", h("a"), change...)
	b = run(t, s, "b", h("b"), change...)
	at["a"], at["b"] = a, b
	if !a.eng.Owns(shard0) {
		t.Fatal("the first one does not own the shard")
	}
	return a, b
}

// TestHandOver: what runs may end, nothing is claimed meanwhile, all that is enqueued is taken, by
// this owner or the next one, who has the shard at once. Each job runs once.
func TestHandOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		ran := map[string]string{}
		a, b := pair(t, func(by string) worker.Handler {
			return func(ctx context.Context, k *worker.Task) error {
				mu.Lock()
				defer mu.Unlock()
				if was := ran[k.Run.Job.Key]; was != "" {
					t.Errorf("%s ran by %s and by %s", k.Run.Job.Key, was, by)
				}
				ran[k.Run.Job.Key] = by
				if k.Run.Job.Key == "long" {
					mu.Unlock()
					time.Sleep(2 * time.Second)
					mu.Lock()
				}
				return nil
			}
		})
		a.put(t, aJob("long"))
		time.Sleep(time.Second)
		const clients, each = 4, 100
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() {
				for n := range each {
					rec, err := a.eng.Submit(t.Context(), aJob(fmt.Sprintf("%d/%d", c, n)))
					if err != nil || rec.Duplicate || rec.Inbox {
						t.Errorf("%+v, %v", rec, err)
					}
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		mu.Lock()
		before := len(ran)
		mu.Unlock()
		begun := time.Now()
		if err := a.eng.HandOver(t.Context(), shard0, "b"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 500*time.Millisecond || took > time.Second {
			t.Errorf("a run of 2 s that was half over, and it took %s", took)
		}
		mu.Lock()
		if claimed := len(ran) - before; claimed > clients { // those of a batch that was on its way
			t.Errorf("%d jobs were claimed meanwhile", claimed)
		}
		mu.Unlock()
		if a.eng.Owns(shard0) || a.eng.OwnerAddr(shard0) != "b" {
			t.Errorf("it is owned still, or its next owner is unknown: %q", a.eng.OwnerAddr(shard0))
		}
		if err := b.eng.Glance(shard0); err != nil {
			t.Error(err)
		}
		time.Sleep(100 * time.Millisecond)
		if h := b.eng.Holders(); !b.eng.Owns(shard0) || h[shard0] != "b" {
			t.Errorf("the next owner does not have it: %v", h)
		}
		wg.Wait()
		time.Sleep(5 * time.Second)
		if h := a.eng.Holders(); h[shard0] != "b" {
			t.Errorf("who had it sees %v", h)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(ran) != clients*each+1 || ran["long"] != "a" || ran["0/99"] != "b" {
			t.Errorf("%d jobs ran; the long one by %q, the last one by %q", len(ran), ran["long"], ran["0/99"])
		}
		a.end(t)
		b.end(t)
	})
}

// TestHandOverIsGivenUp: with a run that does not end in time, or a caller that goes, the shard
// stays and is claimed from again. No run is interrupted.
func TestHandOverIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var runs atomic.Int64
		a, b := pair(t, func(string) worker.Handler {
			return func(ctx context.Context, k *worker.Task) error {
				if k.Run.Job.Key == "long" {
					time.Sleep(time.Minute)
				}
				runs.Add(1)
				return ctx.Err()
			}
		})
		a.put(t, aJob("long"))
		time.Sleep(time.Second)
		a.put(t, aJob("before"))
		time.Sleep(time.Second)
		done := make(chan error, 1)
		go func() { done <- a.eng.HandOver(t.Context(), shard0, "b") }()
		time.Sleep(time.Second)
		a.put(t, aJob("meanwhile"))
		ctx, gone := context.WithTimeout(t.Context(), time.Second)
		defer gone()
		if err := a.eng.HandOver(ctx, shard0, "b"); err == nil || errors.Is(err, engine.ErrRunsGoOn) {
			t.Errorf("a second hand-over at the same time: %v", err)
		}
		if n := runs.Load(); n != 1 {
			t.Errorf("%d runs have ended, want that of before alone", n)
		}
		if err := <-done; !errors.Is(err, engine.ErrRunsGoOn) {
			t.Errorf("with a run of a minute: %v", err)
		}
		time.Sleep(time.Second)
		if n := runs.Load(); n != 2 || !a.eng.Owns(shard0) {
			t.Errorf("%d runs have ended; the shard is owned: %v", n, a.eng.Owns(shard0))
		}
		ctx, gone = context.WithTimeout(t.Context(), time.Second)
		defer gone()
		if err := a.eng.HandOver(ctx, shard0, "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a caller: %v", err)
		}
		a.put(t, aJob("after"))
		time.Sleep(time.Minute)
		if n := runs.Load(); n != 4 || !a.eng.Owns(shard0) {
			t.Errorf("%d runs have ended; the shard is owned: %v", n, a.eng.Owns(shard0))
		}
		for _, r := range []*rig{b, a} {
			if r == a {
				r.end(t)
			}
			if err := r.eng.HandOver(t.Context(), shard0, "b"); !errors.Is(err, engine.ErrNotOwner) {
				t.Errorf("of a shard of another: %v", err)
			}
		}
		b.end(t)
	})
}

// TestStopDuringAHandOver: the shard is handed over, and another process takes it.
func TestStopDuringAHandOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, func(string) worker.Handler {
			return func(context.Context, *worker.Task) error { time.Sleep(3 * time.Second); return nil }
		})
		a.put(t, aJob("a"))
		time.Sleep(time.Second)
		done := make(chan error, 1)
		go func() { done <- a.eng.HandOver(t.Context(), shard0, "b") }()
		time.Sleep(time.Second)
		a.end(t)
		if err := <-done; !errors.Is(err, engine.ErrStopping) {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if !b.eng.Owns(shard0) {
			t.Error("the other one does not own it")
		}
		b.end(t)
	})
}
