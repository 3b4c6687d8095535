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

// TestPause: what runs goes on, nothing else begins, whoever owns the shard, until it is
// resumed; then all that came meanwhile runs, and is not late.
func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sim.New()
		var mu sync.Mutex
		var ended []string
		var late []int64
		handle := func(_ context.Context, k *worker.Task) error {
			time.Sleep(5 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, k.Run.Job.Key)
			return nil
		}
		watch := func(o *engine.Options) {
			o.PageSize, o.MaxPending, o.MaxPendingBytes = 7, 20, 1<<20
			o.Observer = engine.Watch(nil, func(s engine.Step) {
				if s.Kind == engine.StepStart {
					mu.Lock()
					defer mu.Unlock()
					late = append(late, time.Now().UnixMilli()-s.Due-s.Held)
				}
			})
		}
		a := run(t, s, "a", handle, watch)
		enqueue := func(r *rig, key string, due time.Duration) {
			t.Helper()
			j := aJob(key)
			if due > 0 {
				j.Due = time.Now().Add(due)
			}
			if _, err := r.eng.Enqueue(t.Context(), j); err != nil {
				t.Fatalf("%s: %v", key, err)
			}
		}
		set := func(r *rig, on, duplicate bool) {
			t.Helper()
			if got, err := r.eng.SetPaused(t.Context(), shard0, on); err != nil || got != duplicate {
				t.Errorf("paused %v: duplicate %v, %v", on, got, err)
			}
		}
		set(a, false, true)
		enqueue(a, "runs", 0)
		enqueue(a, "soon", 30*time.Second)
		time.Sleep(time.Second)
		set(a, true, false)
		set(a, true, true)
		for n := range 100 { // many more than memory has room for
			enqueue(a, fmt.Sprint("waits", n), 0)
		}
		if n := a.eng.BytesInMemory(); n != int64(len(encoded0(t, "runs"))) {
			t.Errorf("%d bytes are in memory", n)
		}
		time.Sleep(time.Minute)
		if len(ended) != 1 || ended[0] != "runs" {
			t.Fatalf("ran: %v", ended)
		}
		a.session.Crash()
		b := run(t, s, "b", handle, watch)
		time.Sleep(time.Minute)
		if !b.eng.Owns(shard0) || len(ended) != 1 {
			t.Fatalf("b owns it: %v, ran: %v", b.eng.Owns(shard0), ended)
		}
		h, _ := s.ShardRows(shard0)
		if !h.Pause.On || h.Pause.Since == 0 {
			t.Errorf("%+v", h)
		}
		if _, err := b.eng.Hasten(t.Context(), "q", aJob("waits5").ID); err != nil {
			t.Errorf("Hasten: %v", err)
		}
		if err := b.eng.Cancel(t.Context(), "q", aJob("waits7").ID); err != nil {
			t.Errorf("Cancel: %v", err)
		}
		enqueue(b, "later", 10*time.Hour)
		set(b, true, true)
		late = nil
		set(b, false, false)
		time.Sleep(10 * time.Minute)
		if len(ended) != 1+1+99 {
			t.Errorf("%d jobs ran", len(ended))
		}
		if len(late) < 2 || late[0] > 200 || late[1] > 200 {
			t.Errorf("late by %v ms", late[:2])
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

func encoded0(t *testing.T, key string) []byte {
	t.Helper()
	body, err := aJob(key).WithDefaults().Encode()
	if err != nil {
		t.Fatal(err)
	}
	return body
}
