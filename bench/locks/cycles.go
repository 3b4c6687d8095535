package locks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"fencepost/bench"
	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/store"
)

// Cycles makes arms of lock cycles and follows their rows.
type Cycles struct{ audit *audit }

// NewCycles returns cycles of which nothing is known yet.
func NewCycles() *Cycles { return &Cycles{newAudit()} }

// Client is an arm's lock client, as a process has one.
type Client struct {
	Rows store.Locks
	TTL  time.Duration
	Rand *rand.Rand
	// Clock is the client's; nil: its own.
	Clock clock.Clock
	// Name names a thread as a holder; nil: "bench/t3".
	Name func(th *bench.Thread) string
	// Observer is what its user has watch it; nil: nothing. The arm watches it too.
	Observer lock.Observer
	// Acquire makes each call for a lock; nil: it is simply made.
	Acquire func(r lock.Request, call func() (*lock.Lease, error)) (*lock.Lease, error)

	renew renewal // what is done with a lease before it is released; nil: nothing
}

// Subject makes an arm.
func (c *Cycles) Subject(o Client) (bench.Subject, error) {
	if o.Name == nil {
		o.Name = holder
	}
	if o.Acquire == nil {
		o.Acquire = func(_ lock.Request, call func() (*lock.Lease, error)) (*lock.Lease, error) { return call() }
	}
	m := &meter{Locks: o.Rows}
	w := &watcher{audit: c.audit, next: o.Observer}
	client, err := lock.New(m, lock.Options{TTL: o.TTL, Rand: o.Rand, Observer: w, Clock: o.Clock})
	if err != nil {
		return nil, fmt.Errorf("lock client: %w", err)
	}
	return &locker{Client: o, meter: m, sent: &w.sent, client: client, audit: c.audit}, nil
}

// Verify reads every row once more: it must show as many grants as were acknowledged. It
// returns all violations, and what was looked at.
func (c *Cycles) Verify(ctx context.Context, locks store.Locks) (violations []string, note string, err error) {
	err = c.audit.verifyRows(ctx, locks, func(v *store.Version) int64 { return v.Fence })
	rows, n := c.audit.counts()
	return c.audit.found(), fmt.Sprintf("%d grants of %d locks, every token above the one before it, no two valid leases at once, no grant lost", n, rows), err
}

// Found are the violations so far.
func (c *Cycles) Found() []string { return c.audit.found() }

// locker is an arm of lock cycles.
type locker struct {
	Client
	meter  *meter
	sent   *atomic.Int64 // by the client's own account, see watcher
	client *lock.Client
	audit  *audit
}

// Window implements bench.Subject.
func (s *locker) Window(ctx context.Context, w bench.Window) (bench.Sample, error) {
	return measure(ctx, w, s)
}

func (s *locker) operate(ctx context.Context, th *bench.Thread, key string, over func() bool) bench.End {
	if over() {
		return bench.End{GaveUp: true}
	}
	r := lock.Request{Resource: key, Holder: s.Name(th), TTL: s.TTL, Timeout: bench.DrainTimeout}
	lease, err := s.Acquire(r, func() (*lock.Lease, error) { return s.client.Acquire(ctx, r) })
	if err != nil {
		return lockEnd(err)
	}
	k := s.audit.key(key)
	k.enter(lease)
	if s.renew != nil {
		err = s.renew(ctx, lease)
	}
	k.leave(lease)
	return lockEnd(errors.Join(err, lease.Release(ctx)))
}

// lockEnd classifies the client's errors: what it says it did not do is a
// failure, what it left unsettled is unknown.
func lockEnd(err error) bench.End {
	var ae *lock.AcquireError
	if errors.As(err, &ae) && !ae.Unsettled {
		return bench.End{Outcome: store.Fail, Err: err}
	}
	return bench.EndOf(err)
}

// Traffic implements bench.Operator.
func (s *locker) Traffic() bench.Traffic {
	t := s.meter.Traffic()
	t.LWTs = s.sent.Load()
	return t
}

// Close implements bench.Subject.
func (s *locker) Close(ctx context.Context) error {
	err := s.client.Close(ctx)
	if sent, passed := s.sent.Load(), s.meter.Traffic().LWTs; err == nil && sent != passed {
		err = fmt.Errorf("the lock client reported %d conditional requests and the store saw %d: do not trust its count", sent, passed)
	}
	return err
}

// watcher counts sends as the lock client reports them.
type watcher struct {
	sent  atomic.Int64
	audit *audit
	next  lock.Observer // nil: none
}

func (w *watcher) Begin(op lock.Op) lock.Span {
	s := &span{w: w, op: op}
	if w.next != nil {
		s.next = w.next.Begin(op)
	}
	return s
}

func (w *watcher) LeaseLost(resource, holder string, token int64, cause error) {
	if w.next != nil {
		w.next.LeaseLost(resource, holder, token, cause)
	}
}

type span struct {
	w    *watcher
	op   lock.Op
	next lock.Span
}

func (s *span) Sending(copyNo int) {
	s.w.sent.Add(1)
	if s.next != nil {
		s.next.Sending(copyNo)
	}
}

func (s *span) End(r lock.Result) {
	if s.next != nil {
		s.next.End(r)
	}
	if s.op.Kind != lock.Acquire {
		return
	}
	switch r.Outcome {
	case store.OK:
		s.w.audit.key(s.op.Resource).changed()
	case store.Unknown:
		s.w.audit.key(s.op.Resource).doubt()
	}
}
