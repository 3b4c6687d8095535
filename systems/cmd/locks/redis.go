package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"fencepost/systems/drive"
)

// redisSet is the lock of Redis' own documentation of SET: SET name id NX PX ttl, and scripts
// that compare before they delete or prolong. It is on the server that says that it is the primary.
type redisSet struct {
	nodes  []string
	db     *redis.Client // of the primary; nil: it is not known
	prefix string
}

var (
	redisRenew   = redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`)
	redisRelease = redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`)
)

// redisClient makes one copy a call: copies are drive's to send, and to record. A call ends with its context.
func redisClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: 1})
}

func openRedis(_ context.Context, at drive.Place) (drive.Locker, error) {
	return &redisSet{nodes: at.Nodes, prefix: at.Name + "/"}, nil
}

// primary asks one server after the other what it is. On a connection to the one that was the primary
// nobody asks again, until a request fails.
func (r *redisSet) primary(ctx context.Context) (*redis.Client, error) {
	if r.db != nil {
		return r.db, nil
	}
	err := errors.New("no server says that it is the primary")
	for _, node := range r.nodes {
		db := redisClient(node)
		role, e := db.Do(ctx, "ROLE").Slice()
		if e == nil && len(role) > 0 && role[0] == "master" {
			r.db = db
			return db, nil
		}
		err = errors.Join(err, e, db.Close())
	}
	return nil, err
}

// on makes a request of the primary. After one that fails it is looked for again.
func on[T any](ctx context.Context, r *redisSet, ask func(db *redis.Client) (T, error)) (v T, err error) {
	db, err := r.primary(ctx)
	if err != nil {
		return v, err
	}
	if v, err = ask(db); err != nil && !errors.Is(err, redis.Nil) {
		r.db = nil
		return v, errors.Join(err, db.Close())
	}
	return v, err
}

func (r *redisSet) Acquire(ctx context.Context, name, id string, ttl time.Duration) (int64, bool, error) {
	taken, err := on(ctx, r, func(db *redis.Client) (bool, error) { return db.SetNX(ctx, r.prefix+name, id, ttl).Result() })
	if err != nil || taken {
		return 0, taken, err
	}
	holder, err := r.Holder(ctx, name)
	return 0, holder == id, err // an earlier copy took it
}

func (r *redisSet) Renew(ctx context.Context, name, id string, ttl time.Duration) (bool, error) {
	return on(ctx, r, func(db *redis.Client) (bool, error) {
		return redisRenew.Run(ctx, db, []string{r.prefix + name}, id, ttl.Milliseconds()).Bool()
	})
}

func (r *redisSet) Release(ctx context.Context, name, id string) (bool, error) {
	return on(ctx, r, func(db *redis.Client) (bool, error) {
		return redisRelease.Run(ctx, db, []string{r.prefix + name}, id).Bool()
	})
}

func (r *redisSet) Holder(ctx context.Context, name string) (string, error) {
	id, err := on(ctx, r, func(db *redis.Client) (string, error) { return db.Get(ctx, r.prefix+name).Result() })
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return id, err
}

func (r *redisSet) Seal(ctx context.Context, name, id string) (bool, error) {
	return on(ctx, r, func(db *redis.Client) (bool, error) { return db.SetNX(ctx, r.prefix+name, id, 0).Result() })
}

func (r *redisSet) Close() error {
	if r.db == nil {
		return nil
	}
	return r.db.Close()
}
