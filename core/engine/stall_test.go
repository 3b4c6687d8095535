package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/engine"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// outcomes counts what many callers are told, and when the last of them was.
type outcomes struct{ ok, busy, other atomic.Int64 }

func (o *outcomes) take(err error) {
	switch {
	case err == nil:
		o.ok.Add(1)
	case errors.Is(err, engine.ErrBusy) && store.OutcomeOf(err) == store.Fail:
		o.busy.Add(1)
	default:
		o.other.Add(1)
	}
}

// TestNobodyWaitsForAStalledShard: when a batch is not answered in time, those who wait for
// the next one are told so, and those who come, until it is settled.
func TestNobodyWaitsForAStalledShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var bad atomic.Bool
		r := runOver(t, sim.New(), "w", func(context.Context, *worker.Task) error { return nil }, over(func(s store.Shards) store.Shards {
			return mistake.Shards{Shards: s, OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
				if bad.Load() {
					<-c.Ctx.Done()
					return store.CommitResult{}, &store.Error{Op: "commit", Outcome: store.Unknown, Cause: context.Cause(c.Ctx)}
				}
				return c.Send()
			}}
		}))
		bad.Store(true)
		var told outcomes
		put := func(n int) {
			_, err := r.eng.Enqueue(t.Context(), aJob(fmt.Sprint(n)))
			told.take(err)
		}
		for n := range 200 {
			go put(n)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(1200 * time.Millisecond) // a copy's time is a second
		if n := told.busy.Load(); n != 199 {
			t.Errorf("%d of 199 were told that the shard is busy", n)
		}
		put(1000)
		if n := told.busy.Load(); n != 200 {
			t.Error("who came later was not told at once")
		}
		bad.Store(false)
		time.Sleep(5 * time.Second)
		put(1001)
		if told.ok.Load() != 2 || told.other.Load() != 0 {
			t.Errorf("afterwards %d were enqueued, and %d told something else", told.ok.Load(), told.other.Load())
		}
		r.end(t)
	})
}

// TestFewWaitForAnInbox: inserts go one by one, so that only a few may wait for theirs.
func TestFewWaitForAnInbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sim.New()
		a := run(t, s, "a", func(context.Context, *worker.Task) error { return nil })
		b := run(t, s, "b", func(context.Context, *worker.Task) error { return nil })
		b.session.SetFaults(sim.Faults{Latency: 300 * time.Millisecond})
		var told outcomes
		for n := range 100 {
			go func() {
				_, err := b.eng.Submit(t.Context(), aJob(fmt.Sprint(n)))
				told.take(err)
			}()
		}
		time.Sleep(100 * time.Millisecond)
		if n := told.busy.Load(); n != 84 {
			t.Errorf("%d of 84 were told at once that the inbox is busy", n)
		}
		time.Sleep(time.Minute)
		if told.ok.Load() != 16 || told.other.Load() != 0 {
			t.Errorf("%d of 16 were enqueued, %d told something else", told.ok.Load(), told.other.Load())
		}
		a.end(t)
		b.end(t)
	})
}
