package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// state is a job's state by its row.
func (r *rig) state(id job.ID) (state job.State, attempt int) {
	_, rows := r.store.ShardRows(shard0)
	for _, row := range rows {
		if row.Kind == store.KindJob && row.ID == string(id) {
			return job.State(row.State), row.Attempt
		}
	}
	return "", 0
}

// is reports whether err is a refusal that names the state.
func is(err error, s job.State) bool {
	var se *engine.StateError
	var ce *engine.CommandError
	return errors.As(err, &se) && se.State == s && errors.As(err, &ce) && store.OutcomeOf(err) == store.Fail
}

func TestCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var causes []error
		r := run(t, sim.New(), "w", func(ctx context.Context, k *worker.Task) error {
			err := clock.Go().Sleep(ctx, 10*time.Second)
			causes = append(causes, context.Cause(ctx))
			if k.Run.Job.Key == "succeeds" {
				return nil
			}
			return err
		})
		enqueue := func(key string, due time.Duration) job.ID {
			j := aJob(key)
			if due > 0 {
				j.Due = time.Now().Add(due)
			}
			if _, err := r.eng.Enqueue(t.Context(), j); err != nil {
				t.Fatal(err)
			}
			return j.ID
		}
		cancel := func(id job.ID) error { return r.eng.Cancel(t.Context(), "q", id) }

		for name, due := range map[string]time.Duration{"soon": 30 * time.Second, "beyond the window": 10 * time.Minute} {
			id := enqueue(name, due)
			if err := cancel(id); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := cancel(id); !is(err, job.Cancelled) {
				t.Errorf("%s, again: %v", name, err)
			}
		}
		for key, want := range map[string]job.State{"fails": job.Cancelled, "succeeds": job.Completed} {
			id := enqueue(key, 0)
			time.Sleep(time.Second)
			begun := time.Now()
			err := cancel(id)
			if want == job.Cancelled && err != nil || want == job.Completed && !is(err, job.Completed) {
				t.Errorf("%s: %v", key, err)
			}
			if s, _ := r.state(id); s != want || time.Since(begun) > time.Second {
				t.Errorf("%s is %s after %s", key, s, time.Since(begun))
			}
		}
		if len(causes) != 2 || !errors.Is(causes[0], job.ErrCancelled) || !errors.Is(causes[1], job.ErrCancelled) {
			t.Errorf("the runs' contexts ended by %v", causes)
		}
		if err := cancel(aJob("never seen").ID); !errors.Is(err, engine.ErrUnknownJob) || store.OutcomeOf(err) != store.Fail {
			t.Errorf("an unknown job: %v", err)
		}
		var invalid *job.InvalidError
		if err := cancel("7-x"); !errors.As(err, &invalid) {
			t.Errorf("no id: %v", err)
		}
		if err := r.eng.Redrive(t.Context(), "other", aJob("a").ID); !errors.As(err, &invalid) {
			t.Errorf("another queue: %v", err)
		}
		time.Sleep(11 * time.Minute)
		if len(causes) != 2 {
			t.Error("a cancelled job has run")
		}
		r.end(t)
		if err := cancel(aJob("a").ID); !errors.Is(err, engine.ErrNotOwner) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestCancelThatNobodyWaitsFor: the outcome is unknown, and the job is cancelled.
func TestCancelThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, sim.New(), "w", func(ctx context.Context, _ *worker.Task) error {
			<-ctx.Done()
			time.Sleep(5 * time.Second) // it is slow to heed it
			return ctx.Err()
		})
		j := aJob("a")
		if _, err := r.eng.Enqueue(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := r.eng.Cancel(ctx, "q", j.ID); store.OutcomeOf(err) != store.Unknown || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Cancel: %v", err)
		}
		time.Sleep(10 * time.Second)
		if s, _ := r.state(j.ID); s != job.Cancelled {
			t.Errorf("it is %s", s)
		}
		r.end(t)
	})
}

func TestRedrive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs []job.Run
		mended := false
		r := run(t, sim.New(), "w", func(_ context.Context, k *worker.Task) error {
			runs = append(runs, k.Run)
			if mended {
				return nil
			}
			return errors.New("broken")
		})
		j := aJob("a")
		j.MaxAttempts, j.Retry = 2, job.Exponential(time.Second, 1, time.Second)
		redrive := func() error { return r.eng.Redrive(t.Context(), "q", j.ID) }
		if err := redrive(); !errors.Is(err, engine.ErrUnknownJob) {
			t.Errorf("before the job is there: %v", err)
		}
		if _, err := r.eng.Enqueue(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		if err := redrive(); !is(err, job.Pending) && !is(err, job.Running) {
			t.Errorf("while it is at work: %v", err)
		}
		time.Sleep(time.Minute)
		if s, n := r.state(j.ID); s != job.DLQ || n != 2 {
			t.Fatalf("it is %s after %d attempts", s, n)
		}
		mended = true
		if err := redrive(); err != nil {
			t.Errorf("Redrive: %v", err)
		}
		time.Sleep(time.Second)
		if s, n := r.state(j.ID); s != job.Completed || n != 1 || len(runs) != 3 || runs[2].Attempt != 1 || runs[2].ID <= runs[1].ID {
			t.Errorf("it is %s after attempt %d; runs %+v", s, n, runs)
		}
		if err := redrive(); !is(err, job.Completed) {
			t.Errorf("when it is completed: %v", err)
		}
		r.end(t)
	})
}

