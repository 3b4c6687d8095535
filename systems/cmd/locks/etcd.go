package main

import (
	"context"
	"math"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"fencepost/systems/drive"
)

// etcdLease is a key that is created with a lease if there is none. The revision that creates
// it is the token.
type etcdLease struct {
	db     *clientv3.Client
	prefix string
	leases map[string]clientv3.LeaseID // by id
}

func openEtcd(_ context.Context, at drive.Place) (drive.Locker, error) {
	db, err := clientv3.New(clientv3.Config{Endpoints: at.Nodes, DialTimeout: 5 * time.Second})
	return &etcdLease{db: db, prefix: at.Name + "/", leases: map[string]clientv3.LeaseID{}}, err
}

func (e *etcdLease) Acquire(ctx context.Context, name, id string, ttl time.Duration) (int64, bool, error) {
	lease, known := e.leases[id]
	if !known {
		granted, err := e.db.Grant(ctx, int64(math.Ceil(ttl.Seconds())))
		if err != nil {
			return 0, false, err
		}
		lease = granted.ID
		e.leases[id] = lease
	}
	key := e.prefix + name
	res, err := e.db.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, id, clientv3.WithLease(lease))).Else(clientv3.OpGet(key)).Commit()
	switch {
	case err != nil:
		return 0, false, err
	case res.Succeeded:
		return res.Header.Revision, true, nil
	}
	for _, kv := range res.Responses[0].GetResponseRange().Kvs {
		if string(kv.Value) == id { // an earlier copy took it
			return kv.CreateRevision, true, nil
		}
	}
	e.forget(ctx, id)
	return 0, false, nil
}

func (e *etcdLease) Renew(ctx context.Context, name, id string, _ time.Duration) (bool, error) {
	res, err := e.db.KeepAliveOnce(ctx, e.leases[id])
	return err == nil && res.TTL > 0, err
}

func (e *etcdLease) Release(ctx context.Context, name, id string) (bool, error) {
	key := e.prefix + name
	res, err := e.db.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", id)).Then(clientv3.OpDelete(key)).Commit()
	if err != nil {
		return false, err
	}
	e.forget(ctx, id)
	return res.Succeeded, nil
}

// forget ends the lease of an id that has no key, or none any more. One that cannot be ended
// runs out by itself.
func (e *etcdLease) forget(ctx context.Context, id string) {
	_, _ = e.db.Revoke(ctx, e.leases[id])
	delete(e.leases, id)
}

func (e *etcdLease) Holder(ctx context.Context, name string) (string, error) {
	res, err := e.db.Get(ctx, e.prefix+name)
	if err != nil || len(res.Kvs) == 0 {
		return "", err
	}
	return string(res.Kvs[0].Value), nil
}

func (e *etcdLease) Seal(ctx context.Context, name, id string) (bool, error) {
	key := e.prefix + name
	res, err := e.db.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).Then(clientv3.OpPut(key, id)).Commit()
	return err == nil && res.Succeeded, err
}

func (e *etcdLease) Close() error { return e.db.Close() }
