package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// TestClocksApart: a shard passes to an owner whose wall clock is minutes away from the
// last one's. What was asked for at once runs within seconds, a retry when it has
// waited, and what has a time of its own at that time by the new owner's clock.
func TestClocksApart(t *testing.T) {
	t.Parallel()
	const m = 10 * time.Minute
	for _, c := range []struct{ first, second time.Duration }{{0, 0}, {m, 0}, {0, -m}, {m, -m}, {-m, m}, {0, m}} {
		t.Run(fmt.Sprintf("%s then %s", c.first, c.second), func(t *testing.T) {
			bubble(t, func(t *testing.T) { clocksApart(t, c.first, c.second) })
		})
	}
}

// starts are when runs began, by key of the job.
type starts struct {
	mu sync.Mutex
	at map[string][]time.Time
}

func (s *starts) note(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[key] = append(s.at[key], time.Now())
}

func clocksApart(t *testing.T, first, second time.Duration) {
	s := sim.New()
	begun := starts{at: map[string][]time.Time{}}
	wrong := func(d time.Duration) func(*engine.Options) {
		return func(o *engine.Options) {
			o.Wall = func() time.Time { return time.Now().Add(d) }
			o.MaxLoaded, o.PageSize, o.Horizon = 2, 2, 20*time.Second // what is not due must not stand in the way
		}
	}
	a := run(t, s, "a", func(ctx context.Context, k *worker.Task) error {
		begun.note(k.Run.Job.Key)
		if k.Run.Job.Retry.Base > 0 {
			return errors.New("again")
		}
		return clock.Go().Sleep(ctx, time.Hour)
	}, wrong(first))
	b := run(t, s, "b", func(_ context.Context, k *worker.Task) error {
		begun.note(k.Run.Job.Key)
		return nil
	}, wrong(second))
	enqueue := func(j job.Job) {
		t.Helper()
		j.MaxDuration = 2 * time.Hour
		a.put(t, j)
	}
	retries := map[string]time.Duration{"short": 20 * time.Second, "long": 5 * time.Minute}
	for key, wait := range retries {
		j := aJob(key)
		j.Retry = job.RetryPolicy{Base: wait}
		enqueue(j)
		time.Sleep(time.Second)
	}
	// Two fill the first owner's slots; the others wait for one.
	for n := range 6 {
		enqueue(aJob(fmt.Sprint("at once ", n)))
	}
	due := time.Now().Add(40 * time.Second)
	for n := range 6 {
		j := aJob(fmt.Sprint("dated ", n))
		j.Due = due.Add(max(first, 0)) // after the takeover, by the first owner's clock too
		enqueue(j)
	}
	time.Sleep(2 * time.Second)
	a.session.Crash()
	for !b.eng.Owns(shard0) {
		time.Sleep(time.Millisecond)
	}
	owned := time.Now().Add(-time.Millisecond)
	time.Sleep(25 * time.Minute)
	for n := range 6 {
		key := fmt.Sprint("at once ", n)
		if at := begun.last(key); at.Before(owned) || at.Sub(owned) > 3*time.Second {
			t.Errorf("%s runs %s after the takeover", key, at.Sub(owned))
		}
		key = fmt.Sprint("dated ", n)
		want := due.Add(max(first, 0))
		if at := begun.last(key); at.Add(second).Before(want) || at.Add(second).Sub(want) > max(3*time.Second, owned.Add(second).Sub(want)+3*time.Second) {
			t.Errorf("%s runs %s after its time by its owner's clock", key, at.Add(second).Sub(want))
		}
	}
	for key, wait := range retries {
		at, failed := begun.last(key), begun.at[key][0]
		if len(begun.at[key]) != 2 || at.Before(owned) || at.Sub(owned) > wait+3*time.Second || second <= first && at.Sub(failed) < wait {
			t.Errorf("%s runs %s after its failure, %s after the takeover: %v", key, at.Sub(failed), at.Sub(owned), begun.at[key])
		}
	}
	b.end(t)
	a.end(t)
}

func (s *starts) last(key string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.at[key]); n > 0 {
		return s.at[key][n-1]
	}
	return time.Time{}
}

// TestRestoredShards: runs after fences were raised have ids above all that could have
// been given out since the copy, and a run that it shows is rescued.
func TestRestoredShards(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := sim.New()
		var last atomic.Int64
		a := run(t, s, "a", func(ctx context.Context, _ *worker.Task) error { <-ctx.Done(); return ctx.Err() })
		a.put(t, aJob("running"))
		time.Sleep(time.Second)
		a.crash(t)
		before, _ := s.ShardRows(shard0)
		operator := s.Connect("operator", 1)
		if err := engine.RaiseFences(t.Context(), operator, engine.Queue{Name: "q", Shards: 1}, 1000); err != nil {
			t.Fatal(err)
		}
		if h, _ := s.ShardRows(shard0); h.Fence != before.Fence+1000 || h.Tick <= before.Tick || h.Owner != "" || h.LowPending != before.LowPending || h.Read != before.Read {
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

// TestRaisedMeanwhile: who is overtaken while raising a fence is told, and may do it again.
func TestRaisedMeanwhile(t *testing.T) {
	t.Parallel()
	s := sim.New()
	queue, operator := engine.Queue{Name: "q", Shards: 1}, s.Connect("operator", 1)
	if err := engine.RaiseFences(t.Context(), operator, queue, 5); err != nil {
		t.Fatal(err)
	}
	before, _ := s.ShardRows(shard0)
	overtaken := mistake.Shards{Shards: operator, OnLook: func(ctx context.Context, _ store.ShardID, _ *store.Header) {
		if err := engine.RaiseFences(ctx, operator, queue, 10); err != nil {
			t.Error(err)
		}
	}}
	err := engine.RaiseFences(t.Context(), overtaken, queue, 1000)
	if h, _ := s.ShardRows(shard0); err == nil || h.Fence != before.Fence+10 {
		t.Errorf("%v; the fence is %d, was %d", err, h.Fence, before.Fence)
	}
	if err := engine.RaiseFences(t.Context(), operator, queue, 1000); err != nil {
		t.Error(err)
	}
}

// TestRetire: what ended jobs have left is retired before they are forgotten, and not while
// a run of before is at work. As long as that fails they are remembered, and it is tried
// now and then.
func TestRetire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		over := make(chan struct{})
		var failing atomic.Bool
		var asked atomic.Int64
		var mu sync.Mutex
		var retired []job.ID
		var last context.Context // of one call after the other
		h := func(_ context.Context, k *worker.Task) error {
			if k.Run.Job.Key == "long" {
				<-over
			}
			return nil
		}
		r := run(t, sim.New(), "w", h, func(o *engine.Options) {
			o.DedupeWindow, o.InboxPoll = time.Hour, time.Second
			o.Retire = func(ctx context.Context, id store.ShardID, below job.RunID, ended []job.ID) error {
				asked.Add(1)
				if last != nil && last.Err() == nil {
					t.Error("the call before has returned, and its context has not ended")
				}
				last = ctx
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
			r.put(t, j)
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
