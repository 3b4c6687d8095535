package broken

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() {
	plant("pins-coordinator", pinsCoordinator)
	plant("stops-when-node-away", stopsWhenNodeAway)
}

// pinned opens a session with one node only, by the worker's own link.
func (o *ownSession) pinned(ctx context.Context, ip string) (*cassandra.DB, error) {
	c, err := o.cfg.Session(o.cfg.LockNodes, o.rec)
	if err != nil {
		return nil, err
	}
	c.Pin, c.ContactPoints, c.NumConns = ip, []string{ip}, 1
	return cassandra.Open(ctx, c)
}

// pinsCoordinator asks one node about every lock, the one that is first for the first
// lock, and waits for it whatever becomes of it.
func pinsCoordinator() workload.Hooks {
	o := &ownSession{}
	return workload.Hooks{
		Recorder: o.recorder,
		Locks: func(cfg workload.Config, db *cassandra.DB, inner store.Locks) store.Locks {
			ip, err := db.Coordinator(context.Background(), cfg.Locks[0])
			if err == nil {
				db, err = o.pinned(context.Background(), ip)
			}
			if err != nil {
				return unopened{err}
			}
			return cassandra.NewLocks(db)
		},
	}
}

// unopened are the locks of a session that could not be opened.
type unopened struct{ err error }

func (u unopened) CAS(context.Context, string, *store.Version, store.Version, int) (store.CASResult, error) {
	return store.CASResult{}, notOpened(u.err)
}

func (u unopened) Read(context.Context, string, bool) (*store.Version, error) {
	return nil, notOpened(u.err)
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
			for _, ip := range slices.Sorted(maps.Keys(o.cfg.LockNodes)) {
				db, err := o.pinned(ctx, ip)
				if err != nil {
					continue // it was away from the start: nobody is asked about it
				}
				away := &atomic.Bool{}
				l.away = append(l.away, away)
				l.wg.Go(func() { l.watch(ctx, db, away) })
			}
			return l
		},
	}
}

type carefulLocker struct {
	workload.Locker
	away []*atomic.Bool // of nodes that answered at the start
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
		_ = clock.Go().Sleep(ctx, pulse)
	}
}

func (l *carefulLocker) Acquire(ctx context.Context, r lock.Request) (workload.Lease, error) {
	for ctx.Err() == nil && slices.ContainsFunc(l.away, func(a *atomic.Bool) bool { return a.Load() }) {
		_ = clock.Go().Sleep(ctx, pulse)
	}
	return l.Locker.Acquire(ctx, r)
}

func (l *carefulLocker) Close(ctx context.Context) error {
	l.stop()
	l.wg.Wait()
	return l.Locker.Close(ctx)
}
