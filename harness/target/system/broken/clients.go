package broken

import (
	"context"
	"sync"
	"time"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

// Mistakes that show only when clients differ in their ttl, hold several locks, give up, do
// not wait, renew by hand, or close what they share.
func init() {
	plant("takeover-own-ttl", takeoverOwnTTL)
	plant("watch-from-start", watchFromStart)
	plant("cancelled-acquire-leaks", only(workload.Hooks{Locker: cancelledAcquireLeaks}))
	plant("try-by-memory", tryByMemory)
	plant("renew-throttled", only(workload.Hooks{Locker: renewThrottled}))
	plant("close-without-waiting", only(workload.Hooks{Locker: closeWithoutWaiting}))
	plant("one-token-a-client", only(workload.Hooks{Locker: oneTokenAClient}))
}

// misread shows contenders another ttl of a held row than it has. What they send names the real
// one again, as a condition on another would never hold.
type misread struct {
	store.Locks
	// shown is the ttl that a look shows, of a row that was really read in the time took.
	shown func(ctx context.Context, row *store.Version, took time.Duration) time.Duration
	real  table[string, time.Duration] // by version
}

func (m *misread) hooks(h workload.Hooks) workload.Hooks {
	h.Locks = func(_ workload.Config, _ *cassandra.DB, inner store.Locks) store.Locks {
		m.Locks = inner
		return m
	}
	h.Observer = func(_ workload.Config, inner lock.Observer) lock.Observer { return misreadObserver{inner, m} }
	return h
}

// Read implements store.Locks.
func (m *misread) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	began := clock.Go().Now()
	row, err := m.Locks.Read(ctx, resource, serial)
	if err != nil || row.Free() || serial {
		return row, err
	}
	m.real.set(versionKey(row), row.TTL)
	row.TTL = max(m.shown(ctx, row, clock.Go().Now()-began), time.Millisecond)
	return row, nil
}

// CAS implements store.Locks.
func (m *misread) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, n int) (store.CASResult, error) {
	return m.Locks.CAS(ctx, resource, m.asRead(from), to, n)
}

// asRead is a version as it is in the store.
func (m *misread) asRead(v *store.Version) *store.Version {
	if v.Free() {
		return v
	}
	ttl, ok := m.real.get(versionKey(v))
	if !ok {
		return v
	}
	r := *v
	r.TTL = ttl
	return &r
}

type misreadObserver struct {
	lock.Observer
	m *misread
}

func (o misreadObserver) Begin(op lock.Op) lock.Span {
	op.From = o.m.asRead(op.From)
	return o.Observer.Begin(op)
}

// takeoverOwnTTL has contenders wait for their own ttl instead of the row's.
func takeoverOwnTTL() workload.Hooks {
	m := &misread{shown: func(ctx context.Context, row *store.Version, _ time.Duration) time.Duration {
		if own, ok := ctx.Value(ownTTL{}).(time.Duration); ok {
			return own
		}
		return row.TTL
	}}
	return m.hooks(workload.Hooks{Locker: func(_ workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
		return asking{inner}
	}})
}

type ownTTL struct{}

// asking has calls carry their ttl.
type asking struct{ workload.Locker }

func (a asking) Acquire(ctx context.Context, r lock.Request) (workload.Lease, error) {
	return a.Locker.Acquire(context.WithValue(ctx, ownTTL{}, r.TTL), r)
}

func (a asking) TryAcquire(ctx context.Context, r lock.Request) (workload.Lease, error) {
	return a.Locker.TryAcquire(context.WithValue(ctx, ownTTL{}, r.TTL), r)
}

// watchFromStart counts the time for which a version has stood still from the start of the first
// look that showed it: what remains when it is answered is that much shorter.
func watchFromStart() workload.Hooks {
	var first table[string, time.Duration] // by version: later looks show what the first one did
	m := &misread{shown: func(_ context.Context, row *store.Version, took time.Duration) time.Duration {
		key := versionKey(row)
		if ttl, ok := first.get(key); ok {
			return ttl
		}
		first.set(key, row.TTL-took)
		return row.TTL - took
	}}
	return m.hooks(workload.Hooks{})
}

// cancelledAcquireLeaks gives up waiting for an acquire, and not the acquire: what it is granted
// is renewed for as long as the process lives.
func cancelledAcquireLeaks(_ workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
	return leaking{inner}
}

type leaking struct{ workload.Locker }

