package broken

import (
	"context"
	"errors"
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
	plant("renew-failure-ignored", only(workload.Hooks{Locker: renewFailureIgnored}))
	plant("trust-from-answer", trustFromAnswer)
	plant("wall-deadline", only(workload.Hooks{Clock: wallDeadline}))
	plant("awake-deadline", only(workload.Hooks{Clock: awakeDeadline}))
	plant("early-release", only(workload.Hooks{Locker: earlyRelease}))
	plant("jobs-awake-deadline", only(workload.Hooks{Clock: awakeDeadline}))
	plant("renew-unconditioned", renewUnconditioned)
	plant("heartbeat-dies", heartbeatDies)
}

// locker decorates the leases that another locker hands out.
type locker struct {
	workload.Locker
	wrap func(ctx context.Context, l workload.Lease) (workload.Lease, error)
}

func (l locker) Acquire(ctx context.Context, r lock.Request) (workload.Lease, error) {
	return l.wrapped(ctx, r, l.Locker.Acquire)
}

func (l locker) TryAcquire(ctx context.Context, r lock.Request) (workload.Lease, error) {
	return l.wrapped(ctx, r, l.Locker.TryAcquire)
}

func (l locker) wrapped(ctx context.Context, r lock.Request,
	acquire func(context.Context, lock.Request) (workload.Lease, error)) (workload.Lease, error) {
	lease, err := acquire(ctx, r)
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

// trustFromAnswer counts a lease from the answer of its last CAS: the request
// may have been executed long before, when its first copy arrived.
func trustFromAnswer() workload.Hooks {
	t := &tracker{}
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

// errDead is why a renewal is not sent.
var errDead = errors.New("the heartbeat has died")

// heartbeatDies stops renewing a lease after the first renewal that is not
// answered, and nobody notices.
func heartbeatDies() workload.Hooks {
	var dead table[string, bool] // by attempt
	beat := func(_ *cassandra.DB, c mistake.CAS) (store.CASResult, error) {
		if d, _ := dead.get(c.To.Attempt); d {
			<-c.Ctx.Done()
			return store.CASResult{}, &store.Error{Op: "renew " + c.Resource, Outcome: store.Fail, Cause: errDead}
		}
		res, err := c.Send()
		if err != nil {
			dead.set(c.To.Attempt, true)
		}
		return res, err
	}
	return workload.Hooks{Locks: casHook(lock.Renew, beat), Locker: renewFailureIgnored}
}

// renewUnconditioned has a heartbeat of its own for each lease that writes the
// next beat without asking whose the row is: after a long stop of the process it
// revives a lease that has lapsed and been taken over.
func renewUnconditioned() workload.Hooks {
	t := &tracker{}
	return workload.Hooks{
		Observer: t.observer,
		Locker: func(cfg workload.Config, db *cassandra.DB, inner workload.Locker) workload.Locker {
			return locker{inner, func(_ context.Context, l workload.Lease) (workload.Lease, error) {
				b := &beating{Lease: l, t: t, db: db, every: cfg.TTL / 2, stop: make(chan struct{})}
				go b.run()
				return b, nil
			}}
		},
	}
}

type beating struct {
	workload.Lease
	t     *tracker
	db    *cassandra.DB
	every time.Duration
	stop  chan struct{}
	once  sync.Once
}

func (b *beating) Release(ctx context.Context) error {
	b.once.Do(func() { close(b.stop) })
	return b.Lease.Release(ctx)
}

func (b *beating) run() {
	tick := time.NewTicker(b.every)
	defer tick.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-tick.C:
		}
		// While the lease is sound its own client renews it.
		if h, ok := b.t.get(b.Resource(), b.Holder()); ok && time.Since(h.answered) >= b.every {
			b.beat(h.version)
		}
	}
}

func (b *beating) beat(from store.Version) {
	to := from
	to.Beat++
	span := b.t.obs.Begin(lock.Op{Kind: lock.Renew, Resource: b.Resource(), Holder: b.Holder(), From: &from, To: to})
	span.Sending(0)
	err := writeRow(context.Background(), b.db, b.Resource(), to)
	span.End(lock.Result{Outcome: store.OutcomeOf(err), Err: err})
	if err == nil {
		b.t.set(b.Resource(), b.Holder(), held{version: to, answered: time.Now()})
	}
}

// tracker watches the lock client for variants that keep a lease's times or
// version by themselves. Its hook observer must be among the variant's.
type tracker struct {
	obs  lock.Observer          // the workload's own, for requests that a variant makes itself
	held table[[2]string, held] // by resource and holder
}

// held is what the last acknowledged acquire or renewal made of a lease.
type held struct {
	version  store.Version
	takeover bool      // the acquire took another's lease over
	answered time.Time // the answer to its last copy
}

func (t *tracker) observer(_ workload.Config, inner lock.Observer) lock.Observer {
	t.obs = inner
	return trackingObserver{inner, t}
}

func (t *tracker) get(resource, holder string) (held, bool) {
	return t.held.get([2]string{resource, holder})
}

func (t *tracker) set(resource, holder string, h held) { t.held.set([2]string{resource, holder}, h) }

// tookOver reports whether the lease with a token was taken over from another holder.
func (t *tracker) tookOver(token int64) bool {
	t.held.mu.Lock()
	defer t.held.mu.Unlock()
	for _, h := range t.held.m {
		if h.takeover && h.version.Fence == token {
			return true
		}
	}
	return false
}

type trackingObserver struct {
	lock.Observer
	t *tracker
}

func (o trackingObserver) Begin(op lock.Op) lock.Span {
	s := o.Observer.Begin(op)
	if op.Kind == lock.Acquire || op.Kind == lock.Renew {
		return trackingSpan{s, op, o.t}
	}
	return s
}

type trackingSpan struct {
	lock.Span
	op lock.Op
	t  *tracker
}

func (s trackingSpan) End(r lock.Result) {
	if r.Outcome == store.OK {
		old, _ := s.t.get(s.op.Resource, s.op.Holder)
		takeover := s.op.Takeover || s.op.Kind == lock.Renew && old.takeover
		s.t.set(s.op.Resource, s.op.Holder, held{version: s.op.To, takeover: takeover, answered: time.Now()})
	}
	s.Span.End(r)
}