// TestCancelOfAJobInTheInbox: it was acknowledged, so nobody is told that it is not
// known; nor does it run.
func TestCancelOfAJobInTheInbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ran := false
		r := run(t, sim.New(), "w", func(context.Context, *worker.Task) error { ran = true; return nil },
			func(o *engine.Options) { o.InboxPoll, o.MaxPending = time.Hour, 3 })
		inbox := engine.Inbox{Store: r.session, Clock: clock.Go()}
		put := func(key string) job.ID {
			j := aJob(key)
			j.Due = time.Now().Add(time.Second)
			if _, err := inbox.Enqueue(t.Context(), j, 1); err != nil {
				t.Fatal(err)
			}
			return j.ID
		}
		a := put("a")
		if err := r.eng.Redrive(t.Context(), "q", a); !is(err, job.Pending) {
			t.Errorf("Redrive: %v", err)
		}
		b := put("b")
		if err := r.eng.Cancel(t.Context(), "q", b); err != nil {
			t.Errorf("Cancel: %v", err)
		}
		if err := r.eng.Cancel(t.Context(), "q", a); err != nil {
			t.Errorf("Cancel: %v", err)
		}
		time.Sleep(10 * time.Second)
		for _, id := range []job.ID{a, b} {
			if s, _ := r.state(id); s != job.Cancelled {
				t.Errorf("%s is %q", id, s)
			}
		}
		if rows := r.store.InboxRows(shard0); ran || len(rows) != 0 {
			t.Errorf("ran: %t, in the inbox: %v", ran, rows)
		}
		// With no room for it the answer is that, and no other.
		for _, key := range []string{"x", "y", "z"} {
			j := aJob(key)
			j.Due = time.Now().Add(30 * time.Second)
			if _, err := r.eng.Enqueue(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
		c := put("c")
		if err := r.eng.Cancel(t.Context(), "q", c); !errors.Is(err, engine.ErrBusy) || store.OutcomeOf(err) != store.Fail {
			t.Errorf("with a full shard: %v", err)
		}
		r.end(t)
	})
}

func TestHasten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs []job.Run
		r := run(t, sim.New(), "w", func(_ context.Context, k *worker.Task) error {
			runs = append(runs, k.Run)
			if k.Run.Job.Key == "fails" && k.Run.Attempt == 1 {
				return errors.New("once")
			}
			return nil
		}, func(o *engine.Options) { o.InboxPoll = time.Hour })
		begun := time.Now()
		hasten := func(j job.Job, duplicate bool) {
			t.Helper()
			if rec, err := r.eng.Hasten(t.Context(), "q", j.ID); err != nil || rec.ID != j.ID || rec.Duplicate != duplicate {
				t.Errorf("%s: %+v, %v", j.Key, rec, err)
			}
			time.Sleep(time.Second)
			if s, _ := r.state(j.ID); s != job.Completed {
				t.Errorf("%s is %s", j.Key, s)
			}
			if _, err := r.eng.Hasten(t.Context(), "q", j.ID); !is(err, job.Completed) {
				t.Errorf("%s, again: %v", j.Key, err)
			}
		}
		soon, far, fails, inbox := aJob("soon"), aJob("far"), aJob("fails"), aJob("inbox")
		soon.Due, far.Due, inbox.Due = begun.Add(30*time.Second), begun.Add(1000*time.Hour), begun.Add(time.Hour)
		fails.Retry = job.Exponential(time.Hour, 1, time.Hour)
		for _, j := range []job.Job{soon, far, fails} {
			if _, err := r.eng.Enqueue(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := (engine.Inbox{Store: r.session, Clock: clock.Go()}).Enqueue(t.Context(), inbox, 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for _, j := range []job.Job{soon, far, fails, inbox} {
			hasten(j, false)
		}
		if len(runs) != 5 || time.Since(begun) > 20*time.Second {
			t.Errorf("%d runs within %s", len(runs), time.Since(begun))
		}
		if _, err := r.eng.Hasten(t.Context(), "q", aJob("none").ID); !errors.Is(err, engine.ErrUnknownJob) {
			t.Errorf("an unknown job: %v", err)
		}
		var invalid *job.InvalidError
		if _, err := r.eng.Hasten(t.Context(), "other", soon.ID); !errors.As(err, &invalid) {
			t.Errorf("another queue: %v", err)
		}
		r.end(t)
		if _, err := r.eng.Hasten(t.Context(), "q", soon.ID); !errors.Is(err, engine.ErrNotOwner) {
			t.Errorf("after the end: %v", err)
		}
	})
}
