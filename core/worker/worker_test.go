package worker_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store"
	"fencepost/core/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func claimed(run int64) engine.Execution {
	j := job.Job{ID: job.KeyedID("q", "a", 1), Queue: "q", Kind: "k", Key: "a"}.WithDefaults()
	return engine.Execution{Run: job.Run{Job: j, ID: job.RunID(run), Attempt: 1}, Issuer: "shard/q/0",
		Begin: func() error { return nil }, Valid: func() bool { return true }}
}

// start runs one execution to its end.
func start(ctx context.Context, p *worker.Pool, x engine.Execution) error {
	p.Reserve(1)
	done := make(chan error, 1)
	p.Start(ctx, x, func(err error) { done <- err })
	err := <-done
	p.Wait()
	return err
}

func pool(s sink.Sink, h worker.Handler) *worker.Pool {
	return worker.New(worker.Options{Slots: 3, Handlers: map[string]worker.Handler{"k": h}, Sink: s, Clock: clock.Go(), Logger: quiet})
}

func TestResults(t *testing.T) {
	t.Parallel()
	lost := &engine.LostError{Cause: engine.ErrExpired}
	wait := func(ctx context.Context, _ *worker.Task) error { return clock.Go().Sleep(ctx, time.Hour) }
	for name, c := range map[string]struct {
		handler worker.Handler
		change  func(*engine.Execution)
		end     error // of the run's context, after a second
		want    error
		says    string
	}{
		"success":         {handler: func(context.Context, *worker.Task) error { return nil }},
		"failure":         {handler: func(context.Context, *worker.Task) error { return io.EOF }, want: io.EOF},
		"panic":           {handler: func(context.Context, *worker.Task) error { panic("oh") }, says: "panicked: oh"},
		"too long":        {handler: wait, want: worker.ErrTooLong},
		"interrupted":     {handler: wait, end: job.ErrInterrupted, want: job.ErrInterrupted},
		"lost":            {handler: wait, end: lost, want: engine.ErrExpired},
		"not trusted":     {handler: wait, change: func(x *engine.Execution) { x.Begin = func() error { return lost } }, want: lost},
		"goroutine ended": {handler: func(context.Context, *worker.Task) error { runtime.Goexit(); return nil }, says: "ended its goroutine"},
		"unknown kind":    {change: func(x *engine.Execution) { x.Run.Job.Kind = "other" }, says: `"other"`},
		"success, though": {handler: func(ctx context.Context, t *worker.Task) error { _ = wait(ctx, t); return nil }, end: job.ErrInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := pool(nil, c.handler)
				x := claimed(1)
				if c.change != nil {
					c.change(&x)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.end != nil {
					time.AfterFunc(time.Second, func() { cancel(c.end) })
				}
				err := start(ctx, p, x)
				switch {
				case c.want == nil && c.says == "" && err != nil, c.want != nil && !errors.Is(err, c.want), c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
					t.Errorf("the run ended with %v", err)
				}
				if p.Free() != 3 {
					t.Errorf("%d slots are free", p.Free())
				}
			})
		})
	}
}

func TestSlots(t *testing.T) {
	t.Parallel()
	p := pool(nil, nil)
	if a, b, c := p.Reserve(2), p.Reserve(2), p.Reserve(2); a != 2 || b != 1 || c != 0 {
		t.Errorf("reserved %d, %d, %d of 3", a, b, c)
	}
	p.Release(2)
	if p.Reserve(-1) != 0 || p.Free() != 2 {
		t.Errorf("%d are free", p.Free())
	}
}

// task runs f as a handler with a token.
func task(t *testing.T, s sink.Sink, token int64, f func(ctx context.Context, k *worker.Task) error) error {
	t.Helper()
	return start(t.Context(), pool(s, f), claimed(token))
}

