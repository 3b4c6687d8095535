package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
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
	bubble(t, func(t *testing.T) {
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
			r.put(t, j)
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
		if err := r.command(t.Context(), engine.RedriveJob, aJob("dead").ID); err != nil {
			t.Fatal(err)
		}
		if err := r.command(t.Context(), engine.CancelJob, aJob("tomorrow").ID); err != nil {
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
	bubble(t, func(t *testing.T) {
		var busy atomic.Bool
		var counts atomic.Int64
		var r *rig
		r = runOver(t, sim.New(), "w", nothing, over(func(st store.Shards) store.Shards {
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

// brimful is a store that counts for a while, and finds as many rows as it may count.
type brimful struct {
	store.Shards
	counts *atomic.Int64
}

func (b brimful) Count(_ context.Context, _ store.ShardID, r store.Range) (int, error) {
	b.counts.Add(1)
	time.Sleep(500 * time.Millisecond)
	return r.Limit, nil
}

// TestDepthsOfABrimfulShard: however often somebody asks, one count is on its way for each of the
// two kinds of rows. When nobody asks any more the store has its peace, though there are more
// rows than it counted.
func TestDepthsOfABrimfulShard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var counts atomic.Int64
		r := runOver(t, sim.New(), "w", nothing, over(func(st store.Shards) store.Shards { return brimful{st, &counts} }))
		for range 4 {
			r.eng.Depths()
			time.Sleep(100 * time.Millisecond)
		}
		if n := counts.Load(); n != 2 {
			t.Errorf("%d counts are on their way", n)
		}
		time.Sleep(time.Hour) // who asked meanwhile has another count, and that is the last
		if n := counts.Load(); n != 4 {
			t.Errorf("the store was asked %d times, for two kinds of rows twice", n)
		}
		if d := r.eng.Depths()[0]; !d.Pending.More || d.Pending.Jobs != engine.MaxCounted {
			t.Errorf("%+v", d)
		}
		r.end(t)
	})
}

type lateJobs struct {
	mu   sync.Mutex
	list []engine.LateJob
}

func (l *lateJobs) tell(x engine.LateJob) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, x)
}

// take returns what was told since the last call, as text, in order of the keys.
func (l *lateJobs) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, x := range l.list {
		out = append(out, fmt.Sprintf("%s/%d waiting %v", x.Key, x.Attempt, x.Waiting))
	}
	l.list = nil
	slices.Sort(out)
	return out
}

// TestLateJobs: of three jobs with two slots the one that waits is told of once, when it is
// late, and not again when it starts. For how long it has waited does not depend on what
// becomes of the wall clock, and in a paused shard nothing waits.
func TestLateJobs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		paused time.Duration
		back   time.Duration
	}{"as it is": {}, "a clock is set back": {back: time.Hour}, "after a pause": {paused: time.Minute}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var told lateJobs
				var back atomic.Int64
				r := run(t, sim.New(), "w", func(context.Context, *worker.Task) error {
					time.Sleep(20 * time.Second)
					return nil
				}, func(o *engine.Options) {
					o.LateJob, o.LateAfter = told.tell, 5*time.Second
					o.Wall = func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }
				})
				pause := func(on bool) {
					if _, err := r.eng.SetPaused(t.Context(), shard0, on); err != nil {
						t.Fatal(err)
					}
				}
				pause(c.paused > 0)
				for _, key := range []string{"a", "b", "c"} {
					r.put(t, aJob(key))
				}
				back.Store(int64(c.back))
				time.Sleep(c.paused)
				pause(false)
				time.Sleep(4 * time.Second)
				if got := told.take(); len(got) != 0 {
					t.Errorf("after 4 s: %v", got)
				}
				time.Sleep(4 * time.Second)
				told.mu.Lock()
				for _, x := range told.list {
					if x.By < 5*time.Second || x.By > 8*time.Second || x.Shard != shard0 || x.Kind != "k" || x.Due.IsZero() {
						t.Errorf("after 8 s: %+v", x)
					}
				}
				told.mu.Unlock()
				if got := told.take(); len(got) != 1 || got[0][1:] != "/1 waiting true" || c.paused == 0 && got[0][0] != 'c' {
					t.Errorf("after 8 s: %v", got)
				}
				time.Sleep(time.Minute)
				if got := told.take(); len(got) != 0 {
					t.Errorf("when it had started: %v", got)
				}
				r.end(t)
			})
		})
	}
}

// TestLateAfterAnOutage: what came due while nobody owned its shard starts late, at once
// when somebody does.
func TestLateAfterAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told lateJobs
		s := sim.New()
		done := nothing
		r := run(t, s, "a", done)
		for n, key := range []string{"early", "later"} {
			j := aJob(key)
			j.Due = time.Now().Add(time.Duration(1+60*n) * time.Minute)
			r.put(t, j)
		}
		r.end(t)
		time.Sleep(10 * time.Minute)
		r = run(t, s, "b", done, func(o *engine.Options) { o.LateJob = told.tell })
		time.Sleep(2 * time.Hour)
		told.mu.Lock()
		for _, x := range told.list {
			if x.By < 9*time.Minute || x.By > 10*time.Minute {
				t.Errorf("late by %s", x.By)
			}
		}
		told.mu.Unlock()
		if got := told.take(); len(got) != 1 || got[0][:8] != "early/1 " {
			t.Errorf("told of %v", got)
		}
		r.end(t)
	})
}
