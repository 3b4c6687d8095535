package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/system/lockperjob"
)

// row is a workload as a worker does it.
type row struct {
	check func(Config) error
	// dedupe is how long the end of a job can be read, 0 for work that is no jobs.
	dedupe time.Duration
	// sink is its own sink on the run's nodes; nil: the one that is there.
	sink func(*cassandra.DB, time.Duration) sink.Sink
	load func(context.Context, *process) (load, error)
}

// rows are by what the work is, and by the scheduler that it is given to.
var rows = map[string]map[string]row{
	"locks": {"": {check: checkLocks, load: loadLocks}},
	"jobs": {
		"": {load: loadJobs, dedupe: dedupeWindow},
		lockperjob.Name: {load: loadJobsByLock,
			sink: func(db *cassandra.DB, timeout time.Duration) sink.Sink { return lockperjob.NewSink(db, timeout) }},
	},
	"orders": {"": {load: loadOrders, dedupe: dedupeWindow}},
}

// row is that of the configuration, which is checked for it.
func (c Config) row() (row, error) {
	work := "locks"
	switch j := c.Jobs; {
	case j != nil && j.Orders != nil:
		work = "orders"
	case j != nil:
		work = "jobs"
	}
	r, ok := rows[work][c.Scheduler]
	switch {
	case !ok:
		return r, fmt.Errorf("scheduler %q does not run %s", c.Scheduler, work)
	case r.check != nil:
		return r, r.check(c)
	}
	return r, nil
}

func checkLocks(c Config) error {
	if c.Clients < 1 || len(c.Locks) == 0 {
		return errors.New(ConfigEnv + ": clients and locks are required, or jobs")
	}
	return nil
}
