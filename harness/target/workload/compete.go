package workload

import (
	"context"
	"log/slog"

	"fencepost/core/clock"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/harness/target/control"
)

// Compete is the lock workload of one worker over rows and a sink that are there already:
// its clients take locks until ctx ends, and then finish their cycles. Run does the same on
// a cluster. Nothing can be armed, and the clocks are right.
func Compete(ctx context.Context, cfg Config, rec Recorder, base clock.Clock, rows store.Locks, effects sink.Sink, log *slog.Logger) error {
	p := &process{cfg: cfg, rec: rec, clock: NewClock(base), sink: effects, counts: &counters{}, log: log}
	p.leases, p.gate = p.clock, control.NewGate(func(control.Message) error { return nil })
	locker, err := p.newLocker(ctx, rows)
	if err != nil {
		return err
	}
	l := &locks{process: p, locker: locker}
	return l.run(ctx, func() error { return nil })
}
