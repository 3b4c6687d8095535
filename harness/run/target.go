package run

import (
	"context"
	"fmt"
	"time"

	"fencepost/harness/fault"
	"fencepost/harness/plan"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/harness/scenario"
	"fencepost/harness/target/fleet"
	"fencepost/harness/target/system"
)

// target is what a run drives: the work of a kind of scenario, as a design of systems does it.
// What most of them do alike is that of workers, and the runner's own.
type target interface {
	// describe says in run.json what the run has.
	describe(*rundir.Info)
	// setUp makes all that comes before the first phase; phases goes through them, to the seal.
	setUp(context.Context) error
	phases(context.Context) error
	// prepare makes what the workers find, and says to them what is of this target alone.
	prepare(context.Context, *fleet.Config) error
	// begun waits until the workers that are ready can be seen to work.
	begun(context.Context) error
	// coordinator is the IP of the node to which requests for the first lock or shard go.
	coordinator(context.Context) (string, error)
	proofs() rowProofs
	// finish waits, after phase recover, until what is under way has ended. since is the
	// history from when the last fault was healed.
	finish(ctx context.Context, since *history.Feed) error
	// seal sees to it that no late request changes anything any more, and writes what is
	// left into the history. No worker is left.
	seal(context.Context) error
	close() error
}

// targets are by kind of scenario, and by design of the system: all pairs that suit each other.
var targets = map[string]map[string]func(*runner) target{
	scenario.KindLocks: {
		system.Core: func(r *runner) target { return locks{workers{r}} },
		system.Exec: func(r *runner) target { return &ownRun{locks: locks{workers{r}}} },
	},
	scenario.KindJobs: {
		system.Core:       func(r *runner) target { return jobsByShard{workers{r}} },
		system.LockPerJob: func(r *runner) target { return jobsByLock{workers{r}} },
	},
	scenario.KindOrders: {system.Core: func(r *runner) target { return byOrders{jobsByShard{workers{r}}} }},
	scenario.KindDrill:  {system.Core: func(r *runner) target { return drilled{locks{workers{r}}} }},
	scenario.KindTrap:   {system.Core: func(r *runner) target { return drilled{locks{workers{r}}} }},
}

// workers is what targets with workers have in common.
type workers struct{ *runner }

func (w workers) describe(i *rundir.Info)                      { i.Sink = plan.SinkName(&w.plan.Spec, w.opt.System) }
func (w workers) prepare(context.Context, *fleet.Config) error { return nil }
func (w workers) begun(context.Context) error                  { return nil }
func (w workers) close() error                                 { return nil }

// rowProofs read from rows, by the harness's own session, what shows that a fault took hold
// in a worker.
type rowProofs struct {
	// stamps are times that workers wrote by their wall clocks.
	stamps func(ctx context.Context) ([]fault.Stamp, error)
	// stay is who has a lock, or a job.
	stay func(ctx context.Context, key string) (fault.Claim, error)
	// queues are those of the jobs.
	queues fault.QueueRows
}

// written is what WRITETIME gives: microseconds since 1970, by the clock of the node that
// coordinated the write.
func written(row map[string]any) time.Time {
	us, _ := row["written"].(int64)
	return time.UnixMicro(us)
}

func runClaim(run int64) fault.Claim {
	return fault.Claim{By: fmt.Sprintf("run %d", run), Token: run, Anonymous: true}
}
