package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// TestPause: what was due while its shard was paused is not late when it goes on, whoever
// owns the shard then. That nothing runs meanwhile is for the simulation to say.
func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sim.New()
		var mu sync.Mutex
		var late []int64
		watch := func(o *engine.Options) {
			o.PageSize, o.MaxPending, o.MaxPendingBytes = 7, 20, 1<<20
			o.Observer = engine.Watch(nil, func(s engine.Step) {
				if s.Kind == engine.StepStart { // each in its goroutine
					mu.Lock()
					defer mu.Unlock()
					late = append(late, time.Now().UnixMilli()-s.Due-s.Held)
				}
			})
		}
		nothing := func(context.Context, *worker.Task) error { return nil }
		set := func(r *rig, on bool) {
			t.Helper()
			if _, err := r.eng.SetPaused(t.Context(), shard0, on); err != nil {
				t.Errorf("paused %v: %v", on, err)
			}
		}
		a := run(t, s, "a", nothing, watch)
		set(a, true)
		for n := range 100 { // many more than memory has room for
			if _, err := a.eng.Enqueue(t.Context(), aJob(fmt.Sprint(n))); err != nil {
				t.Fatal(err)
			}
		}
		if n := a.eng.BytesInMemory(); n != 0 {
			t.Errorf("%d bytes are in memory", n)
		}
		a.session.Crash()
		b := run(t, s, "b", nothing, watch)
		time.Sleep(time.Minute)
		set(b, false)
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(late) != 100 || late[0] > 200 || late[1] > 200 {
			t.Errorf("%d jobs ran, late by %v ms", len(late), late)
		}
		a.stop()
		<-a.result
		b.end(t)
		if _, err := b.eng.SetPaused(t.Context(), shard0, true); !errors.Is(err, engine.ErrNotOwner) || store.OutcomeOf(err) != store.Fail {
			t.Errorf("after the end: %v", err)
		}
		var invalid *job.InvalidError
		if _, err := b.eng.SetPaused(t.Context(), store.ShardID{Queue: "q", Shard: 1}, true); !errors.As(err, &invalid) {
			t.Errorf("no such shard: %v", err)
		}
	})
}
