package schedulertest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/scheduler"
	"fencepost/core/scheduler/schedulertest"
	"fencepost/core/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type args struct{ N int }

const kind scheduler.Kind[args] = "kind"

func enqueue(t *testing.T, h *schedulertest.Harness, n int, o ...scheduler.Option) job.ID {
	t.Helper()
	r, err := kind.Enqueue(t.Context(), h.Scheduler(), args{n}, o...)
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}

// TestTime: what is due happens at its time by the test's clock, and nothing earlier.
func TestTime(t *testing.T) {
	t.Parallel()
	schedulertest.Test(t, func(t *testing.T, h *schedulertest.Harness) {
		begun := time.Now()
		var ran []time.Duration
		schedulertest.Handle(h, kind, func(context.Context, *scheduler.Task, args) error {
			ran = append(ran, time.Since(begun).Round(time.Second))
			return nil
		})
		id := enqueue(t, h, 1, scheduler.Delay(time.Hour))
		h.Advance(time.Hour - time.Second)
		if len(ran) > 0 || h.Job(id).State != job.Pending {
			t.Errorf("early: %v, %s", ran, h.Job(id).State)
		}
		h.Advance(time.Second) // to the millisecond when it was asked for, an hour ago
		if !slices.Equal(ran, []time.Duration{time.Hour}) || h.Job(id).State != job.Completed {
			t.Errorf("ran at %v, %s", ran, h.Job(id).State)
		}
		to := begun.Add(10 * time.Hour)
		if h.AdvanceTo(to); time.Since(to) < 0 || time.Since(to) > 20*time.Millisecond {
			t.Errorf("it is %s", time.Now())
		}
		if h.Job(job.KeyedID(schedulertest.DefaultQueue, "none", 1)).State != "" {
			t.Error("a job that nobody enqueued")
		}
	})
}

// TestAdvanceIsABarrier: a test and its handlers share a variable without a lock. Only the
// race detector sees more than the sums.
func TestAdvanceIsABarrier(t *testing.T) {
	t.Parallel()
	schedulertest.Test(t, func(t *testing.T, h *schedulertest.Harness) {
		ran := 0
		schedulertest.Handle(h, kind, func(context.Context, *scheduler.Task, args) error {
			ran++
			return nil
		})
		const times = 50
		for n := range times {
			enqueue(t, h, n, scheduler.Delay(time.Duration(n+1)*time.Minute))
		}
		for n := range times {
			h.Advance(time.Minute)
			if ran != 1 {
				t.Errorf("%d runs in minute %d", ran, n+1)
			}
			ran = 0
		}
	})
}

// TestCrashes: a process that dies at any step of a job's life loses nothing; the handler
// runs again where nobody knows how far it came, and the effect is there once.
func TestCrashes(t *testing.T) {
	t.Parallel()
	for at, runs := range map[engine.StepKind]int{
		engine.StepClaim: 1, engine.StepStart: 1, engine.StepFinish: 2, engine.StepComplete: 1, engine.StepSettled: 1,
	} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			schedulertest.Test(t, func(t *testing.T, h *schedulertest.Harness) {
				ran := 0
				schedulertest.Handle(h, kind, func(ctx context.Context, k *scheduler.Task, a args) error {
					ran++
					return k.Do(ctx, sink.Effect{Key: "a", Intent: "a", Value: int64(a.N)})
				})
				before := h.Scheduler()
				var id job.ID
				if at == engine.StepSettled {
					// The batch that enqueues it, or an empty one before that.
					h.CrashAt(at)
					id = enqueue(t, h, 7, scheduler.Key("a"))
				} else {
					h.CrashAt(at)
					id = enqueue(t, h, 7)
				}
				h.Advance(3 * time.Minute)
				if ran != runs || h.Job(id).State != job.Completed {
					t.Errorf("%d runs, %s; want %d", ran, h.Job(id).State, runs)
				}
				if h.Scheduler() == before {
					t.Error("the process is the same")
				}
				accepted := 0
				entries, err := h.Sink.Ledger(t.Context(), "job/"+schedulertest.DefaultQueue+"/"+string(id))
				for _, e := range entries {
					if e.Kind == sink.KindAccept {
						accepted++
					}
				}
				if accepted != 1 || err != nil {
					t.Errorf("%d effects: %+v, %v", accepted, entries, err)
				}
			})
		})
	}
}

