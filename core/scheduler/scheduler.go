// Package scheduler is a whole scheduler process without its network face: an
// engine that owns shards (core/engine), the pool that runs its jobs (core/worker),
// and the fenced sink of their effects (core/sink). Whatever hosts it, a daemon or a
// process under test, brings the stores, the handlers and the clock.
package scheduler

import (
	"context"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/worker"
)

// Options configure a Scheduler. Shards, Handlers and the engine's Name and Queues
// are needed.
type Options struct {
	Shards store.Shards
	// Sink takes the handlers' effects; nil if none has any.
	Sink sink.Sink
	// Handlers by kind of job.
	Handlers map[string]worker.Handler
	// Slots is how many runs may be at work at once; default 100.
	Slots int
	// Engine is the rest; its Executor is the scheduler's own.
	Engine engine.Options
}

// Scheduler runs jobs.
type Scheduler struct {
	engine *engine.Engine
	pool   *worker.Pool
}

// New makes a scheduler; Run starts it.
func New(o Options) (*Scheduler, error) {
	pool := worker.New(worker.Options{Slots: o.Slots, Handlers: o.Handlers, Sink: o.Sink, Clock: o.Engine.Clock, Logger: o.Engine.Logger})
	o.Engine.Executor = pool
	e, err := engine.New(o.Shards, o.Engine)
	if err != nil {
		return nil, err
	}
	return &Scheduler{engine: e, pool: pool}, nil
}

// Run works until ctx ends, then lets runs end, hands its shards over and returns
// when no handler is at work any more.
func (s *Scheduler) Run(ctx context.Context) error {
	err := s.engine.Run(ctx)
	s.pool.Wait()
	return err
}

// Submit enqueues a job; see engine.Engine.Submit.
func (s *Scheduler) Submit(ctx context.Context, j job.Job) (engine.Receipt, error) {
	return s.engine.Submit(ctx, j)
}
