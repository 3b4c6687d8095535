package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"fencepost/core/store"
)

// grant is a version of the row that is known to have been set by this process.
type grant struct {
	holder  string
	version store.Version
	// anchor is the own clock before the first send of the request whose
	// effect the version is.
	anchor time.Duration
	// unsure: a renewal of the version was sent and never settled; the row may
	// be one beat on.
	unsure bool
}

// owns reports whether row is a version of this grant.
func (g grant) owns(row *store.Version) bool {
	return row != nil && row.Fence == g.version.Fence && row.Attempt == g.version.Attempt && row.Holder == g.holder
}

type leaseState int

const (
	leaseHeld leaseState = iota
	leaseReleasing
	leaseLost
)

// Lease is a held lock. Its holder may act while Valid, and shows Token to
// whatever it changes. Safe for concurrent use.
type Lease struct {
	c      *Client
	r      *resource
	token  int64
	ttl    time.Duration
	margin time.Duration
	ctx    context.Context
	cancel context.CancelCauseFunc

	// sem is held by who changes the row: one renewal or release at a time.
	// pending, a renewal that its caller abandoned, belongs to it.
	sem     chan struct{}
	pending *operation

	mu        sync.Mutex
	g         grant
	state     leaseState
	reason    error // *LostError or ErrReleased, once not held
	stopTimer func() bool
	release   chan struct{} // closed when Release's work is done; nil before Release
	relErr    error
}

// newLease starts a lease on a fresh grant, or returns nil if its deadline is past.
func (c *Client) newLease(ctx context.Context, r *resource, g grant) *Lease {
	l := &Lease{
		c: c, r: r, g: g, token: g.version.Fence, ttl: g.version.TTL,
		margin: c.opt.drift().Margin(g.version.TTL),
		sem:    make(chan struct{}, 1),
	}
	now := c.clock.Now()
	if now >= l.deadlineLocked() {
		return nil
	}
	// The lease outlives the call that acquired it; the call's values stay.
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	// Close and the timer may end the lease as soon as they see it: they wait for its
	// mutex until it is complete.
	l.mu.Lock()
	l.armLocked()
	c.mu.Lock()
	c.work++ // until the lease has ended
	c.leases[l] = struct{}{}
	c.mu.Unlock()
	c.hold(r)
	r.granted(l, now)
	l.mu.Unlock()
	if !c.opt.NoAutoRenew {
		c.fork()
		go l.renewLoop()
	}
	if c.base.Err() != nil {
		l.lose(ErrClosed)
	}
	return l
}

// Resource returns the lock's name.
func (l *Lease) Resource() string { return l.r.name }

// Holder returns the name that was given to Acquire.
func (l *Lease) Holder() string { return l.g.holder }

// Token returns the fencing token: greater than that of every earlier grant of
// the resource to anyone.
func (l *Lease) Token() int64 { return l.token }

// TTL returns the lease's time to live.
func (l *Lease) TTL() time.Duration { return l.ttl }

// Context ends when the lease does: with a *LostError as cause when it is lost,
// at its deadline at the latest, with ErrReleased when it is released. It is
// not ended by the context that was given to Acquire. The end may come late, for
// a stopped process or after a suspend: check Valid immediately before acting.
func (l *Lease) Context() context.Context { return l.ctx }

// Deadline returns the instant on the client's clock up to which the holder may
// trust the lease, unless it is renewed before.
func (l *Lease) Deadline() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadlineLocked()
}

func (l *Lease) deadlineLocked() time.Duration {
	return l.g.anchor + l.ttl - l.margin
}

// Valid reports whether the lease is held and its deadline is ahead, by the clock.
func (l *Lease) Valid() bool { return l.err() == nil }