func TestEffects(t *testing.T) {
	t.Parallel()
	m := sinktest.NewMemory()
	effect := sink.Effect{Key: "a", Intent: "do a"}
	err := task(t, m, 5, func(ctx context.Context, k *worker.Task) error {
		if _, err := k.Apply(ctx, effect); !errors.Is(err, worker.ErrNotOpen) {
			t.Errorf("Apply before Open: %v", err)
		}
		if _, err := k.Open(ctx, "a"); err != nil {
			return err
		}
		_, err := k.Apply(ctx, effect)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// A later run sees what was done; an earlier one can do nothing any more.
	err = task(t, m, 6, func(ctx context.Context, k *worker.Task) error {
		st, err := k.Open(ctx, "a", "b")
		if st.Applied["a"] != 5 || len(st.Applied) != 1 {
			t.Errorf("applied before: %v", st.Applied)
		}
		if a, err := k.Apply(ctx, effect); err != nil || a.Result != sink.Duplicate {
			t.Errorf("again: %v, %v", a, err)
		}
		if _, err := k.Apply(ctx, sink.Effect{Key: "a", Intent: "do b"}); err == nil {
			t.Error("another effect with the same key was applied")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	err = task(t, m, 5, func(ctx context.Context, k *worker.Task) error {
		_, err := k.Open(ctx)
		return err
	})
	if !errors.Is(err, worker.ErrStale) {
		t.Errorf("an earlier run: %v", err)
	}
	if err := task(t, nil, 5, func(ctx context.Context, k *worker.Task) error {
		_, err := k.Open(ctx)
		return err
	}); !errors.Is(err, worker.ErrNoSink) {
		t.Errorf("without a sink: %v", err)
	}
}

// counting counts the calls that Open makes.
type counting struct {
	sink.Sink
	raises, reads int
}

func (c *counting) Raise(ctx context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	c.raises++
	return c.Sink.Raise(ctx, resource, issuer, token)
}

func (c *counting) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	c.reads++
	return c.Sink.Read(ctx, resource, keys...)
}

// TestFirstRunAsksNobody: there is nothing to find before a job's first run; what
// follows it does ask, and so does the first run itself when it opens again.
func TestFirstRunAsksNobody(t *testing.T) {
	t.Parallel()
	c := &counting{Sink: sinktest.NewMemory()}
	x := claimed(5)
	x.Run.First = true
	err := start(t.Context(), pool(c, func(ctx context.Context, k *worker.Task) error {
		if st, err := k.Open(ctx, "a"); err != nil || len(st.Applied) != 0 || c.raises+c.reads != 0 {
			t.Errorf("first Open: %+v, %v, %d raises, %d reads", st, err, c.raises, c.reads)
		}
		if _, err := k.Apply(ctx, sink.Effect{Key: "a", Intent: "a", Value: 1}); err != nil {
			return err
		}
		st, err := k.Open(ctx, "a")
		if st.Value != 1 || st.Applied["a"] != 5 || c.raises != 1 || c.reads != 1 {
			t.Errorf("second Open: %+v, %d raises, %d reads", st, c.raises, c.reads)
		}
		return err
	}), x)
	if err != nil {
		t.Fatal(err)
	}
	if err := task(t, c, 6, func(ctx context.Context, k *worker.Task) error {
		_, err := k.Open(ctx)
		return err
	}); err != nil || c.raises != 2 || c.reads != 2 {
		t.Errorf("a later run: %v, %d raises, %d reads", err, c.raises, c.reads)
	}
}

// forgetful loses the answer to the first Accept.
type forgetful struct {
	sink.Sink
	calls int
}

func (f *forgetful) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	a, err := f.Sink.Accept(ctx, resource, issuer, token, e)
	if f.calls++; f.calls == 1 {
		return sink.Answer{}, &store.Error{Outcome: store.Unknown, Cause: io.EOF}
	}
	return a, err
}

// TestAnUnsettledEffectStopsTheRest: within one token no fence protects, so an
// effect that may still come must be settled first.
func TestAnUnsettledEffectStopsTheRest(t *testing.T) {
	t.Parallel()
	err := task(t, &forgetful{Sink: sinktest.NewMemory()}, 5, func(ctx context.Context, k *worker.Task) error {
		if _, err := k.Open(ctx); err != nil {
			return err
		}
		a, b := sink.Effect{Key: "a", Intent: "a"}, sink.Effect{Key: "b", Intent: "b"}
		if _, err := k.Apply(ctx, a); store.OutcomeOf(err) != store.Unknown {
			t.Errorf("the lost answer: %v", err)
		}
		if _, err := k.Apply(ctx, b); !errors.Is(err, worker.ErrUnsettled) {
			t.Errorf("another effect: %v", err)
		}
		if _, err := k.Open(ctx); !errors.Is(err, worker.ErrUnsettled) {
			t.Errorf("Open: %v", err)
		}
		if got, err := k.Apply(ctx, a); err != nil || got.Result != sink.Duplicate {
			t.Errorf("the same again: %v, %v", got, err)
		}
		_, err := k.Apply(ctx, b)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// absent is a sink that cannot be reached while it is away.
type absent struct {
	sink.Sink
	away bool
}

func (s *absent) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	if s.away {
		return sink.Answer{}, &store.Error{Op: "accept", Outcome: store.Fail, Cause: errors.New("connection refused")}
	}
	return s.Sink.Accept(ctx, resource, issuer, token, e)
}

// TestAFailedResendSettlesNothing: the first copy of the effect may still be under way.
func TestAFailedResendSettlesNothing(t *testing.T) {
	t.Parallel()
	s := &absent{Sink: &forgetful{Sink: sinktest.NewMemory()}}
	err := task(t, s, 5, func(ctx context.Context, k *worker.Task) error {
		if _, err := k.Open(ctx); err != nil {
			return err
		}
		a, b := sink.Effect{Key: "a", Intent: "a"}, sink.Effect{Key: "b", Intent: "b"}
		if _, err := k.Apply(ctx, a); store.OutcomeOf(err) != store.Unknown {
			t.Errorf("the lost answer: %v", err)
		}
		s.away = true
		if _, err := k.Apply(ctx, a); store.OutcomeOf(err) != store.Fail {
			t.Errorf("the resend: %v", err)
		}
		s.away = false
		if _, err := k.Apply(ctx, b); !errors.Is(err, worker.ErrUnsettled) {
			t.Errorf("another effect: %v", err)
		}
		if got, err := k.Apply(ctx, a); err != nil || got.Result != sink.Duplicate {
			t.Errorf("the same again: %v, %v", got, err)
		}
		_, err := k.Apply(ctx, b)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
