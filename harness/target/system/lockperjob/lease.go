package lockperjob

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"fencepost/core/job"
	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
)

// lease is a job's lock as its holder believes to have it.
type lease struct {
	s    *Scheduler
	name string
	run  job.RunID     // the token
	at   store.Version // the row as last known; its keeper's while it is kept
}

// tokenName is the counter of fencing tokens, of all queues.
const tokenName = "lock_seq"

// claim locks a job: nil if somebody else has it, or it could not be found out. The
// token is taken first, before the lock. A request without an answer counts as
// refused: if it was done, the lock has to expire.
func (s *Scheduler) claim(w *slot, p Pending) *lease {
	ctx, cancel := context.WithTimeout(s.writes, s.o.TTL)
	defer cancel()
	token, err := s.ids.Next(ctx, tokenName)
	if err != nil {
		w.log.Warn("taking a token failed", "job", p.ID, "error", err)
		return nil
	}
	l := &lease{s: s, name: LockName(s.o.Queue, p.ID), run: job.RunID(token)}
	l.at = Version(w.holder, token, s.expiry(), s.o.TTL)
	res, err := s.cas(lock.Op{Kind: lock.Acquire, Resource: l.name, Holder: w.holder, To: l.at})
	if err == nil && !res.Applied && res.Row != nil && s.free(ctx, w, p, res.Row) {
		l.at = Version(w.holder, token, s.expiry(), s.o.TTL)
		res, err = s.cas(lock.Op{Kind: lock.Acquire, Resource: l.name, Holder: w.holder, From: res.Row, To: l.at, Takeover: res.Row.Holder != ""})
	}
	switch {
	case err != nil:
		w.log.Warn("locking job failed", "job", p.ID, "error", err)
		return nil
	case !res.Applied:
		return nil
	}
	return l
}

// expiry is when a lock that is taken now expires, by the own wall clock.
func (s *Scheduler) expiry() time.Time { return s.o.Wall().Add(s.o.TTL) }

// free reports whether a lock that exists may be taken: it has expired by the own wall
// clock, or was released and its job is to run again. Jobs that are over leave their
// pending row only if it came late; it is removed without their lock.
func (s *Scheduler) free(ctx context.Context, w *slot, p Pending, row *store.Version) bool {
	if row.Holder != "" {
		if s.o.Wall().UnixMilli() < row.Beat {
			s.hand.leave(p, row.Beat)
			return false
		}
		w.log.Info("lock expired", "job", p.ID, "holder", row.Holder, "token", row.Fence)
		return true
	}
	r, err := s.rows.job(ctx, p.ID)
	if err != nil {
		w.log.Warn("reading job failed", "job", p.ID, "error", err)
		return false
	}
	if r == nil || r.State.Ended() {
		if err := s.rows.removePending(ctx, p); err != nil {
			w.log.Warn("removing row of ended job failed", "job", p.ID, "error", err)
		}
		return false
	}
	return true
}

// cas makes one conditional request; its time limit begins after the observer let it go.
func (s *Scheduler) cas(op lock.Op) (store.CASResult, error) {
	span := s.o.Observer.Begin(op)
	span.Sending(0)
	ctx, cancel := context.WithTimeout(s.writes, s.o.RequestTimeout)
	defer cancel()
	res, err := s.locks.CAS(ctx, op.Resource, op.From, op.To, 0)
	end := lock.Result{Outcome: store.OutcomeOf(err), Row: res.Row, Err: err, ServerTimeout: store.IsServerTimeout(err)}
	if err == nil && !res.Applied {
		end.Outcome = store.Fail
	}
	span.End(end)
	return res, err
}

// keep renews the lock until stop is called, which waits for a renewal that is on its
// way. What fails is logged, and that is all: the run goes on.
func (l *lease) keep(w *slot) (stop func()) {
	ctx, cancel := context.WithCancel(l.s.writes)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for l.s.o.Clock.Sleep(ctx, l.s.o.TTL/3) == nil {
			if err := l.renew(); err != nil {
				w.log.Warn("renewing lock failed", "lock", l.name, "error", err)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (l *lease) renew() error {
	return l.change(lock.Renew, func(v *store.Version) { v.Beat = l.s.expiry().UnixMilli() })
}

// release frees the lock; if that fails it has to expire.
func (l *lease) release() error {
	return l.change(lock.Release, func(v *store.Version) { v.Holder = "" })
}

var errNotHeld = errors.New("lockperjob: the lock has another holder")

// change writes the row as its holder. A renewal whose answer was lost may have moved
// the expiry: then the rejection shows the row as its own, and it is tried once more.
func (l *lease) change(kind lock.OpKind, set func(*store.Version)) error {
	const tries = 2
	for n := 1; ; n++ {
		to := l.at
		set(&to)
		from := l.at
		res, err := l.s.cas(lock.Op{Kind: kind, Resource: l.name, Holder: l.at.Holder, From: &from, To: to})
		switch {
		case err != nil:
			return err
		case res.Applied:
			l.at.Beat = to.Beat
			return nil
		case res.Row == nil || res.Row.Holder != l.at.Holder || res.Row.Fence != l.at.Fence || n == tries:
			return fmt.Errorf("%w: %s", errNotHeld, res.Row)
		}
		l.at = *res.Row
	}
}

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