// err returns nil while the lease is valid, and else why it is not.
func (l *Lease) err() error {
	l.mu.Lock()
	if l.state == leaseHeld && l.c.clock.Now() < l.deadlineLocked() {
		l.mu.Unlock()
		return nil
	}
	held := l.state == leaseHeld
	l.mu.Unlock()
	if held {
		l.lose(ErrDeadline)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}

// armLocked sets the timer to the deadline.
func (l *Lease) armLocked() {
	if l.stopTimer != nil {
		l.stopTimer()
	}
	l.stopTimer = l.c.clock.AfterFunc(l.deadlineLocked()-l.c.clock.Now(), l.onTimer)
}

func (l *Lease) onTimer() {
	l.mu.Lock()
	if l.state != leaseHeld {
		l.mu.Unlock()
		return
	}
	if l.c.clock.Now() < l.deadlineLocked() {
		l.armLocked()
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	l.lose(ErrDeadline)
}

// lose ends a held lease against its holder's will.
func (l *Lease) lose(reason error) {
	err := &LostError{Resource: l.r.name, Token: l.token, Reason: reason}
	l.mu.Lock()
	if l.state != leaseHeld {
		l.mu.Unlock()
		return
	}
	l.state, l.reason = leaseLost, err
	l.stopTimer()
	l.mu.Unlock()
	l.cancel(err)
	l.c.obs.LeaseLost(l.r.name, l.g.holder, l.token, err)
	l.c.log.Warn("lease lost", "resource", l.r.name, "holder", l.g.holder, "token", l.token, "reason", reason)
	l.finish()
}

// finish lets the next caller of this process go on and the client close.
func (l *Lease) finish() {
	l.r.ended(l, l.c.clock.Now())
	l.c.drop(l.r)
	l.c.mu.Lock()
	delete(l.c.leases, l)
	l.c.mu.Unlock()
	l.c.done()
}

// lock makes the caller the only one to change the row.
func (l *Lease) lock(ctx context.Context) error {
	select {
	case l.sem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Lease) unlock() { <-l.sem }

var (
	// ErrHeld: TryAcquire found the lock held by another.
	ErrHeld = errors.New("lock: held by another")
	// ErrTimeout: Request.Timeout passed before the lock was free.
	ErrTimeout = errors.New("lock: not acquired within its timeout")
	// ErrClosed: the client is closed.
	ErrClosed = errors.New("lock: client is closed")
	// ErrRefused: three nodes of the store refused a request for good; the last failure
	// says what to change.
	ErrRefused = errors.New("lock: the store refuses the request")
	// ErrReleased: the lease was released by its holder. It is the cause of
	// the lease context's end then.
	ErrReleased = errors.New("lock: lease was released")
)

// Reasons of a LostError.
var (
	// ErrDeadline: the lease was not renewed before its own deadline.
	ErrDeadline = errors.New("its deadline passed without a renewal that is known to have taken effect")
	// ErrTakenOver: the row shows another grant.
	ErrTakenOver = errors.New("the row shows another version: it was taken over")
	// ErrLateGrant: the grant became known only after its deadline.
	ErrLateGrant = errors.New("the grant became known only after its deadline")
)

// LostError is the end of a lease without its holder's doing. What was done
// under the lease must stop; the fencing token keeps what is already on its way
// from harm. It is never revived: acquire again.
type LostError struct {
	Resource string
	Token    int64
	// Reason is or wraps ErrDeadline, ErrTakenOver, ErrLateGrant or ErrClosed.
	Reason error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("lock: lease on %q (token %d) lost: %v", e.Resource, e.Token, e.Reason)
}

// Unwrap returns the reason.
func (e *LostError) Unwrap() error { return e.Reason }

// AcquireError says why a lock was not acquired and what is known beside.
type AcquireError struct {
	Resource string
	// Reason is ErrHeld, ErrTimeout, ErrClosed, ErrRefused or the caller's context error.
	Reason error
	// Unsettled: a request of this call is still on its way. It is settled in
	// the background and released if it turns out to have been granted.
	Unsettled bool
	// Row is the row as last seen; nil: absent or never seen.
	Row *store.Version
	// Last is the last failure of the store on the way, if there was one.
	Last error
}

func (e *AcquireError) Error() string {
	s := fmt.Sprintf("lock %q: %v", e.Resource, e.Reason)
	if e.Row != nil && e.Row.Holder != "" {
		s += fmt.Sprintf(" (last seen held by %q, token %d)", e.Row.Holder, e.Row.Fence)
	}
	if e.Unsettled {
		s += "; a request is still unsettled and will be released in the background"
	}
	if e.Last != nil {
		s += fmt.Sprintf("; last failure: %v", e.Last)
	}
	return s
}

// Unwrap returns the reason and the last failure.
func (e *AcquireError) Unwrap() []error {
	if e.Last == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Last}
}
