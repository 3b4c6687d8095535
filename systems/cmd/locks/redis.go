package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"fencepost/systems/drive"
)

// redisSet is the lock of Redis' own documentation of SET: SET name id NX PX ttl, and scripts
// that compare before they delete or prolong.
type redisSet struct {
	db     *redis.Client
	prefix string
}

var (
	redisRenew   = redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`)
	redisRelease = redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`)
)

func openRedis(_ context.Context, at drive.Place) (drive.Locker, error) {
	return &redisSet{
		// One copy a call: copies are drive's to send, and to record.
		db:     redis.NewClient(&redis.Options{Addr: at.Nodes[0], MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: 1}),
		prefix: at.Name + "/",
	}, nil
}

func (r *redisSet) Acquire(ctx context.Context, name, id string, ttl time.Duration) (int64, bool, error) {
	taken, err := r.db.SetNX(ctx, r.prefix+name, id, ttl).Result()
	if err != nil || taken {
		return 0, taken, err
	}
	holder, err := r.Holder(ctx, name)
	return 0, holder == id, err // an earlier copy took it
}

func (r *redisSet) Renew(ctx context.Context, name, id string, ttl time.Duration) (bool, error) {
	return redisRenew.Run(ctx, r.db, []string{r.prefix + name}, id, ttl.Milliseconds()).Bool()
}

func (r *redisSet) Release(ctx context.Context, name, id string) (bool, error) {
	return redisRelease.Run(ctx, r.db, []string{r.prefix + name}, id).Bool()
}

func (r *redisSet) Holder(ctx context.Context, name string) (string, error) {
	id, err := r.db.Get(ctx, r.prefix+name).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return id, err
}

func (r *redisSet) Seal(ctx context.Context, name, id string) (bool, error) {
	return r.db.SetNX(ctx, r.prefix+name, id, 0).Result()
}

func (r *redisSet) Close() error { return r.db.Close() }
