package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/engine"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

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

// TestLateJobs: a job that waits for a slot is told of once, when it is late, and not
// again when it starts; one that is in time never.
func TestLateJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told lateJobs
		length := 20 * time.Second
		r := run(t, sim.New(), "w", func(ctx context.Context, _ *worker.Task) error {
			time.Sleep(length)
			return nil
		}, func(o *engine.Options) { o.LateJob, o.LateAfter = told.tell, 5*time.Second })
		for _, key := range []string{"a", "b", "c"} { // two slots
			if _, err := r.eng.Enqueue(t.Context(), aJob(key)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(4 * time.Second)
		if got := told.take(); len(got) != 0 {
			t.Errorf("after 4 s: %v", got)
		}
		time.Sleep(4 * time.Second)
		told.mu.Lock()
		if len(told.list) != 1 || told.list[0].By < 5*time.Second || told.list[0].By > 8*time.Second || told.list[0].Shard != shard0 || told.list[0].Kind != "k" || told.list[0].Due.IsZero() {
			t.Errorf("after 8 s: %+v", told.list)
		}
		told.mu.Unlock()
		if got := told.take(); !slices.Equal(got, []string{"c/1 waiting true"}) {
			t.Errorf("after 8 s: %v", got)
		}
		time.Sleep(time.Minute)
		if got := told.take(); len(got) != 0 {
			t.Errorf("when it had started: %v", got)
		}
		r.end(t)
	})
}

// TestLateAfterAnOutage: what came due while nobody owned its shard starts late, at once
// when somebody does.
func TestLateAfterAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told lateJobs
		s := sim.New()
		done := func(context.Context, *worker.Task) error { return nil }
		r := run(t, s, "a", done)
		for n, key := range []string{"early", "later"} {
			j := aJob(key)
			j.Due = time.Now().Add(time.Duration(1+60*n) * time.Minute)
			if _, err := r.eng.Enqueue(t.Context(), j); err != nil {
				t.Fatal(err)
			}
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

// TestLateWhenAClockIsSetBack: for how long a job has waited does not depend on what
// becomes of the wall clock.
func TestLateWhenAClockIsSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told lateJobs
		var offset atomic.Int64
		r := run(t, sim.New(), "w", func(context.Context, *worker.Task) error {
			time.Sleep(20 * time.Second)
			return nil
		}, func(o *engine.Options) {
			o.LateJob, o.LateAfter = told.tell, 5*time.Second
			o.Wall = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
		})
		for _, key := range []string{"a", "b", "c"} {
			if _, err := r.eng.Enqueue(t.Context(), aJob(key)); err != nil {
				t.Fatal(err)
			}
		}
		offset.Store(-int64(time.Hour))
		time.Sleep(8 * time.Second)
		if got := told.take(); !slices.Equal(got, []string{"c/1 waiting true"}) {
			t.Errorf("after 8 s: %v", got)
		}
		r.end(t)
	})
}

// TestPausedIsNotLate: jobs that wait in a paused shard are not late; those that wait
// when it goes on are, if they have to wait for long then.
func TestPausedIsNotLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told lateJobs
		r := run(t, sim.New(), "w", func(context.Context, *worker.Task) error {
			time.Sleep(20 * time.Second)
			return nil
		}, func(o *engine.Options) { o.LateJob, o.LateAfter = told.tell, 5*time.Second })
		pause := func(on bool) {
			if _, err := r.eng.SetPaused(t.Context(), shard0, on); err != nil {
				t.Fatal(err)
			}
		}
		pause(true)
		for _, key := range []string{"a", "b", "c"} { // two slots
			if _, err := r.eng.Enqueue(t.Context(), aJob(key)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		pause(false)
		time.Sleep(4 * time.Second)
		if got := told.take(); len(got) != 0 {
			t.Errorf("4 s after the pause: %v", got)
		}
		time.Sleep(4 * time.Second)
		if got := told.take(); len(got) != 1 || got[0][1:] != "/1 waiting true" {
			t.Errorf("8 s after the pause: %v", got)
		}
		r.end(t)
	})
}
