package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/sink"
)

// ErrTooLong is the cause of the end of a run that reached its job's MaxDuration.
var ErrTooLong = errors.New("worker: the run took longer than its job's max duration")

// Handler runs a job. An error means another attempt, or the dead letter queue if none
// is left or it was made by job.Permanent; one made by job.Cancel means neither, one made
// by job.NotHere that no attempt was made.
type Handler func(ctx context.Context, t *Task) error

// Options configure a Pool.
type Options struct {
	// Slots is how many runs may be at work at once; default 100.
	Slots int
	// Handlers by kind of job. A job of another kind waits for a process that has one
	// (job.NotHere).
	Handlers map[string]Handler
	// Sink takes the effects of Tasks; nil if no handler uses one.
	Sink sink.Sink
	// Clock measures MaxDuration; default clock.System().
	Clock  clock.Clock
	Logger *slog.Logger
}

// Pool is an engine.Executor. Safe for concurrent use.
type Pool struct {
	o  Options
	wg sync.WaitGroup

	mu   sync.Mutex
	free int
}

var _ engine.Executor = (*Pool)(nil)

// New makes a pool.
func New(o Options) *Pool {
	if o.Slots <= 0 {
		o.Slots = 100
	}
	o.Clock = cmp.Or(o.Clock, clock.System())
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return &Pool{o: o, free: o.Slots}
}

// Reserve implements engine.Executor.
func (p *Pool) Reserve(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = max(min(n, p.free), 0)
	p.free -= n
	return n
}

// Release implements engine.Executor.
func (p *Pool) Release(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = min(p.free+n, p.o.Slots)
}

// Free is the number of slots that nobody uses.
func (p *Pool) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free
}

// Wait waits until no handler is at work. Call it after Engine.Run returned.
func (p *Pool) Wait() { p.wg.Wait() }

// Start implements engine.Executor.
func (p *Pool) Start(ctx context.Context, x engine.Execution, done func(error)) {
	p.wg.Go(func() {
		err := errGone
		defer func() {
			p.Release(1)
			done(err)
		}()
		err = p.run(ctx, x)
	})
}

// errGone: the handler's goroutine ended without returning (runtime.Goexit).
var errGone = errors.New("worker: the handler ended its goroutine instead of returning")

func (p *Pool) run(ctx context.Context, x engine.Execution) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer p.o.Clock.AfterFunc(x.Run.Job.MaxDuration, func() { cancel(ErrTooLong) })()
	h := p.o.Handlers[x.Run.Job.Kind]
	if h == nil {
		return job.NotHere(fmt.Errorf("worker: no handler for jobs of kind %q: this process should not own queue %q", x.Run.Job.Kind, x.Run.Job.Queue))
	}
	t := &Task{Run: x.Run, issuer: x.Issuer, sink: p.o.Sink, valid: x.Valid}
	if err := x.Begin(); err != nil {
		return err
	}
	err := p.call(ctx, h, t)
	if err != nil && errors.Is(context.Cause(ctx), job.ErrInterrupted) {
		return fmt.Errorf("%w: %w", job.ErrInterrupted, err)
	}
	return err
}

// call makes an error of a handler's panic: one job must not end the process.
func (p *Pool) call(ctx context.Context, h Handler, t *Task) (err error) {
	defer func() {
		if r := recover(); r != nil {
			p.o.Logger.Error("handler panicked", "job", t.Run.Job.ID, "run", t.Run.ID, "panic", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("worker: the handler panicked: %v", r)
		}
	}()
	return h(ctx, t)
}
