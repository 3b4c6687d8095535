package broken

import (
	"context"
	"errors"
	"sync"
	"time"

	"fencepost/core/lock"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() {
	plant("renew-unconditioned", renewUnconditioned)
	plant("heartbeat-dies", heartbeatDies)
}

// errDead is why a renewal is not sent.
var errDead = errors.New("the heartbeat has died")

// heartbeatDies stops renewing a lease after the first renewal that is not
// answered, and nobody notices.
func heartbeatDies() workload.Hooks {
	return workload.Hooks{
		Locks: func(_ workload.Config, _ *cassandra.DB, inner store.Locks) store.Locks {
			return &mortalBeats{Locks: inner, dead: map[string]bool{}}
		},
		Locker: renewFailureIgnored,
	}
}

type mortalBeats struct {
	store.Locks
	mu   sync.Mutex
	dead map[string]bool // by attempt
}

func (m *mortalBeats) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	if mistake.KindOf(from, to) != lock.Renew {
		return m.Locks.CAS(ctx, resource, from, to, copyNo)
	}
	m.mu.Lock()
	dead := m.dead[to.Attempt]
	m.mu.Unlock()
	if dead {
		<-ctx.Done()
		return store.CASResult{}, &store.Error{Op: "renew " + resource, Outcome: store.Fail, Cause: errDead}
	}
	res, err := m.Locks.CAS(ctx, resource, from, to, copyNo)
	if err != nil {
		m.mu.Lock()
		m.dead[to.Attempt] = true
		m.mu.Unlock()
	}
	return res, err
}

// renewUnconditioned has a heartbeat of its own for each lease that writes the
// next beat without asking whose the row is: after a long stop of the process it
// revives a lease that has lapsed and been taken over.
func renewUnconditioned() workload.Hooks {
	t := newTracker()
	return workload.Hooks{
		Observer: t.observer,
		Locker: func(cfg workload.Config, db *cassandra.DB, inner workload.Locker) workload.Locker {
			return locker{inner, func(_ context.Context, l workload.Lease) (workload.Lease, error) {
				b := &beating{Lease: l, t: t, db: db, every: cfg.TTL / 2, stop: make(chan struct{})}
				go b.run()
				return b, nil
			}}
		},
	}
}

type beating struct {
	workload.Lease
	t     *tracker
	db    *cassandra.DB
	every time.Duration
	stop  chan struct{}
	once  sync.Once
}

func (b *beating) Release(ctx context.Context) error {
	b.once.Do(func() { close(b.stop) })
	return b.Lease.Release(ctx)
}

func (b *beating) run() {
	tick := time.NewTicker(b.every)
	defer tick.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-tick.C:
		}
		// While the lease is sound its own client renews it.
		if h, ok := b.t.get(b.Resource(), b.Holder()); ok && time.Since(h.answered) >= b.every {
			b.beat(h.version)
		}
	}
}

func (b *beating) beat(from store.Version) {
	to := from
	to.Beat++
	span := b.t.obs.Begin(lock.Op{Kind: lock.Renew, Resource: b.Resource(), Holder: b.Holder(), From: &from, To: to})
	span.Sending(0)
	err := writeRow(context.Background(), b.db, b.Resource(), to)
	span.End(lock.Result{Outcome: store.OutcomeOf(err), Err: err})
	if err == nil {
		b.t.set(b.Resource(), b.Holder(), held{version: to, answered: time.Now()})
	}
}

// writeRow sets a lock row without a condition.
func writeRow(ctx context.Context, db *cassandra.DB, resource string, to store.Version) error {
	return db.Exec(ctx, `UPDATE locks SET fence = ?, beat = ?, attempt = ?, holder = ?, ttl_ms = ? WHERE resource = ?`,
		to.Fence, to.Beat, to.Attempt, to.Holder, to.TTL.Milliseconds(), resource)
}
