package main

import (
	"context"
	"errors"
	"math"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"fencepost/systems/drive"
)

// etcdMutex is the Mutex of etcd's own package concurrency, on a session of each client that the
// package keeps alive. The lock is held by the oldest key below its name; a session has one key there.
//
// The token is the revision that created the key. The holder's is the lowest, and a later key has a
// higher one, so that it rises with each grant as long as each has a key of its own. Mutex.Header's
// revision is the same only if the first copy of TryLock was answered: of another it is whatever
// the store had come to.
//
// Unlock deletes the session's key, whichever grant made it (etcd-io/etcd#22082): a copy that arrives
// late deletes that of the session's next lock. So a session of which a request had no answer is
// not used for another attempt.
type etcdMutex struct {
	db      *clientv3.Client
	prefix  string
	session *concurrency.Session // nil: none
	mutex   *concurrency.Mutex   // of the attempt
	open    attempt              // whose key may be there
	unsure  bool                 // a request of the attempt had no answer
}

func openEtcdMutex(_ context.Context, at drive.Place) (drive.Locker, error) {
	db, err := clientv3.New(clientv3.Config{Endpoints: at.Nodes, DialTimeout: 5 * time.Second})
	return &etcdMutex{db: db, prefix: at.Name + "/"}, err
}

func (e *etcdMutex) Acquire(ctx context.Context, name, id string, ttl time.Duration) (int64, bool, error) {
	if this := (attempt{name, id}); e.open != this {
		if e.open != (attempt{}) || e.ended() {
			e.giveUp(ctx)
		}
		e.open, e.mutex, e.unsure = this, nil, false
	}
	token, taken, err := e.lock(ctx, name, id, ttl)
	e.unsure = e.unsure || err != nil
	if err == nil && !taken {
		e.close()
	}
	return token, taken, err
}

func (e *etcdMutex) lock(ctx context.Context, name, id string, ttl time.Duration) (int64, bool, error) {
	if err := e.begin(ctx, ttl); err != nil {
		return 0, false, err
	}
	if e.mutex == nil {
		e.mutex = concurrency.NewMutex(e.session, e.prefix+name)
	}
	if err := e.mutex.TryLock(ctx); err != nil {
		if errors.Is(err, concurrency.ErrLocked) {
			return 0, false, nil
		}
		return 0, false, err
	}
	token, owned, err := e.confirm(ctx, id)
	if err == nil && !owned {
		err = errors.New("the mutex was locked and its key is gone: the session has ended")
	}
	return token, owned, err
}

// begin makes a session if there is none. NewSession alone would wait for its lease as long as the
// client lives.
func (e *etcdMutex) begin(ctx context.Context, ttl time.Duration) error {
	if e.session != nil {
		return nil
	}
	seconds := int64(math.Ceil(ttl.Seconds()))
	lease, err := e.db.Grant(ctx, seconds)
	if err != nil {
		return err
	}
	e.session, err = concurrency.NewSession(e.db, concurrency.WithTTL(int(seconds)), concurrency.WithLease(lease.ID))
	return err
}

// ended is the package's own signal that the lock is lost.
func (e *etcdMutex) ended() bool {
	if e.session == nil {
		return true
	}
	select {
	case <-e.session.Done():
		return true
	default:
		return false
	}
}

// confirm lets the lease begin again now, as drive counts it from the request and the session's own
// beats come when they come. If the key is still this grant's it writes the id into it: what
// a key contains is nothing to the Mutex.
func (e *etcdMutex) confirm(ctx context.Context, id string) (token int64, owned bool, err error) {
	if e.ended() {
		return 0, false, nil
	}
	_, err = e.db.KeepAliveOnce(ctx, e.session.Lease())
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return 0, false, nil
	} else if err != nil {
		return 0, false, err
	}
	key := e.mutex.Key()
	res, err := e.db.Txn(ctx).If(e.mutex.IsOwner()).
		Then(clientv3.OpPut(key, id, clientv3.WithLease(e.session.Lease())), clientv3.OpGet(key)).Commit()
	if err != nil || !res.Succeeded {
		return 0, false, err
	}
	return res.Responses[1].GetResponseRange().Kvs[0].CreateRevision, true, nil
}

func (e *etcdMutex) Renew(ctx context.Context, name, id string, _ time.Duration) (bool, error) {
	if e.open != (attempt{name, id}) {
		return false, nil
	}
	_, owned, err := e.confirm(ctx, id)
	e.unsure = e.unsure || err != nil
	return owned, err
}

// Release unlocks. Unlock does not say whether there was a key; the session does, if it has not ended.
func (e *etcdMutex) Release(ctx context.Context, name, id string) (bool, error) {
	if e.open != (attempt{name, id}) || e.ended() {
		return false, nil
	}
	if err := e.mutex.Unlock(ctx); err != nil {
		e.unsure = true
		return false, err
	}
	e.close()
	return true, nil
}

// close ends an attempt that has left no key. One that is unsure stays open, and costs its session.
func (e *etcdMutex) close() {
	if !e.unsure {
		e.open = attempt{}
	}
}

// giveUp ends the session, and so all its keys. A lease that cannot be revoked runs out, as nobody
// keeps it alive any more.
func (e *etcdMutex) giveUp(ctx context.Context) {
	if e.session != nil {
		e.session.Orphan()
		_, _ = e.db.Revoke(ctx, e.session.Lease())
		e.session = nil
	}
}

func (e *etcdMutex) keys(name string) string { return e.prefix + name + "/" }

// Holder is what the oldest key contains: the id, or nothing as long as its client has not written it.
// Then it is the key.
func (e *etcdMutex) Holder(ctx context.Context, name string) (string, error) {
	res, err := e.db.Get(ctx, e.keys(name), clientv3.WithFirstCreate()...)
	if err != nil || len(res.Kvs) == 0 {
		return "", err
	}
	if kv := res.Kvs[0]; len(kv.Value) > 0 {
		return string(kv.Value), nil
	}
	return string(res.Kvs[0].Key), nil
}

// Seal creates a key without a lease, if there is none at all.
func (e *etcdMutex) Seal(ctx context.Context, name, id string) (bool, error) {
	keys := e.keys(name)
	res, err := e.db.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(keys), "=", 0).WithPrefix()).
		Then(clientv3.OpPut(keys+"seal", id)).Commit()
	return err == nil && res.Succeeded, err
}

func (e *etcdMutex) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	e.giveUp(ctx)
	return e.db.Close()
}
