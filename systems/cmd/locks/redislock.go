package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"fencepost/systems/drive"
)

// bsmLock is the lock of bsm/redislock on one Redis server. Its entry is that of redis-set, a key with
// an expiry and the id as its value: redisSet tells who has it, and seals.
type bsmLock struct {
	redisSet
	client *redis.Client
	last   *redislock.Lock // that was obtained
}

func openRedislock(_ context.Context, at drive.Place) (drive.Locker, error) {
	return &bsmLock{redisSet: redisSet{nodes: at.Nodes, prefix: at.Name + "/"}, client: redisClient(at.Nodes[0])}, nil
}

// Acquire: the id is the token. Obtain does not retry unless it is told to, and obtains again what has the
// token already: an earlier copy may have taken it.
func (b *bsmLock) Acquire(ctx context.Context, name, id string, ttl time.Duration) (int64, bool, error) {
	l, err := redislock.Obtain(ctx, b.client, b.prefix+name, ttl, &redislock.Options{Token: id})
	if err == nil {
		b.last = l
	}
	taken, err := unless(err, redislock.ErrNotObtained)
	return 0, taken, err
}

func (b *bsmLock) Renew(ctx context.Context, name, id string, ttl time.Duration) (bool, error) {
	if !b.has(name, id) {
		return false, nil
	}
	return unless(b.last.Refresh(ctx, ttl, nil), redislock.ErrNotObtained)
}

func (b *bsmLock) Release(ctx context.Context, name, id string) (bool, error) {
	if !b.has(name, id) {
		return false, nil
	}
	return unless(b.last.Release(ctx), redislock.ErrLockNotHeld)
}

// has: a client has one lock at a time.
func (b *bsmLock) has(name, id string) bool {
	return b.last != nil && b.last.Key() == b.prefix+name && b.last.Token() == id
}

// unless is done, or certainly not done if the error is the refusal.
func unless(err, refusal error) (done bool, _ error) {
	if errors.Is(err, refusal) {
		return false, nil
	}
	return err == nil, err
}

func (b *bsmLock) Close() error { return errors.Join(b.client.Close(), b.redisSet.Close()) }
