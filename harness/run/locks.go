package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/fault"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/harness/scenario"
	"fencepost/harness/target/drill"
	"fencepost/harness/target/workload"
)

// locks are the core's locks, each with a resource of the sink.
type locks struct{ workers }

func (r locks) coordinator(ctx context.Context) (string, error) {
	return r.db.Coordinator(ctx, r.plan.Locks[0])
}

// finish waits until every lock has been released once since the feed began, for as
// long as the scenario allows for it: else a client that still waits when the run ends
// looks like one that waits for ever.
func (r locks) finish(ctx context.Context, since *history.Feed) error {
	if len(r.plan.Steps) == 0 || len(r.plan.Locks) > fewLocks {
		return nil // nothing was broken, or hardly anybody waits for any of so many
	}
	longest := time.Duration(0)
	for _, t := range r.plan.Spec.Expect.Thresholds {
		if t.Recovery == history.RecoverySlowest {
			longest = t.Max.D(r.plan.Spec.Workload.TTL.D())
		}
	}
	left := map[string]bool{}
	for _, name := range r.plan.Locks {
		left[name] = true
	}
	for deadline := time.Now().Add(longest); len(left) > 0 && time.Now().Before(deadline); {
		err := since.Next(func(e *history.Event) {
			if e.Op == history.OpRelease && e.Type == history.OK {
				delete(left, e.Key)
			}
		})
		if err != nil {
			return err
		}
		if len(left) == 0 {
			break
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// lockLoad is the workload as its workers do it.
func lockLoad(w scenario.Workload) workload.LockLoad {
	return workload.LockLoad{
		TTLFrom: w.TTLFrom.D(), HoldFrom: w.HoldFrom.D(), ThinkFrom: w.ThinkFrom.D(), AtOnce: w.AtOnce,
		Impatient: w.Impatient, Try: w.Try, Renew: w.Renew, Reopen: w.Reopen.D(), LookDelay: w.LookDelay.D(),
	}
}

// begun has the sink forget what is old from here on, if the workload says so, until untrim.
func (r locks) begun(ctx context.Context) error {
	age := r.plan.Spec.Workload.Forget.D()
	if age == 0 {
		return nil
	}
	var resources []string
	for _, name := range r.plan.Locks {
		resources = append(resources, workload.Resource(name))
	}
	ctx, cancel := context.WithCancel(ctx)
	var trimming sync.WaitGroup
	trimming.Go(func() { r.seals.Trim(ctx, r.sink.client, age, resources...) })
	r.untrim = func() {
		cancel()
		trimming.Wait()
	}
	return nil
}

// fewLocks are sealed one after the other, more of them several at once: there may be thousands.
const fewLocks = 100

// seal seals every lock, and then its resource.
func (r locks) seal(ctx context.Context) error {
	rows := cassandra.NewLocks(r.db)
	var g errgroup.Group
	g.SetLimit(1)
	if len(r.plan.Locks) > fewLocks {
		g.SetLimit(sealsAtOnce)
	}
	var sealed atomic.Int64
	for _, name := range r.plan.Locks {
		g.Go(func() error {
			r.progress.at("%d of %d locks sealed", sealed.Load(), len(r.plan.Locks))
			fence, err := r.seals.Lock(ctx, rows, name, r.nextGrant)
			if err != nil {
				r.seals.Trouble("locks", fmt.Errorf("seal %s: %w", name, err))
				fence = 1 // below what the sink has seen, which is then raised
			}
			r.seals.Resource(ctx, r.sink.client, workload.Resource(name), name, fence)
			sealed.Add(1)
			return nil
		})
	}
	return g.Wait() // none has an error
}

// nextGrant is the version that seals a lock: the next grant, to nobody.
func (r locks) nextGrant(from *store.Version) store.Version {
	to := store.Version{Fence: 1, Attempt: uuid.NewString(), TTL: r.plan.Spec.Workload.TTL.D()}
	if from != nil {
		to.Fence, to.TTL = from.Fence+1, from.TTL
	}
	return to
}

func (r locks) proofs() rowProofs { return rowProofs{stamps: r.stamps, stay: r.claim} }

const (
	lockStampsCQL = "SELECT holder, ttl_ms, expires_hint, WRITETIME(expires_hint) AS written FROM locks WHERE resource IN ?"
	lockClaimCQL  = "SELECT holder, fence, ttl_ms, WRITETIME(beat) AS written FROM locks WHERE resource = ?"
)

// stampsAtOnce is how many rows one statement reads: each is a partition, and one request with
// thousands of them would not be answered in time.
const stampsAtOnce = 100

// stamps are the expiries of the locks that are held, less the ttl: when they were
// granted or renewed.
func (r locks) stamps(ctx context.Context) (out []fault.Stamp, err error) {
	for names := range slices.Chunk(r.plan.Locks, stampsAtOnce) {
		some, err := r.stampsOf(ctx, names)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

func (r locks) stampsOf(ctx context.Context, names []string) (out []fault.Stamp, err error) {
	rows, err := r.db.Query(ctx, false, lockStampsCQL, names)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		holder, _ := row["holder"].(string)
		ttl, _ := row["ttl_ms"].(int64)
		if expires, ok := row["expires_hint"].(time.Time); ok && holder != "" {
			began := expires.Add(-time.Duration(ttl) * time.Millisecond)
			out = append(out, fault.Stamp{Life: history.Life(holder), Wall: began, Written: written(row)})
		}
	}
	return out, nil
}

func (r locks) claim(ctx context.Context, key string) (fault.Claim, error) {
	rows, err := r.db.Query(ctx, false, lockClaimCQL, key)
	if err != nil || len(rows) == 0 {
		return fault.Claim{}, err
	}
	holder, _ := rows[0]["holder"].(string)
	fence, _ := rows[0]["fence"].(int64)
	ttl, _ := rows[0]["ttl_ms"].(int64)
	return fault.Claim{By: holder, Token: fence, Written: written(rows[0]), TTL: time.Duration(ttl) * time.Millisecond}, nil
}

// A drill is a scenario without workers, phases and faults of its own: package
// drill does it step by step, and the harness itself is the client.

// drilled is a drill's run. Its rows are those of locks.
type drilled struct{ locks }

func (drilled) describe(*rundir.Info) {}

func (r drilled) setUp(ctx context.Context) error {
	if err := r.record(ctx, drill.Promises(), r.plan.Expectation()); err != nil {
		return err
	}
	r.watchNodes()
	r.progress.step("setting up: keyspace, a session with each node")
	return r.openKeyspace(ctx)
}

// phases carries the drill out. An interrupted one goes on to its orderly end.
func (r drilled) phases(ctx context.Context) error {
	err := drill.Run(ctx, drill.Config{
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
