package broken

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fencepost/core/engine"
	"fencepost/core/lock"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() {
	plant("pins-coordinator", pinsCoordinator)
	plant("stops-when-node-away", stopsWhenNodeAway)
	plant("jobs-no-claims-in-fault", noClaimsInFault)
}

// pinned opens a session with one node only, by the worker's own link.
func (o *ownSession) pinned(ctx context.Context, ip string) (*cassandra.DB, error) {
	c := cassandra.Config{
		Pin: ip, ContactPoints: []string{ip}, Port: o.cfg.CQLPort, Keyspace: o.cfg.Keyspace, Dial: o.dial, NumConns: 1,
		OnStatement: func(s cassandra.StatementInfo) { o.note(s.CQL, s.Consistency, s.SerialConsistency) },
	}
	if err := o.cfg.Introduce(&c); err != nil {
		return nil, err
	}
	return cassandra.Open(ctx, c)
}

// pinsCoordinator asks one node about every lock, the one that is first for the first
// lock, and waits for it whatever becomes of it.
func pinsCoordinator() workload.Hooks {
	o := &ownSession{}
	return workload.Hooks{
		Recorder: o.recorder,
		Locks: func(cfg workload.Config, db *cassandra.DB, inner store.Locks) store.Locks {
			l := &pinnedLocks{ownSession: o}
			ip, err := db.Coordinator(context.Background(), cfg.Locks[0])
			if err == nil {
				db, err = o.pinned(context.Background(), ip)
			}
			if l.err = err; err == nil {
				l.locks = cassandra.NewLocks(db)
			}
			return l
		},
	}
}

type pinnedLocks struct {
	*ownSession
	locks *cassandra.Locks
}

func (l *pinnedLocks) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	if l.err != nil {
		return store.CASResult{}, notOpened(l.err)
	}
	return l.locks.CAS(ctx, resource, from, to, copyNo)
}

func (l *pinnedLocks) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	if l.err != nil {
		return nil, notOpened(l.err)
	}
	return l.locks.Read(ctx, resource, serial)
}

// stopsWhenNodeAway asks for no lock while a node does not answer.
func stopsWhenNodeAway() workload.Hooks {
	o := &ownSession{}
	return workload.Hooks{
		Recorder: o.recorder,
		Locker: func(cfg workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
			l := &carefulLocker{Locker: inner}
			ctx, cancel := context.WithCancel(context.Background())
			l.stop = cancel
			ips := o.ips()
			slices.Sort(ips)
			l.away = make([]atomic.Bool, len(ips))
			for i, ip := range ips {
				db, err := o.pinned(ctx, ip)
				if err != nil {
					continue // it was away from the start: nobody is asked about it
				}
				l.wg.Go(func() { l.watch(ctx, db, &l.away[i]) })
			}
			return l
		},
	}
}

type carefulLocker struct {
	workload.Locker
	away []atomic.Bool // by node
	stop func()
	wg   sync.WaitGroup
}

// patience is how long a node may take to answer, and pulse how often it is asked.
const patience, pulse = time.Second, 200 * time.Millisecond

func (l *carefulLocker) watch(ctx context.Context, db *cassandra.DB, away *atomic.Bool) {
	defer db.Close()
	for ctx.Err() == nil {
		asked, cancel := context.WithTimeout(ctx, patience)
		_, err := db.Query(asked, false, `SELECT release_version FROM system.local`)
		cancel()
		away.Store(err != nil)
		wait(ctx, pulse)
	}
}

// wait sleeps until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (l *carefulLocker) Acquire(ctx context.Context, r lock.Request) (workload.Lease, error) {
	for ctx.Err() == nil && l.anyAway() {
		wait(ctx, pulse)
	}
	return l.Locker.Acquire(ctx, r)
}

func (l *carefulLocker) anyAway() bool {
	for i := range l.away {
		if l.away[i].Load() {
			return true
		}
	}
	return false
}

func (l *carefulLocker) Close(ctx context.Context) error {
	l.stop()
	l.wg.Wait()
	return l.Locker.Close(ctx)
}

// noClaimsInFault claims no job while batches go unanswered, as one does under a fault
// of a node or of links every few seconds: what is not claimed cannot be lost.
func noClaimsInFault() workload.Hooks {
	t := &trouble{}
	return workload.Hooks{
		Shards: func(_ workload.Config, _ *cassandra.DB, inner store.Shards) store.Shards {
			return mistake.Shards{Shards: inner, OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
				res, err := c.Send()
				if store.OutcomeOf(err) == store.Unknown {
					t.seen.Store(time.Now().UnixNano())
				}
				return res, err
			}}
		},
		Executor: func(_ workload.Config, inner engine.Executor) engine.Executor { return carefulExecutor{inner, t} },
	}
}

// trouble remembers when a batch was not answered last. A node that does not answer is
// asked again within 8 s.
type trouble struct{ seen atomic.Int64 }

const troubleLasts = 12 * time.Second

func (t *trouble) lasts() bool { return time.Now().UnixNano()-t.seen.Load() < int64(troubleLasts) }

type carefulExecutor struct {
	engine.Executor
	trouble *trouble
}

func (e carefulExecutor) Reserve(n int) int {
	if e.trouble.lasts() {
		return 0
	}
	return e.Executor.Reserve(n)
}
