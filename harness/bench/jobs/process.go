package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/scheduler"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/worker"
	"fencepost/harness/bench"
)

// Kind is that of all jobs.
const Kind = "bench"

// effectKey is the key of a job's only effect.
const effectKey = "done"

// process is the production scheduler at work on a queue of its own.
type process struct {
	*scheduler.Scheduler
	env   *bench.Env
	book  *book
	meter *meter
	watch *watch
	end   chan error
	stop  context.CancelFunc
}

// ownTimeout bounds the wait for shards that nobody else wants.
const ownTimeout = 30 * time.Second

// start starts a scheduler and waits until it owns all shards.
func start(ctx context.Context, env *bench.Env, queue string, shards int, effects bool, stream uint64) (*process, error) {
	p := &process{env: env, book: newBook(queue, shards), meter: &meter{Shards: env.Shards}, end: make(chan error, 1)}
	p.watch = &watch{book: p.book}
	handler := nothing
	if effects {
		handler = effect
	}
	s, err := scheduler.New(scheduler.Options{
		Shards: p.meter, Sink: env.Sink, Handlers: map[string]worker.Handler{Kind: handler},
		// With fewer slots than its shards may claim, a process claims in small batches.
		Slots: shards * engine.DefaultMaxRunning,
		Engine: engine.Options{
			Name: "bench-" + queue, Queues: []engine.Queue{{Name: queue, Shards: shards}},
			Clock: env.Clock, Rand: env.Rand(stream), Observer: p.watch, Logger: env.Logger,
		},
	})
	if err != nil {
		return nil, err
	}
	p.Scheduler = s
	// It is stopped by stop, which hands the shards over, and not by a signal.
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	go func() { p.end <- s.Run(run) }()
	ctx, cancel := context.WithTimeout(ctx, ownTimeout)
	defer cancel()
	for i := range shards {
		id := store.ShardID{Queue: queue, Shard: i}
		for !s.Owns(id) {
			if err := pause(ctx, 2*time.Millisecond); err != nil {
				return nil, errors.Join(fmt.Errorf("shard %s is not owned after %s: %w", id, ownTimeout, err), p.close())
			}
		}
	}
	return p, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// nothing is a handler that does nothing, effect one that has one fenced effect.
func nothing(context.Context, *worker.Task) error { return nil }

func effect(ctx context.Context, t *worker.Task) error {
	st, err := t.Open(ctx, effectKey)
	if err != nil {
		return err
	}
	if _, done := st.Applied[effectKey]; done {
		return nil
	}
	_, err = t.Apply(ctx, sink.Effect{Key: effectKey, Intent: effectKey, Value: t.Token()})
	return err
}

// miscount: the engine's own count of what it sent is not the store's.
type miscount struct {
	queue        string
	sent, passed int64
}

func (e *miscount) Error() string {
	return fmt.Sprintf("queue %s: the engine reported %d conditional batches and the store saw %d: do not trust its count", e.queue, e.sent, e.passed)
}

// close stops the scheduler and compares the two counts of what it sent. The error is
// a *miscount if they differ.
func (p *process) close() error {
	p.stop()
	if err := <-p.end; err != nil {
		return err
	}
	if sent, passed := p.watch.sent.Load(), p.meter.commits.Load(); sent != passed {
		return &miscount{p.book.queue, sent, passed}
	}
	return nil
}

// traffic is what was sent so far.
func (p *process) traffic() bench.Traffic {
	t := p.meter.traffic()
	t.SinkLWTs = p.env.SinkLWTs()
	return t
}

func (p *process) submit(ctx context.Context, j job.Job) error {
	_, err := p.Scheduler.Submit(ctx, j)
	return err
}

// operator enqueues a job, waits until it is completed, and enqueues the next: as many
// jobs are open as there are threads.
type operator struct {
	book    *book
	submit  func(context.Context, job.Job) error
	traffic func() bench.Traffic
}

// errNotCompleted is a job that was acknowledged and is not completed in time.
var errNotCompleted = errors.New("acknowledged, and not completed in time")

// Operate implements bench.Operator.
func (o *operator) Operate(ctx context.Context, _ *bench.Thread, _ func() bool) bench.End {
	n, j := o.book.ask(time.Now())
	done := o.book.await(n)
	err := o.submit(ctx, j)
	o.book.replied(n, replyOf(err))
	if err != nil {
		return bench.EndOf(err)
	}
	select {
	case <-done:
		return bench.End{Outcome: store.OK, Parts: o.book.parts(n)}
	case <-ctx.Done():
		return bench.End{Outcome: store.Unknown, Err: errNotCompleted}
	}
}

func replyOf(err error) reply {
	switch {
	case err == nil:
		return acked
	case store.OutcomeOf(err) == store.Fail:
		return refused
	}
	return none
}

// Traffic implements bench.Operator.
func (o *operator) Traffic() bench.Traffic { return o.traffic() }
