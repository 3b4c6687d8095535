package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// TestAClaimWithoutARunIsNoAttempt: the process dies when the claim is committed and its
// handler has not been called. A job with one attempt has it still.
func TestAClaimWithoutARunIsNoAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := sim.New()
		var runs atomic.Int64
		h := func(context.Context, *worker.Task) error { runs.Add(1); return nil }
		var died atomic.Bool
		a := runOver(t, s, "a", h, over(func(st store.Shards) store.Shards {
			return mistake.Shards{Shards: st, OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
				res, err := c.Send()
				if mistake.Has(c.Batch, mistake.Claims) && died.CompareAndSwap(false, true) {
					st.(*sim.Session).Crash()
					return store.CommitResult{}, &store.Error{Outcome: store.Unknown, Cause: sim.ErrCrashed}
				}
				return res, err
			}}
		}))
		j := aJob("once")
		j.MaxAttempts = 1
		if _, err := a.eng.Enqueue(t.Context(), j); store.OutcomeOf(err) != store.Unknown { // it is claimed by the batch that inserts it
			t.Fatal(err)
		}
		b := run(t, s, "b", h)
		time.Sleep(time.Minute)
		if st, n := b.state(j.ID); st != job.Completed || runs.Load() != 1 || n != 2 {
			t.Errorf("%s after %d runs and %d claims", st, runs.Load(), n)
		}
		b.end(t)
		a.end(t)
	})
}

// TestStopsAreNoAttempts: a job that takes longer than the time between two deploys keeps
// its attempts. A failure of its own is one.
func TestStopsAreNoAttempts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := sim.New()
		j := aJob("long")
		j.MaxAttempts, j.MaxDuration = 2, 5*time.Minute
		failed := false
		h := func(ctx context.Context, _ *worker.Task) error {
			if err := clock.Go().Sleep(ctx, 2*time.Minute); err != nil || failed {
				return err
			}
			failed = true
			return fmt.Errorf("its own failure")
		}
		for n := range 8 {
			a := run(t, s, fmt.Sprint("life ", n), h, func(o *engine.Options) { o.DrainTimeout = time.Second })
			a.put(t, j)
			time.Sleep(time.Minute)
			a.end(t)
		}
		b := run(t, s, "last", h)
		time.Sleep(5 * time.Minute)
		if st, n := b.state(j.ID); st != job.Completed || n != 10 {
			t.Errorf("%s after %d claims", st, n)
		}
		b.end(t)
	})
}

// TestInterruptionsHaveAnEnd: a job that kills its process goes to the dead letter queue
// at last.
func TestInterruptionsHaveAnEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := sim.New()
		var runs atomic.Int64
		j := aJob("deadly")
		for n := range job.MaxInterruptions + 3 {
			var r *rig
			h := func(ctx context.Context, _ *worker.Task) error {
				runs.Add(1)
				r.session.Crash()
				<-ctx.Done()
				return context.Cause(ctx)
			}
			runOver(t, s, fmt.Sprint("life ", n), h, func(x *rig, _ *engine.Options) { r = x })
			if n == 0 {
				r.put(t, j)
			}
			time.Sleep(20 * time.Second)
			r.end(t)
		}
		_, rows := s.ShardRows(shard0)
		for _, row := range rows {
			if row.Kind == store.KindDLQ && strings.HasPrefix(row.Note, fmt.Sprintf("interrupted %d times: ", job.MaxInterruptions+1)) && len(row.Body) > 0 && runs.Load() == job.MaxInterruptions+1 {
				return
			}
		}
		t.Errorf("after %d runs: %+v", runs.Load(), rows)
	})
}

// TestAJobThatOnlyAnotherProcessCanRun waits for it, and keeps its attempts.
func TestAJobThatOnlyAnotherProcessCanRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := sim.New()
		j := aJob("x")
		j.MaxAttempts = 1
		j.Retry = job.Exponential(time.Second, 1, time.Second)
		a := runOver(t, s, "a", nil, slots(1, nil))
		a.put(t, j)
		time.Sleep(4500 * time.Millisecond) // it is claimed, and given back, once a second
		if st, n := a.state(j.ID); st != job.Pending || n < 3 {
			t.Errorf("%s after %d claims", st, n)
		}
		a.end(t)
		b := run(t, s, "b", nothing)
		time.Sleep(10 * time.Second)
		if st, _ := b.state(j.ID); st != job.Completed {
			t.Errorf("then it is %s", st)
		}
		b.end(t)
	})
}
