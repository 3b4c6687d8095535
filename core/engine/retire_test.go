package engine_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// TestRetire: what ended jobs have left is retired before they are forgotten, and not while
// a run of before is at work. As long as that fails they are remembered, and it is tried
// now and then.
func TestRetire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		var failing atomic.Bool
		var asked atomic.Int64
		var mu sync.Mutex
		var retired []job.ID
		h := func(_ context.Context, k *worker.Task) error {
			if k.Run.Job.Key == "long" {
				<-over
			}
			return nil
		}
		r := run(t, sim.New(), "w", h, func(o *engine.Options) {
			o.DedupeWindow, o.InboxPoll = time.Hour, time.Second
			o.Retire = func(_ context.Context, id store.ShardID, below job.RunID, ended []job.ID) error {
				asked.Add(1)
				if id != shard0 || len(ended) == 0 || below < job.FirstRunID(1) {
					t.Errorf("Retire(%s, %s, %v)", id, below, ended)
				}
				if failing.Load() {
					return errors.New("the sink is down")
				}
				mu.Lock()
				defer mu.Unlock()
				retired = append(retired, ended...)
				return nil
			}
		})
		jobs := map[string]job.Job{}
		for _, key := range []string{"before", "long", "after"} {
			j := aJob(key)
			j.MaxDuration = 9 * time.Hour
			jobs[key] = j
			if _, err := r.eng.Enqueue(t.Context(), j); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		check := func(when string, want ...string) {
			t.Helper()
			time.Sleep(2 * time.Hour)
			mu.Lock()
			defer mu.Unlock()
			for n, key := range want {
				if n >= len(retired) || retired[n] != jobs[key].ID {
					t.Errorf("%s: retired are %v; want %v", when, retired, want)
				}
			}
			if left := r.count(store.KindJob, nil); len(retired) != len(want) || left != len(jobs)-len(want) {
				t.Errorf("%s: %d were retired, and %d jobs are remembered; want %d and %d", when, len(retired), left, len(want), len(jobs)-len(want))
			}
		}
		check("while one runs", "before")
		close(over)
		failing.Store(true)
		asked.Store(0)
		check("while it fails", "before")
		if n, polls := asked.Load(), int64(2*time.Hour/time.Second); n < 2 || n > polls {
			t.Errorf("asked %d times while %d looks into the inbox were made", n, polls)
		}
		failing.Store(false)
		check("in the end", "before", "after", "long")
		r.end(t)
	})
}
