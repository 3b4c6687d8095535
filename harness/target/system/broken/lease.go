package broken

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/mistake"
	"fencepost/core/store"
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

func init() {
	plant("renew-failure-ignored", only(workload.Hooks{Locker: renewFailureIgnored}))
	plant("trust-from-answer", trustFromAnswer)
	plant("wall-deadline", only(workload.Hooks{Clock: wallDeadline}))
	plant("awake-deadline", only(workload.Hooks{Clock: awakeDeadline}))
	plant("early-release", only(workload.Hooks{Locker: earlyRelease}))
	plant("jobs-awake-deadline", only(workload.Hooks{Clock: awakeDeadline}))
}

// trustFromAnswer counts a lease from the answer of its last CAS: the request
// may have been executed long before, when its first copy arrived.
func trustFromAnswer() workload.Hooks {
	t := newTracker()
	return workload.Hooks{
		Observer: t.observer,
		Locker: func(cfg workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
			trusted := cfg.TTL - clock.Drift{Bound: cfg.DriftBound, Base: cfg.MarginBase}.Margin(cfg.TTL)
			return locker{inner, func(_ context.Context, l workload.Lease) (workload.Lease, error) {
				ctx, cancel := context.WithCancel(context.Background())
				a := &answerLease{Lease: l, t: t, trusted: trusted, ctx: ctx}
				go a.expire(cancel)
				return a, nil
			}}
		},
	}
}

type answerLease struct {
	workload.Lease
	t       *tracker
	trusted time.Duration
	ctx     context.Context
}

func (l *answerLease) deadline() time.Time {
	h, _ := l.t.get(l.Resource(), l.Holder())
	return h.answered.Add(l.trusted)
}

func (l *answerLease) expire(cancel context.CancelFunc) {
	defer cancel()
	for {
		left := time.Until(l.deadline())
		if left <= 0 {
			return
		}
		time.Sleep(left)
	}
}

func (l *answerLease) Context() context.Context { return l.ctx }
func (l *answerLease) Valid() bool              { return time.Now().Before(l.deadline()) }

// renewFailureIgnored goes on when the lease is lost, as a scheduler does that
// only logs a failed renewal.
func renewFailureIgnored(_ workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
	return locker{inner, func(_ context.Context, l workload.Lease) (workload.Lease, error) { return endless{l}, nil }}
}

type endless struct{ workload.Lease }

func (endless) Context() context.Context { return context.Background() }
func (endless) Valid() bool              { return true }

// earlyRelease gives the lock back as soon as the work is begun, as a holder
// does that hands its job to a pool and returns.
func earlyRelease(_ workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
	return locker{inner, func(_ context.Context, l workload.Lease) (workload.Lease, error) {
		return &releasedEarly{Lease: l}, nil
	}}
}

type releasedEarly struct {
	workload.Lease
	once sync.Once
}

func (*releasedEarly) Context() context.Context { return context.Background() }

// Valid is first asked when the work begins.
func (l *releasedEarly) Valid() bool {
	if !l.Lease.Valid() {
		return true // released, or lost: nobody looks any more
	}
	l.once.Do(func() { go func() { _ = l.Lease.Release(context.Background()) }() })
	return true
}

// wallDeadline measures leases by the wall clock, which can be set.
func wallDeadline(_ workload.Config, c *workload.Clock) clock.Clock {
	origin := c.Wall()
	return readClock{c, func() time.Duration { return c.Wall().Sub(origin) }}
}

// awakeDeadline measures leases by a clock that stands still while the machine
// sleeps, as Go's own does.
func awakeDeadline(_ workload.Config, c *workload.Clock) clock.Clock {
	return readClock{c, c.Awake}
}

// readClock is a clock that is read elsewhere.
type readClock struct {
	clock.Clock
	now func() time.Duration
}

func (c readClock) Now() time.Duration { return c.now() }

func init() {
	plant("takeover-plain-write", only(workload.Hooks{Locks: takeoverPlainWrite}))
	plant("takeover-ignores-beat", only(workload.Hooks{Locks: takeoverIgnoresBeat}))
}

// takeoverPlainWrite reads the row and, if nothing has changed, writes it
// without a condition. Between the two it stands still for longer than a
// contender's polling interval (ttl/8), as a busy process may: two contenders
// then both find the row unchanged, in every run.
func takeoverPlainWrite(cfg workload.Config, db *cassandra.DB, inner store.Locks) store.Locks {
	return plainTakeover{inner, db, cfg.TTL / 7}
}

type plainTakeover struct {
	store.Locks
	db     *cassandra.DB
	window time.Duration
}

func (p plainTakeover) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	takeover := from != nil && from.Holder != "" && to.Holder != "" && to.Fence == from.Fence+1
	if !takeover {
		return p.Locks.CAS(ctx, resource, from, to, copyNo)
	}
	row, err := p.Read(ctx, resource, false)
	if err != nil {
		return store.CASResult{}, err
	}
	if !store.Same(row, from) {
		return store.CASResult{Row: row}, nil
	}
	t := time.NewTimer(p.window)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	err = writeRow(ctx, p.db, resource, to)
	return store.CASResult{Applied: err == nil}, err
}

// takeoverIgnoresBeat looks at whose lease it is and not at whether it was
// renewed: a lease that is longer than its ttl is taken over while it is live.
func takeoverIgnoresBeat(_ workload.Config, db *cassandra.DB, inner store.Locks) store.Locks {
	return &beatBlind{Locks: inner, db: db, first: map[string]store.Version{}}
}

type beatBlind struct {
	store.Locks
	db    *cassandra.DB
	mu    sync.Mutex
	first map[string]store.Version // of each lease, as it was first seen
}

// Read shows a lease as it was first seen, whatever its beat is now.
func (b *beatBlind) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	row, err := b.Locks.Read(ctx, resource, serial)
	if err != nil || row.Free() || serial {
		return row, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if f, ok := b.first[resource]; ok && f.Attempt == row.Attempt {
		return &f, nil
	}
	b.first[resource] = *row
	return row, nil
}

func (b *beatBlind) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	if from.Free() || mistake.KindOf(from, to) != lock.Acquire {
		return b.Locks.CAS(ctx, resource, from, to, copyNo)
	}
	applied, _, err := b.db.CAS(ctx, copyNo, store.Statement{
		CQL:       `UPDATE locks SET fence = ?, beat = ?, attempt = ?, holder = ?, ttl_ms = ? WHERE resource = ? IF fence = ? AND holder = ?`,
		Args:      []any{to.Fence, to.Beat, to.Attempt, to.Holder, to.TTL.Milliseconds(), resource, from.Fence, from.Holder},
		Partition: []any{resource},
	})
	if err != nil || applied {
		return store.CASResult{Applied: applied}, err
	}
	row, err := b.Locks.Read(ctx, resource, true)
	if err != nil {
		err = &store.Error{Op: "refused; read " + resource, Outcome: store.Fail, Cause: err}
	}
	return store.CASResult{Row: row}, err
}

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
