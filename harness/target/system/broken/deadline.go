package broken

import (
	"context"
	"sync"
	"time"

	"fencepost/core/clock"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

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
