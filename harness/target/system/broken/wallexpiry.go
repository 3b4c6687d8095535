package broken

import (
	"context"
	"fmt"
	"sync"
	"time"

	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() {
	plant("wall-expiry", wallExpiry)
}

// wallExpiry has contenders compare the row's expires_hint, which is by its
// holder's wall clock, with their own wall clock: a lease that has expired by
// it looks free.
func wallExpiry() workload.Hooks {
	w := &expiring{holder: map[string]string{}}
	return workload.Hooks{
		Locks: func(_ workload.Config, db *cassandra.DB, inner store.Locks) store.Locks {
			w.Locks, w.db = inner, db
			return w
		},
		Observer: func(_ workload.Config, inner lock.Observer) lock.Observer { return expiryObserver{inner, w} },
	}
}

type expiring struct {
	store.Locks
	db     *cassandra.DB
	mu     sync.Mutex
	holder map[string]string // of versions that were shown as free
}

func versionKey(v *store.Version) string { return fmt.Sprintf("%s/%d", v.Attempt, v.Beat) }

// Read shows an expired lease as free.
func (w *expiring) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	row, err := w.Locks.Read(ctx, resource, serial)
	if err != nil || row.Free() || serial {
		return row, err
	}
	rows, err := w.db.QueryBy(ctx, 0, false, store.Statement{
		CQL: `SELECT attempt, beat, expires_hint FROM locks WHERE resource = ?`, Args: []any{resource}, Partition: []any{resource},
	})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || rows[0]["attempt"] != row.Attempt || rows[0]["beat"] != row.Beat {
		return row, nil // it has just changed
	}
	if hint, ok := rows[0]["expires_hint"].(time.Time); !ok || w.db.Wall().Before(hint) {
		return row, nil
	}
	w.mu.Lock()
	w.holder[versionKey(row)] = row.Holder
	w.mu.Unlock()
	row.Holder = ""
	return row, nil
}

// real is the version behind one that was shown as free.
func (w *expiring) real(v *store.Version) *store.Version {
	if !v.Free() || v == nil {
		return v
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	holder, ok := w.holder[versionKey(v)]
	if !ok {
		return v
	}
	r := *v
	r.Holder = holder
	return &r
}

func (w *expiring) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	return w.Locks.CAS(ctx, resource, w.real(from), to, copyNo)
}

type expiryObserver struct {
	lock.Observer
	w *expiring
}

func (o expiryObserver) Begin(op lock.Op) lock.Span {
	if op.Kind == lock.Acquire {
		op.From = o.w.real(op.From)
		op.Takeover = !op.From.Free()
	}
	return o.Observer.Begin(op)
}