func (l leaking) Acquire(ctx context.Context, r lock.Request) (workload.Lease, error) {
	ctx, stop := clock.WithTimeout(ctx, clock.Go(), r.Timeout, lock.ErrTimeout)
	defer stop()
	r.Timeout = 0
	type answer struct {
		lease workload.Lease
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		lease, err := l.Locker.Acquire(context.WithoutCancel(ctx), r)
		answered <- answer{lease, err}
	}()
	select {
	case a := <-answered:
		return a.lease, a.err
	case <-ctx.Done():
		return nil, &lock.AcquireError{Resource: r.Resource, Reason: context.Cause(ctx)}
	}
}

// tryByMemory refuses those who do not wait by what the process last saw of the row.
func tryByMemory() workload.Hooks {
	seen := &remembering{}
	return workload.Hooks{
		Locks: func(_ workload.Config, _ *cassandra.DB, inner store.Locks) store.Locks {
			seen.Locks = inner
			return seen
		},
		Locker: func(_ workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
			return hasty{inner, seen}
		},
	}
}

// remembering remembers of each row until when it is held.
type remembering struct {
	store.Locks
	until table[string, time.Duration]
}

func (m *remembering) saw(resource string, row *store.Version) {
	if row.Free() {
		m.until.set(resource, 0)
		return
	}
	m.until.set(resource, clock.Go().Now()+row.TTL)
}

// Read implements store.Locks.
func (m *remembering) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	row, err := m.Locks.Read(ctx, resource, serial)
	if err == nil {
		m.saw(resource, row)
	}
	return row, err
}

// CAS implements store.Locks.
func (m *remembering) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, n int) (store.CASResult, error) {
	res, err := m.Locks.CAS(ctx, resource, from, to, n)
	switch {
	case err != nil:
	case res.Applied:
		m.saw(resource, &to)
	default:
		m.saw(resource, res.Row)
	}
	return res, err
}

type hasty struct {
	workload.Locker
	seen *remembering
}

func (h hasty) TryAcquire(ctx context.Context, r lock.Request) (workload.Lease, error) {
	if until, _ := h.seen.until.get(r.Resource); clock.Go().Now() < until {
		return nil, &lock.AcquireError{Resource: r.Resource, Reason: lock.ErrHeld}
	}
	return h.Locker.TryAcquire(ctx, r)
}

// renewThrottled spares the store renewals that soon follow another one, and says that they were made.
func renewThrottled(cfg workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
	return locker{inner, func(_ context.Context, l workload.Lease) (workload.Lease, error) {
		return &throttled{Lease: l, every: cfg.TTL / 3, last: clock.Go().Now()}, nil
	}}
}

type throttled struct {
	workload.Lease
	every, last time.Duration
}

func (t *throttled) Renew(ctx context.Context) error {
	now := clock.Go().Now()
	if now-t.last < t.every && t.Valid() {
		return nil
	}
	t.last = now
	return t.Lease.Renew(ctx)
}

// closeWithoutWaiting says that the client is closed when it has begun to close it.
func closeWithoutWaiting(_ workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
	return unwaited{inner}
}

type unwaited struct{ workload.Locker }

func (u unwaited) Close(ctx context.Context) error {
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = u.Locker.Close(ctx)
	}()
	return nil
}

// oneTokenAClient has a client show one token for all that it holds: that of the lock that it
// has held for longest.
func oneTokenAClient(_ workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
	s := &sessions{first: map[string]*session{}}
	return locker{inner, s.lend}
}

// sessions are the tokens of clients that hold something.
type sessions struct {
	mu    sync.Mutex
	first map[string]*session // by client
}

type session struct {
	token int64
	locks int
}

func (s *sessions) lend(_ context.Context, l workload.Lease) (workload.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.first[l.Holder()]
	if of == nil {
		of = &session{token: l.Token()}
		s.first[l.Holder()] = of
	}
	of.locks++
	return &lent{Lease: l, s: s, token: of.token}, nil
}

type lent struct {
	workload.Lease
	s     *sessions
	token int64
	once  sync.Once
}

func (l *lent) Token() int64 { return l.token }

func (l *lent) Release(ctx context.Context) error {
	l.once.Do(func() {
		l.s.mu.Lock()
		defer l.s.mu.Unlock()
		if of := l.s.first[l.Holder()]; of.locks > 1 {
			of.locks--
		} else {
			delete(l.s.first, l.Holder())
		}
	})
	return l.Lease.Release(ctx)
}
