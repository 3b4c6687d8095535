package run

import (
	"context"
	"errors"

	"fencepost/harness/fault"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/harness/target/paxos"
)

// A drill is a scenario without workers, phases and faults of its own: package
// paxos does it step by step, and the harness itself is the client.

// drill is one of package paxos. Its rows are those of locks.
type drill struct{ locks }

func (drill) describe(*rundir.Info) {}

func (r drill) setUp(ctx context.Context) error {
	if err := r.record(ctx, paxos.Promises(), r.plan.Expectation()); err != nil {
		return err
	}
	r.watchNodes()
	r.progress.step("setting up: keyspace, a session with each node")
	return r.openKeyspace(ctx)
}

// phases carries the drill out. An interrupted one goes on to its orderly end.
func (r drill) phases(ctx context.Context) error {
	err := paxos.Run(ctx, paxos.Config{
		Drill: r.plan.Spec.Drill, Cluster: r.opt.Cluster, Variant: r.opt.Cluster.Info()["paxos_variant"],
		DB: r.db, Base: r.base, Keys: r.plan.Locks, Inert: r.opt.System.Inert == string(fault.FamilyLinks), Recorder: r.rec,
		Phase: func(name string) {
			r.note(history.Event{Op: history.NotePhase, Details: &history.Details{Phase: name}})
			r.progress.begins(name)
		},
		Fault: func(f history.Fault) {
			r.note(history.Event{Op: history.NoteFault, Details: &history.Details{Fault: &f}})
			r.progress.fault(f)
		},
		Problem: r.progress.problem,
	})
	r.noteNodes()
	if broken := broken(ctx); broken != nil {
		return broken
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		r.info.Interrupted = "stopped by a signal"
		r.progress.problem("interrupted: ending in order, then checking what there is")
		return nil
	}
	return err
}
