package lockperjob

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
)

// LockName is the name of a job's lock, which issues the tokens of its runs.
func LockName(queue string, id job.ID) string { return "lock/" + queue + "/" + string(id) }

// Locks is the store of lock rows. A row is (holder, token, expiry); as a
// store.Version the expiry, in ms since 1970, is the Beat, and the Attempt is the
// token's decimal number, as nothing else tells one try from another. The ttl is not
// in the row; all have the one of their scheduler.
type Locks struct {
	db  *cassandra.DB
	ttl time.Duration
}

var _ store.Locks = (*Locks)(nil)

// NewLocks returns the lock rows of db's keyspace for schedulers with this ttl.
func NewLocks(db *cassandra.DB, ttl time.Duration) *Locks { return &Locks{db, ttl} }

// Version is the version of a lock row.
func Version(holder string, token int64, expires time.Time, ttl time.Duration) store.Version {
	return store.Version{Fence: token, Beat: expires.UnixMilli(), Attempt: strconv.FormatInt(token, 10), Holder: holder, TTL: ttl}
}

const (
	readLock   = "SELECT holder, fence, expires_at FROM lpj_locks WHERE lock = ?"
	insertLock = "INSERT INTO lpj_locks (lock, holder, fence, expires_at) VALUES (?, ?, ?, ?) IF NOT EXISTS"
	updateLock = "UPDATE lpj_locks SET holder = ?, fence = ?, expires_at = ? WHERE lock = ? IF holder = ? AND fence = ? AND expires_at = ?"
)

// Read implements store.Locks.
func (l *Locks) Read(ctx context.Context, name string, serial bool) (*store.Version, error) {
	rows, err := l.db.QueryBy(ctx, 0, serial, store.Statement{CQL: readLock, Args: []any{name}, Partition: []any{name}})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return l.version(rows[0])
}

// CAS implements store.Locks.
func (l *Locks) CAS(ctx context.Context, name string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	s := store.Statement{CQL: insertLock, Args: []any{name, to.Holder, to.Fence, time.UnixMilli(to.Beat)}, Partition: []any{name}}
	if from != nil {
		s.CQL = updateLock
		s.Args = []any{to.Holder, to.Fence, time.UnixMilli(to.Beat), name, from.Holder, from.Fence, time.UnixMilli(from.Beat)}
	}
	applied, rows, err := l.db.CAS(ctx, copyNo, s)
	if err != nil || applied || len(rows) == 0 {
		return store.CASResult{Applied: applied}, err
	}
	row, err := l.version(rows[0])
	return store.CASResult{Row: row}, err
}

// version reads a row. One that lacks a column was not written by this package.
func (l *Locks) version(row map[string]any) (*store.Version, error) {
	holder, ok1 := row["holder"].(string)
	token, ok2 := row["fence"].(int64)
	expires, ok3 := row["expires_at"].(time.Time)
	if !ok1 || !ok2 || !ok3 || token < 1 {
		return nil, &store.Error{Op: "read a lock row", Outcome: store.Unknown,
			Cause: fmt.Errorf("the row is malformed: %v: it was written by something else than this program", row)}
	}
	v := Version(holder, token, expires, l.ttl)
	return &v, nil
}
