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
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
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
					if _, err := r.eng.Enqueue(t.Context(), aJob(key)); err != nil {
						t.Fatal(err)
					}
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
