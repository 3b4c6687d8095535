package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
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
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { clocksApart(t, c.first, c.second) })
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
		if _, err := a.eng.Enqueue(t.Context(), j); err != nil {
			t.Fatal(err)
		}
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