// TestACrashedHandler has no effect any more, and its context ends.
func TestACrashedHandler(t *testing.T) {
	t.Parallel()
	schedulertest.Test(t, func(t *testing.T, h *schedulertest.Harness) {
		var causes []error
		schedulertest.Handle(h, kind, func(ctx context.Context, k *scheduler.Task, a args) error {
			if k.Run.Attempt > 1 {
				return nil
			}
			if _, err := k.Open(ctx); err != nil {
				return err
			}
			<-ctx.Done()
			_, err := k.Apply(context.WithoutCancel(ctx), sink.Effect{Key: "a", Intent: "a"})
			causes = append(causes, context.Cause(ctx), err)
			return err
		})
		id := enqueue(t, h, 1, scheduler.MaxDuration(time.Hour))
		h.Advance(time.Second)
		if err := h.Crash(); !errors.Is(err, schedulertest.ErrCrashed) {
			t.Error(err)
		}
		h.Advance(time.Second)
		if len(causes) != 2 || !errors.Is(causes[0], schedulertest.ErrCrashed) || !errors.Is(causes[1], schedulertest.ErrCrashed) {
			t.Errorf("the handler saw %v", causes)
		}
		h.Advance(2 * time.Minute)
		if j := h.Job(id); j.State != job.Completed || j.Attempts != 2 {
			t.Errorf("%+v", j)
		}
	})
}

// story is what a test sees that has some of everything.
func story(t *testing.T) string {
	var out strings.Builder
	schedulertest.Test(t, func(t *testing.T, h *schedulertest.Harness) {
		schedulertest.Handle(h, kind, func(_ context.Context, k *scheduler.Task, a args) error {
			fmt.Fprintln(&out, time.Now(), k.Run.Job.ID, k.Run.ID, k.Run.Attempt, a.N)
			if a.N%3 == 0 && k.Run.Attempt < 3 {
				return errors.New("on purpose")
			}
			return nil
		})
		if _, err := kind.Schedule(t.Context(), h.Scheduler(), schedule.Definition{Key: "s", Timing: schedule.Timing{Kind: schedule.FixedRate, Every: 7 * time.Minute}}, args{100}); err != nil {
			t.Error(err)
		}
		for n := range 20 {
			enqueue(t, h, n, scheduler.Delay(time.Duration(n/4)*time.Second))
		}
		h.CrashAt(engine.StepFinish)
		h.Advance(30 * time.Minute)
	})
	return out.String()
}

// TestTheSameEachTime: ids, tokens, jitter, order and time, to the nanosecond.
func TestTheSameEachTime(t *testing.T) {
	t.Parallel()
	first := story(t)
	for range 3 {
		if s := story(t); s != first {
			t.Fatalf("a test saw\n%s\nand then\n%s", first, s)
		}
	}
	if strings.Count(first, "\n") < 30 {
		t.Errorf("it saw only\n%s", first)
	}
}

// TestOptions: handlers that a program has already, more slots, queues.
func TestOptions(t *testing.T) {
	t.Parallel()
	at, most := 0, 0
	handlers := scheduler.Handlers{}
	if err := kind.Register(handlers, func(ctx context.Context, _ *scheduler.Task, _ args) error {
		at++
		most = max(most, at)
		time.Sleep(time.Second)
		at--
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	schedulertest.Test(t, func(t *testing.T, h *schedulertest.Harness) {
		id := enqueue(t, h, 0)
		for n := range 3 {
			enqueue(t, h, n, scheduler.Queue("b"))
		}
		h.Advance(time.Minute)
		if most != 1 || h.Job(id).State != job.Completed || h.Job(id, "a").State != job.Completed {
			t.Errorf("%d at once, %s", most, h.Job(id).State)
		}
	}, func(o *scheduler.Options) {
		o.Handlers = handlers
		o.Engine.Queues = []engine.Queue{{Name: "a", Shards: 2}, {Name: "b", Shards: 3}}
	})
}

// TestExamplePanics: an example has nobody else to tell.
func TestExamplePanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "has a handler already") && !strings.Contains(fmt.Sprint(r), "have a handler already") {
			t.Errorf("it panics with %v", r)
		}
	}()
	schedulertest.Example(func(h *schedulertest.Harness) {
		nothing := func(context.Context, *scheduler.Task, args) error { return nil }
		schedulertest.Handle(h, kind, nothing)
		schedulertest.Handle(h, kind, nothing)
	})
}
