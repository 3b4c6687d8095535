package scenario

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"fencepost/core/store/cassandra"
	"fencepost/harness/env/cluster"
	"fencepost/harness/fault"
	"fencepost/harness/paxos"
	"fencepost/harness/record/history"
)

// A drill is a scenario without workers, phases and faults of its own: package
// paxos does it step by step, and the harness itself is the client.

func (s *Spec) validateDrill() error {
	if _, err := paxos.Attempts(s.Drill); err != nil {
		return within(err, "drill")
	}
	x := s.Expect
	demands := len(x.MinCycles) + len(x.Success) + len(x.Must) + len(x.Sometimes) + len(x.Progress) + len(x.Thresholds) + len(x.Exempt) + int(x.RecoveryBoundMS)
	if s.Workload != (Workload{}) || s.Phases != (Phases{}) || len(s.Faults) > 0 || s.Swarm != nil || demands != 0 {
		return errors.New("a scenario with a drill has no workload, phases, faults or expect: the drill says what happens")
	}
	return nil
}

// drillKeys are the drill's rows: one an attempt and one more. The seed in the
// name spreads the runs' rows over the ring.
func drillKeys(drill string, seed uint64) ([]string, error) {
	n, err := paxos.Attempts(drill)
	if err != nil {
		return nil, err
	}
	var keys []string
	for i := range n + 1 {
		keys = append(keys, fmt.Sprintf("row-%02d.%s", i+1, strconv.FormatUint(seed%(36*36*36), 36)))
	}
	return keys, nil
}

func (r *runner) setUpDrill(ctx context.Context) error {
	if err := r.record(ctx, paxos.Promises(), r.plan.expectation()); err != nil {
		return err
	}
	r.watchNodes()
	r.progress.step("setting up: keyspace, a session with each node")
	return r.openKeyspace(ctx)
}

// openKeyspace makes the run's keyspace and opens the harness's own session.
func (r *runner) openKeyspace(ctx context.Context) error {
	access := cluster.AccessTo(r.opt.Cluster)
	r.base = access.Config
	r.base.Keyspace = keyspaceOf(r.info.Run)
	create := cassandra.Migrate
	if access.Shared {
		create = cassandra.Create
	}
	err := create(ctx, r.base, access.Replication)
	r.made = cassandra.Refused(err) != cassandra.Exists
	if err != nil {
		return fmt.Errorf("create keyspace %s: %w", r.base.Keyspace, err)
	}
	db, err := cassandra.Open(ctx, r.base)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	r.db = db
	return nil
}

// drill carries the drill out. An interrupted one goes on to its orderly end.
func (r *runner) drill(ctx context.Context) error {
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
