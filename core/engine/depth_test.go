package engine_test

import (
	"context"
	"fmt"
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

// asked counts how often the store is asked for the number of rows.
type asked struct {
	store.Shards
	n *atomic.Int64
}

func (a asked) Count(ctx context.Context, id store.ShardID, r store.Range) (int, error) {
	a.n.Add(1)
	return a.Shards.Count(ctx, id, r)
}

// TestDepths: an owner counts what it changes. What was there before is counted once in
// the store, when somebody asks. Of a shard that it has lost it says nothing.
func TestDepths(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sim.New()
		h := func(ctx context.Context, k *worker.Task) error {
			if k.Run.Job.Key == "long" {
				<-ctx.Done()
				return ctx.Err()
			}
			return job.Permanent(fmt.Errorf("no %s", k.Run.Job.Key))
		}
		var counts atomic.Int64
		one := func(name string) *rig {
			return runOver(t, s, name, h, over(func(st store.Shards) store.Shards { return asked{st, &counts} }))
		}
		r := one("a")
		put := func(key string, in time.Duration) {
			t.Helper()
			j := aJob(key)
			j.Due, j.MaxDuration = time.Now().Add(in), time.Hour
			if _, err := r.eng.Enqueue(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
		want := func(shards, pending, running, dlq int, more bool) {
			t.Helper()
			w := []engine.Depth{{Queue: "q", Shards: shards, Pending: engine.Count{Jobs: pending, More: more}, Running: engine.Count{Jobs: running}, DLQ: engine.Count{Jobs: dlq, More: more}}}
			if got := r.eng.Depths(); fmt.Sprint(got) != fmt.Sprint(w) {
				t.Errorf("%+v, want %+v", got, w)
			}
		}
		put("tomorrow", 24*time.Hour)
		put("dead", 0)
		put("long", 0)
		time.Sleep(time.Second)
		if n := counts.Load(); n != 0 {
			t.Errorf("the store was asked %d times though nobody wanted to know", n)
		}
		want(1, 1, 1, 1, true)
		time.Sleep(time.Second)
		want(1, 1, 1, 1, false)
		r.crash(t)
		want(0, 0, 0, 0, false)

		r = one("b")
		time.Sleep(time.Minute)
		want(1, 0, 1, 0, true) // the rescued job runs again
		time.Sleep(time.Second)
		for range 100 {
			want(1, 1, 1, 1, false)
			time.Sleep(time.Second)
		}
		if err := r.eng.Redrive(t.Context(), "q", aJob("dead").ID); err != nil {
			t.Fatal(err)
		}
		if err := r.eng.Cancel(t.Context(), "q", aJob("tomorrow").ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		want(1, 0, 1, 1, false)
		if n := counts.Load(); n != 4 {
			t.Errorf("the store was asked %d times for two kinds of rows by two owners", n)
		}
		r.end(t)
	})
}

// TestDepthsOfABusyShard: rows that change while they are counted are counted again later,
// and until then there may be more.
func TestDepthsOfABusyShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Bool
		var counts atomic.Int64
		var r *rig
		r = runOver(t, sim.New(), "w", func(context.Context, *worker.Task) error { return nil }, over(func(st store.Shards) store.Shards {
			return counting{asked{st, &counts}, func() {
				if busy.Load() {
					j := aJob(fmt.Sprint(counts.Load()))
					j.Due = time.Now().Add(time.Hour)
					if _, err := r.eng.Enqueue(t.Context(), j); err != nil {
						t.Error(err)
					}
				}
			}}
		}))
		busy.Store(true)
		for range 60 {
			if d := r.eng.Depths()[0]; !d.Pending.More {
				t.Fatalf("%+v after %d counts", d, counts.Load())
			}
			time.Sleep(time.Second)
		}
		if n := counts.Load(); n > 10 {
			t.Errorf("the store was asked %d times within a minute", n)
		}
		busy.Store(false)
		for range 600 {
			r.eng.Depths()
			time.Sleep(time.Second)
		}
		if d := r.eng.Depths()[0]; d.Pending.More || d.Pending.Jobs != r.count(store.KindPending, nil) {
			t.Errorf("%+v of %d", d, r.count(store.KindPending, nil))
		}
		r.end(t)
	})
}

// counting does something before each count.
type counting struct {
	store.Shards
	before func()
}

func (c counting) Count(ctx context.Context, id store.ShardID, r store.Range) (int, error) {
	c.before()
	return c.Shards.Count(ctx, id, r)
}
