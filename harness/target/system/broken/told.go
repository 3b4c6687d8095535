package broken

import (
	"context"
	"errors"
	"sync"
	"time"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() { plant("trust-from-told", trustFromTold) }

// trustFromTold subtracts from the ttl what a request took, and counts the rest from when the
// client looks at the answer. It is right but for a client that stands still between the two:
// that is not counted. The sound client under it finds that such a grant is late. It is kept
// from handing the lock back for as long as the holder uses it.
func trustFromTold() workload.Hooks {
	t := &told{waiting: map[[2]string]chan lateGrant{}}
	return workload.Hooks{
		Observer: func(_ workload.Config, inner lock.Observer) lock.Observer { return toldObserver{inner, t} },
		Locker: func(cfg workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
			t.trusted = cfg.TTL - clock.Drift{Bound: cfg.DriftBound, Base: cfg.MarginBase}.Margin(cfg.TTL)
			return toldLocker{inner, t}
		},
	}
}

// told is from when on the leases of a process count, and who waits for one.
type told struct {
	trusted time.Duration
	anchors table[[2]string, time.Time] // by resource and holder

	mu      sync.Mutex
	waiting map[[2]string]chan lateGrant
}

// lateGrant is a grant that the sound client gives up when done is closed.
type lateGrant struct {
	token int64
	done  chan struct{}
}

func (t *told) wait(of [2]string) chan lateGrant {
	t.mu.Lock()
	defer t.mu.Unlock()
	ch := make(chan lateGrant)
	t.waiting[of] = ch
	return ch
}

func (t *told) waiter(of [2]string) chan lateGrant {
	t.mu.Lock()
	defer t.mu.Unlock()
	ch := t.waiting[of]
	delete(t.waiting, of)
	return ch
}

func (t *told) deadline(of [2]string) time.Time {
	at, _ := t.anchors.get(of)
	return at.Add(t.trusted)
}

type toldObserver struct {
	lock.Observer
	t *told
}

func (o toldObserver) Begin(op lock.Op) lock.Span {
	s := o.Observer.Begin(op)
	if op.Kind == lock.Acquire || op.Kind == lock.Renew {
		return &toldSpan{Span: s, op: op, t: o.t}
	}
	return s
}

// LeaseLost hands a late grant to the caller who asked for it, and returns when it is over.
func (o toldObserver) LeaseLost(resource, holder string, token int64, cause error) {
	if errors.Is(cause, lock.ErrLateGrant) {
		if ch := o.t.waiter([2]string{resource, holder}); ch != nil {
			g := lateGrant{token, make(chan struct{})}
			ch <- g
			<-g.done
			return
		}
	}
	o.Observer.LeaseLost(resource, holder, token, cause)
}

type toldSpan struct {
	lock.Span
	op   lock.Op
	t    *told
	sent time.Time
}

func (s *toldSpan) Sending(copyNo int) {
	if copyNo == 0 {
		s.sent = time.Now()
	}
	s.Span.Sending(copyNo)
}

// End measures the request when its answer has come, and reads the clock again when the client
// is told.
func (s *toldSpan) End(r lock.Result) {
	took := time.Since(s.sent)
	s.Span.End(r)
	if r.Outcome == store.OK {
		s.t.anchors.set([2]string{s.op.Resource, s.op.Holder}, time.Now().Add(-took))
	}
}

type toldLocker struct {
	workload.Locker
	t *told
}

func (l toldLocker) Acquire(ctx context.Context, r lock.Request) (workload.Lease, error) {
	type answer struct {
		lease workload.Lease
		err   error
	}
	of := [2]string{r.Resource, r.Holder}
	late := l.t.wait(of)
	asking, cancel := context.WithCancel(ctx)
	answers := make(chan answer, 1)
	go func() {
		lease, err := l.Locker.Acquire(asking, r)
		l.t.waiter(of)
		answers <- answer{lease, err}
	}()
	select {
	case a := <-answers:
		cancel()
		if a.err != nil {
			return nil, a.err
		}
		return newToldLease(l.t, of, a.lease.Token(), a.lease.Release), nil
	case g := <-late:
		var once sync.Once
		return newToldLease(l.t, of, g.token, func(ctx context.Context) error {
			once.Do(func() {
				cancel()
				close(g.done)
				if a := <-answers; a.err == nil {
					_ = a.lease.Release(ctx)
				}
			})
			return nil
		}), nil
	}
}

// toldLease is trusted for its time from when its client was told.
type toldLease struct {
	t       *told
	of      [2]string
	token   int64
	release func(context.Context) error
	ctx     context.Context
	cancel  context.CancelFunc
}

func newToldLease(t *told, of [2]string, token int64, release func(context.Context) error) *toldLease {
	l := &toldLease{t: t, of: of, token: token, release: release}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	go l.expire()
	return l
}

func (l *toldLease) expire() {
	defer l.cancel()
	for left := time.Until(l.t.deadline(l.of)); left > 0; left = time.Until(l.t.deadline(l.of)) {
		select {
		case <-time.After(left):
		case <-l.ctx.Done():
			return
		}
	}
}

func (l *toldLease) Resource() string         { return l.of[0] }
func (l *toldLease) Holder() string           { return l.of[1] }
func (l *toldLease) Token() int64             { return l.token }
func (l *toldLease) Context() context.Context { return l.ctx }
func (l *toldLease) Valid() bool              { return l.ctx.Err() == nil && time.Now().Before(l.t.deadline(l.of)) }

// Renew is not the holder's to do: the sound client under it renews what is its own.
func (*toldLease) Renew(context.Context) error { return errors.ErrUnsupported }

func (l *toldLease) Release(ctx context.Context) error {
	defer l.cancel()
	return l.release(ctx)
}
