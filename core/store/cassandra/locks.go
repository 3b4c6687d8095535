package cassandra

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"fencepost/core/store"
)

// Locks is the store of lock rows in the table locks.
type Locks struct {
	db *DB
	// reader is the replica that plain and serial reads ask; it moves on when
	// one fails.
	reader atomic.Int64
}

var _ store.Locks = (*Locks)(nil)

// NewLocks returns the lock rows of db's keyspace. db stays the caller's to close.
func NewLocks(db *DB) *Locks { return &Locks{db: db} }

const (
	readLock = "SELECT fence, beat, attempt, holder, ttl_ms FROM locks WHERE resource = ?"

	insertLock = "INSERT INTO locks (resource, fence, beat, attempt, holder, ttl_ms, granted_at, expires_hint) " +
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS"

	// The whole version is named in the condition: a rejected UPDATE returns
	// only the columns that it names, and a condition on less than the whole
	// version can hold again after the row has moved on.
	whereVersion = " WHERE resource = ? IF fence = ? AND beat = ? AND attempt = ? AND holder = ? AND ttl_ms = ?"
	grantLock    = "UPDATE locks SET fence = ?, beat = ?, attempt = ?, holder = ?, ttl_ms = ?, granted_at = ?, expires_hint = ?" + whereVersion
	changeLock   = "UPDATE locks SET fence = ?, beat = ?, attempt = ?, holder = ?, ttl_ms = ?, expires_hint = ?" + whereVersion
)

// Read implements store.Locks.
func (l *Locks) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	replica := l.reader.Load()
	rows, err := l.db.QueryBy(ctx, int(replica), serial, store.Statement{CQL: readLock, Args: []any{resource}, Partition: []any{resource}})
	if err != nil {
		l.reader.CompareAndSwap(replica, replica+1)
		return nil, err
	}
	if len(rows) == 0 {
		return nil, nil
	}
	return version(rows[0])
}

// CAS implements store.Locks. granted_at and expires_hint are by the local wall
// clock, for people; nothing ever reads them.
func (l *Locks) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	now := l.db.Wall().UTC()
	expires := now.Add(to.TTL)
	if to.Holder == "" {
		expires = now
	}
	set := []any{to.Fence, to.Beat, to.Attempt, to.Holder, to.TTL.Milliseconds()}
	s := store.Statement{Partition: []any{resource}}
	switch {
	case from == nil:
		s.CQL = insertLock
		s.Args = append(append([]any{resource}, set...), now, expires)
	case from.Fence != to.Fence:
		s.CQL = grantLock
		s.Args = append(set, now, expires)
	default:
		s.CQL = changeLock
		s.Args = append(set, expires)
	}
	if from != nil {
		s.Args = append(s.Args, resource, from.Fence, from.Beat, from.Attempt, from.Holder, from.TTL.Milliseconds())
	}
	applied, rows, err := l.db.CAS(ctx, copyNo, s)
	if err != nil {
		return store.CASResult{}, err
	}
	if applied || len(rows) == 0 {
		return store.CASResult{Applied: applied}, nil
	}
	row, err := version(rows[0])
	if err != nil {
		return store.CASResult{}, err
	}
	return store.CASResult{Row: row}, nil
}

// version reads a lock row. A row that lacks a column was not written by this
// package; nothing may be concluded from it.
func version(row map[string]any) (*store.Version, error) {
	c := &columns{row: row}
	v := store.Version{Fence: column[int64](c, "fence"), Beat: column[int64](c, "beat"), Attempt: column[string](c, "attempt"),
		Holder: column[string](c, "holder"), TTL: time.Duration(column[int64](c, "ttl_ms")) * time.Millisecond}
	if c.lacking || v.Fence < 1 || v.TTL < 1 {
		return nil, &store.Error{Op: "read a lock row", Outcome: store.Unknown,
			Cause: fmt.Errorf("the row is malformed: %v: it was written by something else than this program", row)}
	}
	return &v, nil
}
