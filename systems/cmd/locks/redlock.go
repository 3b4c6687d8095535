package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"fencepost/systems/drive"
)

// redlock is Redlock by redsync: a key with an expiry on each of several servers that know nothing of
// each other. The client that has the key on a majority of them has the lock.
type redlock struct {
	clients []*redis.Client
	pools   []redsyncredis.Pool
	sync    *redsync.Redsync
	prefix  string
	more    []redsync.Option // of each mutex
	last    *redsync.Mutex   // of the last attempt
}

func openRedlock(_ context.Context, at drive.Place) (drive.Locker, error) {
	r := &redlock{prefix: at.Name + "/"}
	for _, node := range at.Nodes {
		db := redisClient(node)
		r.clients = append(r.clients, db)
		r.pools = append(r.pools, goredis.NewPool(db))
	}
	r.sync = redsync.New(r.pools...)
	return r, nil
}

// openRedlockNX is openRedlock with the option that the rest is without.
func openRedlockNX(ctx context.Context, at drive.Place) (drive.Locker, error) {
	l, err := openRedlock(ctx, at)
	if err != nil {
		return nil, err
	}
	r := l.(*redlock)
	r.more = append(r.more, redsync.WithSetNXOnExtend())
	return r, nil
}

// mutex is the mutex of an attempt. The run's ttl is its expiry. The attempt's id is its value, by which
// requests are known on the links: GenValueFunc is what TryLockContext asks, WithValue what the others use
// if that has not succeeded. The rest is redsync's default, but for more. So WithSetNXOnExtend is off where it is not
// asked for: with it ExtendContext takes an expired lock again as if it had never been lost, even if another had
// it in between.
func (r *redlock) mutex(name, id string, ttl time.Duration) (m *redsync.Mutex, again bool) {
	key := r.prefix + name
	if r.last != nil && r.last.Name() == key && r.last.Value() == id {
		return r.last, true
	}
	return r.sync.NewMutex(key, append([]redsync.Option{redsync.WithExpiry(ttl), redsync.WithValue(id),
		redsync.WithGenValueFunc(func() (string, error) { return id, nil })}, r.more...)...), false
}

// errLate: a majority granted the lock, and its validity ended before the caller knew.
var errLate = errors.New("redlock: taken, and its validity is over")

// Acquire locks once. redsync gives back what a failed attempt got, and these requests may still be on
// their way when the call returns. So the same value is never set again: a late request would delete a key
// that is held by then. An id that did not get the lock never has it; called again, Acquire gives back again.
func (r *redlock) Acquire(ctx context.Context, name, id string, ttl time.Duration) (int64, bool, error) {
	m, again := r.mutex(name, id, ttl)
	if r.last = m; again {
		_, err := m.UnlockContext(ctx)
		return 0, false, r.open(err)
	}
	if err := m.TryLockContext(ctx); err != nil {
		return 0, false, r.open(err)
	}
	if !time.Now().Before(m.Until()) {
		_, err := m.UnlockContext(ctx)
		return 0, false, errors.Join(errLate, err)
	}
	return 0, true, nil
}

func (r *redlock) Renew(ctx context.Context, name, id string, ttl time.Duration) (bool, error) {
	m, _ := r.mutex(name, id, ttl)
	renewed, err := m.ExtendContext(ctx)
	return renewed, r.open(err)
}

func (r *redlock) Release(ctx context.Context, name, id string) (bool, error) {
	m, _ := r.mutex(name, id, 0) // nothing is set
	released, err := m.UnlockContext(ctx)
	return released, r.open(err)
}

// open returns nil if so many servers refused that the others are no majority: the answer is no, for certain.
// Otherwise servers that did not answer may have done what they were asked, and the error stays.
func (r *redlock) open(err error) error {
	if refusals(err) > len(r.pools)-r.quorum() {
		return nil
	}
	return err
}

func (r *redlock) quorum() int { return len(r.pools)/2 + 1 }

// refusals counts the servers that answered that another has the lock, or nobody. It walks the joined errors,
// of which errors.As finds only the first.
func refusals(err error) (n int) {
	switch e := err.(type) {
	case *redsync.ErrTaken:
		return len(e.Nodes)
	case *redsync.ErrNodeTaken:
		return 1
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			n += refusals(one)
		}
	default:
		if err == redsync.ErrLockAlreadyExpired {
			return 1
		}
	}
	return n
}

// vote is a server's answer to who has a lock.
type vote struct {
	id  string // "": nobody
	err error  // it did not answer
}

// votes asks all servers at once.
func (r *redlock) votes(ctx context.Context, ask func(redsyncredis.Conn) (string, error)) []vote {
	out := make([]vote, len(r.pools))
	var wg sync.WaitGroup
	for i, pool := range r.pools {
		wg.Go(func() {
			conn, err := pool.Get(ctx)
			if err == nil {
				out[i].id, err = ask(conn)
			}
			out[i].err = err
		})
	}
	wg.Wait()
	return out
}

// majority returns the id that a majority of all servers has, "" if none does. It is an error if the servers
// that did not answer could make a majority for an id.
func majority(votes []vote) (string, error) {
	count := map[string]int{}
	var silent []error
	for _, v := range votes {
		if v.err != nil {
			silent = append(silent, v.err)
			continue
		}
		count[v.id]++
	}
	quorum, most := len(votes)/2+1, 0
	for id, n := range count {
		if n >= quorum {
			return id, nil // "" too
		}
		if id != "" {
			most = max(most, n)
		}
	}
	if most+len(silent) >= quorum {
		return "", fmt.Errorf("%d of %d servers did not answer, and %d of the others have the same id: %w", len(silent), len(votes), most, errors.Join(silent...))
	}
	return "", nil
}

func (r *redlock) Holder(ctx context.Context, name string) (string, error) {
	return majority(r.votes(ctx, func(c redsyncredis.Conn) (string, error) { return c.Get(r.prefix + name) }))
}

// Seal sets a key without an expiry, which redsync cannot do. Short of a majority the keys stay, so that the
// next call adds to them; they are deleted only if another id has the majority.
func (r *redlock) Seal(ctx context.Context, name, id string) (bool, error) {
	key := r.prefix + name
	holder, err := majority(r.votes(ctx, func(c redsyncredis.Conn) (string, error) {
		if set, err := c.SetNX(key, id, 0); set || err != nil {
			return id, err
		}
		return c.Get(key)
	}))
	switch {
	case err != nil:
		return false, err
	case holder == "":
		return false, errors.New("no id has a majority")
	case holder != id:
		_, err := r.Release(ctx, name, id)
		return false, err
	}
	return true, nil
}

func (r *redlock) Close() error {
	var err error
	for _, c := range r.clients {
		err = errors.Join(err, c.Close())
	}
	return err
}
