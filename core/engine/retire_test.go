package engine_test

import (
	"context"
	"errors"
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
		over, failing, asked := make(chan struct{}), false, 0
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
				asked++
				if id != shard0 || len(ended) == 0 || below < job.FirstRunID(1) {
					t.Errorf("Retire(%s, %s, %v)", id, below, ended)
				}
				if failing {
					return errors.New("the sink is down")
				}
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
		failing, asked = true, 0
		check("while it fails", "before")
		if polls := int(2 * time.Hour / time.Second); asked < 2 || asked > polls {
			t.Errorf("asked %d times while %d looks into the inbox were made", asked, polls)
		}
		failing = false
		check("in the end", "before", "after", "long")
		r.end(t)
	})
}
