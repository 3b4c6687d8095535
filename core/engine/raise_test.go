package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// TestRestoredShards: runs after fences were raised have ids above all that could have
// been given out since the copy, and a run that it shows is rescued.
func TestRestoredShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sim.New()
		var last atomic.Int64
		a := run(t, s, "a", func(ctx context.Context, _ *worker.Task) error { <-ctx.Done(); return ctx.Err() })
		if _, err := a.eng.Enqueue(t.Context(), aJob("running")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		a.crash(t)
		before, _ := s.ShardRows(shard0)
		operator := s.Connect("operator", 1)
		if err := engine.RaiseFences(t.Context(), operator, engine.Queue{Name: "q", Shards: 1}, 1000); err != nil {
			t.Fatal(err)
		}
		if h, _ := s.ShardRows(shard0); h.Fence != before.Fence+1000 || h.Owner != "" || h.LowPending != before.LowPending || h.Read != before.Read {
			t.Errorf("%+v, before %+v", h, before)
		}
		b := run(t, s, "b", func(_ context.Context, k *worker.Task) error { last.Store(int64(k.Run.ID)); return nil })
		time.Sleep(time.Minute)
		if st, _ := b.state(aJob("running").ID); st != job.Completed || job.RunID(last.Load()).Fence() <= before.Fence+1000 {
			t.Errorf("%s by run %d of fence %d", st, last.Load(), job.RunID(last.Load()).Fence())
		}
		b.end(t)
		for _, wrong := range []struct {
			shards int
			by     int64
		}{{1, 0}, {1, job.MaxFence}, {2, 1}} {
			if err := engine.RaiseFences(t.Context(), operator, engine.Queue{Name: "q", Shards: wrong.shards}, wrong.by); err == nil {
				t.Errorf("%+v was taken", wrong)
			}
		}
	})
}
