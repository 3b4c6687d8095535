package broken

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"

	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() {
	plant("dies-steady", only(workload.Hooks{Locker: diesSteady}))
	plant("dies-draining", only(workload.Hooks{Locker: diesDraining}))
	plant("exits-1", only(workload.Hooks{Locker: exitsOne}))
	plant("never-ends", only(workload.Hooks{Locker: neverEnds}))
}

// fallenWorker is the one that dies at work; the others show that work goes on without it.
const fallenWorker = "w1"

// enough is with how many grants it dies: not at its start.
const enough = 40

// diesSteady keeps its grants in a table that has room for some.
func diesSteady(cfg workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
	var table [enough]workload.Lease
	return fallen(cfg, inner, func(n int, l workload.Lease) { table[n] = l })
}

// exitsOne takes an error that passes for one that ends everything.
func exitsOne(cfg workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
	return fallen(cfg, inner, func(n int, _ workload.Lease) {
		if n == enough {
			fmt.Fprintln(os.Stderr, "level=ERROR msg=\"cannot report metrics: connection refused\"")
			os.Exit(1)
		}
	})
}

// fallen has one worker call granted with each grant and its number.
func fallen(cfg workload.Config, inner workload.Locker, granted func(n int, l workload.Lease)) workload.Locker {
	if cfg.Worker != fallenWorker {
		return inner
	}
	var grants atomic.Int64
	return locker{inner, func(_ context.Context, l workload.Lease) (workload.Lease, error) {
		granted(int(grants.Add(1))-1, l)
		return l, nil
	}}
}

// closing ends a locker in its own way.
type closing struct {
	workload.Locker
	end func()
}

func (c closing) Close(ctx context.Context) error {
	err := c.Locker.Close(ctx)
	c.end()
	return err
}

// diesDraining tells a background task to end that has been told already.
func diesDraining(_ workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
	stop := make(chan struct{})
	return closing{inner, func() {
		close(stop)
		close(stop)
	}}
}

// neverEnds waits for a background task that nobody tells to end.
func neverEnds(_ workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
	done := make(chan struct{})
	return closing{inner, func() { <-done }}
}
