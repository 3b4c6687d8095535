package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// TestErrorsSayWhatIsCertain: who reads one knows whether to ask again.
func TestErrorsSayWhatIsCertain(t *testing.T) {
	t.Parallel()
	why := errors.New("the cause")
	for _, c := range []struct {
		err  error
		says string
	}{
		{&engine.EnqueueError{Job: "j", Outcome: store.Fail, Cause: why}, "job j was not enqueued: the cause"},
		{&engine.EnqueueError{Job: "j", Outcome: store.Unknown, Cause: why}, "job j may or may not have been enqueued"},
		{&engine.CommandError{Command: "cancel", Job: "j", Outcome: store.Fail, Cause: why}, "cancel of job j was not done: the cause"},
		{&engine.CommandError{Command: "put", Schedule: "s", Outcome: store.Unknown, Cause: why}, "put of schedule s may or may not have been done"},
		{&engine.CommandError{Command: "pause", Shard: "q/1", Outcome: store.Fail, Cause: why}, "pause of shard q/1 was not done"},
	} {
		if !strings.Contains(c.err.Error(), c.says) || !errors.Is(c.err, why) {
			t.Errorf("%q does not say %q", c.err, c.says)
		}
	}
}

// TestAFailingReadIsRepeatedInPeace: a command waits for the rows of its job, and a store that
// cannot read them is not asked without a pause.
func TestAFailingReadIsRepeatedInPeace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var failing atomic.Bool
		var asked atomic.Int64
		r := runOver(t, sim.New(), "w", nothing, over(func(s store.Shards) store.Shards {
			return mistake.Shards{Shards: s, OnRow: func(ctx context.Context, id store.ShardID, k store.Key) (*store.Row, error) {
				if k.Kind != store.KindJob || !failing.Load() {
					return s.Row(ctx, id, k)
				}
				asked.Add(1)
				time.Sleep(time.Millisecond) // of the bubble
				return nil, errors.New("no answer")
			}}
		}))
		j := aJob("far")
		j.Due = time.Now().Add(24 * time.Hour)
		r.put(t, j)
		failing.Store(true)
		time.AfterFunc(6*time.Second, func() { failing.Store(false) })
		if err := r.command(t.Context(), engine.CancelJob, j.ID); err != nil {
			t.Error(err)
		}
		if n := asked.Load(); n < 2 || n > 100 {
			t.Errorf("read %d times within 6 s", n)
		}
		if s, _ := r.state(j.ID); s != job.Cancelled {
			t.Errorf("it is %s", s)
		}
		r.end(t)
	})
}
