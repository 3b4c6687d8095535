package broken

import (
	"context"
	"errors"

	"fencepost/core/lock"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() {
	plant("hilo-tokens", only(workload.Hooks{Locker: hiloTokens}))
	plant("wall-tokens", only(workload.Hooks{Locker: wallTokens}))
}

// locker decorates the leases that another locker hands out.
type locker struct {
	workload.Locker
	wrap func(ctx context.Context, l workload.Lease) (workload.Lease, error)
}

func (l locker) Acquire(ctx context.Context, r lock.Request) (workload.Lease, error) {
	lease, err := l.Locker.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return l.wrap(ctx, lease)
}

// hiloTokens hands out tokens from blocks of ids that each process reserves for
// itself: unique, but a process with an older block hands out lower ones after
// another's higher ones.
func hiloTokens(_ workload.Config, db *cassandra.DB, inner workload.Locker) workload.Locker {
	ids := cassandra.NewIDs(db, 10_000)
	return locker{inner, func(ctx context.Context, l workload.Lease) (workload.Lease, error) {
		token, err := ids.Next(ctx, "fencing-tokens")
		if err != nil {
			return nil, errors.Join(err, l.Release(context.WithoutCancel(ctx)))
		}
		return tokenLease{l, token}, nil
	}}
}

type tokenLease struct {
	workload.Lease
	token int64
}

func (l tokenLease) Token() int64 { return l.token }

// wallTokens hands out the wall clock's milliseconds as tokens.
func wallTokens(_ workload.Config, db *cassandra.DB, inner workload.Locker) workload.Locker {
	return locker{inner, func(_ context.Context, l workload.Lease) (workload.Lease, error) {
		return tokenLease{l, db.Wall().UnixMilli()}, nil
	}}
}
