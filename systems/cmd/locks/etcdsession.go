package main

import (
	"context"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"fencepost/systems/drive"
)

// owing is a Mutex of a client that gives an unlock up which was not answered, goes on, and sends it
// again beside its next renewal. Unlock deletes its session's key of the lock, whichever grant made it
// (etcd-io/etcd#22082): if the session has the lock again by then, it has lost it.
type owing struct {
	*etcdMutex
	keeps bool                          // its session, as users do, whatever was not answered
	owed  map[string]*concurrency.Mutex // by the lock's name
}

func openOneSession(ctx context.Context, at drive.Place) (drive.Locker, error) {
	return openOwing(ctx, at, true)
}

func openNewSession(ctx context.Context, at drive.Place) (drive.Locker, error) {
	return openOwing(ctx, at, false)
}

func openOwing(ctx context.Context, at drive.Place, keeps bool) (drive.Locker, error) {
	l, err := openEtcdMutex(ctx, at)
	if err != nil {
		return nil, err
	}
	return &owing{l.(*etcdMutex), keeps, map[string]*concurrency.Mutex{}}, nil
}

// Acquire begins a new session where etcdMutex does, or only if the old one has ended.
func (o *owing) Acquire(ctx context.Context, name, id string, ttl time.Duration) (int64, bool, error) {
	if o.keeps && o.open != (attempt{name, id}) && !o.ended() {
		o.open = attempt{}
	}
	return o.etcdMutex.Acquire(ctx, name, id, ttl)
}

// Renew renews first and then pays: what that deletes it learns with the renewal after this.
func (o *owing) Renew(ctx context.Context, name, id string, ttl time.Duration) (bool, error) {
	renewed, err := o.etcdMutex.Renew(ctx, name, id, ttl)
	if renewed && err == nil {
		for name, m := range o.owed {
			if m.Unlock(ctx) == nil {
				delete(o.owed, name)
			}
		}
	}
	return renewed, err
}

// Release unlocks, and owes what was not answered.
func (o *owing) Release(ctx context.Context, name, id string) (bool, error) {
	m := o.mutex
	released, err := o.etcdMutex.Release(ctx, name, id)
	if err != nil {
		o.owed[name] = m
	}
	return released, err
}
