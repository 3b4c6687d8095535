package broken

import (
	"context"
	"errors"
	"sync"
	"time"

	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/history"
	"fencepost/harness/workload"
)

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

// renewFailureIgnored goes on when the lease is lost, as a scheduler does that
// only logs a failed renewal.
func renewFailureIgnored(_ workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
	return locker{inner, func(_ context.Context, l workload.Lease) (workload.Lease, error) { return endless{l}, nil }}
}

type endless struct{ workload.Lease }

func (endless) Context() context.Context { return context.Background() }
func (endless) Valid() bool              { return true }

// answerTrust counts a lease from the answer of its last CAS: the request may
// have been executed long before, when its first copy arrived.
type answerTrust struct {
	mu     sync.Mutex
	answer map[string]time.Time // by resource and holder
	margin time.Duration
	ttl    time.Duration
}

func newAnswerTrust() *answerTrust { return &answerTrust{answer: map[string]time.Time{}} }

func (t *answerTrust) observer(cfg workload.Config, inner lock.Observer) lock.Observer {
	t.ttl = cfg.TTL
	t.margin = lock.Margin(cfg.TTL, cfg.DriftBound, cfg.MarginBase)
	return answerObserver{inner, t}
}

type answerObserver struct {
	lock.Observer
	t *answerTrust
}

func (o answerObserver) Begin(op lock.Op) lock.Span {
	s := o.Observer.Begin(op)
	if op.Kind == lock.Acquire || op.Kind == lock.Renew {
		return answerSpan{s, op, o.t}
	}
	return s
}

type answerSpan struct {
	lock.Span
	op lock.Op
	t  *answerTrust
}

func (s answerSpan) End(r lock.Result) {
	if r.Outcome == store.OK {
		s.t.mu.Lock()
		s.t.answer[s.op.Resource+"\x00"+s.op.Holder] = time.Now()
		s.t.mu.Unlock()
	}
	s.Span.End(r)
}

func (t *answerTrust) locker(_ workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
	return locker{inner, func(_ context.Context, l workload.Lease) (workload.Lease, error) {
		ctx, cancel := context.WithCancel(context.Background())
		a := &answerLease{Lease: l, t: t, ctx: ctx}
		go a.expire(cancel)
		return a, nil
	}}
}

type answerLease struct {
	workload.Lease
	t   *answerTrust
	ctx context.Context
}

func (l *answerLease) deadline() time.Time {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	return l.t.answer[l.Resource()+"\x00"+l.Holder()].Add(l.t.ttl - l.t.margin)
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

// recorderDrops loses every 50th operation, invocation and end.
func recorderDrops(_ workload.Config, inner workload.Recorder) workload.Recorder {
	return dropping{inner}
}

type dropping struct{ workload.Recorder }

func (d dropping) Record(e history.Event) int64 {
	if e.ID > 0 && e.ID%50 == 0 {
		return history.Now()
	}
	return d.Recorder.Record(e)
}
