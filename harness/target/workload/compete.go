package workload

import (
	"context"
	"log/slog"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/worker"
	"fencepost/harness/target/control"
)

// simple is a process without a runner: nothing can be armed, and its clocks are right.
func simple(cfg Config, rec Recorder, base clock.Clock, effects sink.Sink, hooks Hooks, log *slog.Logger) *process {
	p := &process{cfg: cfg, rec: rec, clock: NewClock(base), sink: effects, hooks: hooks, counts: &counters{}, log: log}
	p.leases, p.gate = p.clock, control.NewGate(func(control.Message) error { return nil })
	return p
}

func ready() error { return nil }

// Compete is the lock workload of one worker over rows and a sink that are there already:
// its clients take locks until ctx ends, and then finish their cycles. Run does the same on
// a cluster.
func Compete(ctx context.Context, cfg Config, rec Recorder, base clock.Clock, rows store.Locks, effects sink.Sink,
	log *slog.Logger) error {
	p := simple(cfg, rec, base, effects, Hooks{}, log)
	locker, err := p.newLocker(ctx, rows)
	if err != nil {
		return err
	}
	l := &locks{process: p, locker: locker}
	return l.run(ctx, ready)
}

// Schedule is the job workload of one worker likewise, without schedules and without links
// to other workers: it enqueues until feed ends and runs jobs until ctx does. Of hooks it
// has Engine.
func Schedule(ctx, feed context.Context, cfg Config, rec Recorder, base clock.Clock, shards store.Shards, effects sink.Sink,
	hooks Hooks, log *slog.Logger) error {
	p := simple(cfg, rec, base, effects, hooks, log)
	w := newJobs(p)
	o := w.engineOptions(ctx)
	pool := worker.New(worker.Options{
		Slots: cfg.Jobs.Slots, Handlers: map[string]worker.Handler{JobKind: w.handle}, Sink: &laneSink{Sink: p.sink, process: p},
		Clock: p.leases, Logger: log,
	})
	o.Executor = pool
	e, err := engine.New(shards, o)
	if err != nil {
		return err
	}
	w.scheduler = e
	l := w.feedFrom(ctx, shardIssuer, drawEffects)
	defer context.AfterFunc(feed, l.drain)()
	err = l.run(ctx, ready)
	pool.Wait()
	return err
}
