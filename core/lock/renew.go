package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fencepost/core/store"
)

// Renew extends the lease by its ttl from now. It returns nil when that is
// certain. After any other return the lease is what it was before: valid up to
// its old deadline, or lost, as the *LostError then says. After the deadline it
// fails without a request: a lapsed lease is never revived.
//
// A renewal whose outcome is unknown when ctx ends is continued by the next
// Renew or Release.
func (l *Lease) Renew(ctx context.Context) error {
	if err := l.lock(ctx); err != nil {
		return &store.Error{Op: "renew " + l.r.name, Outcome: store.Fail, Cause: err}
	}
	defer l.unlock()
	return l.renew(ctx)
}

// renewLoop renews a quarter to a third of the ttl after the last anchor. The instant is
// drawn again each time: else leases that were granted together would be renewed together
// for ever. It ends with the lease.
func (l *Lease) renewLoop() {
	defer l.c.done()
	var pause time.Duration
	for {
		after := l.ttl/4 + l.c.draw(l.ttl/12)
		l.mu.Lock()
		at := l.g.anchor + after
		l.mu.Unlock()
		if l.c.clock.Sleep(l.ctx, max(at-l.c.clock.Now(), pause)) != nil {
			return
		}
		if l.lock(l.ctx) != nil {
			return
		}
		// Not under the lease's own context: a release then waits for the copy
		// on its way instead of making its outcome unknown.
		err := l.renew(l.c.base)
		l.settleClosed()
		l.unlock()
		switch {
		case l.ctx.Err() != nil:
			return
		case err != nil:
			pause = min(max(2*pause, l.c.jitter(l.c.opt.Backoff.Min)), l.ttl/12)
			l.c.log.Debug("renewal failed", "resource", l.r.name, "holder", l.g.holder, "token", l.token, "error", err)
		default:
			pause = 0
		}
	}
}

// settleClosed gives up what the client no longer settles as it is closed, if nobody releases the
// lease: an operation that was begun is ended. The caller has the semaphore.
func (l *Lease) settleClosed() {
	o := l.pending
	if o == nil || l.c.base.Err() == nil {
		return
	}
	l.pending = nil
	o.giveUp(context.Cause(l.c.base))
	l.settled(o)
}

// renew runs one renewal, or goes on with the pending one, until it is settled,
// the deadline passes or ctx ends. The caller has the semaphore.
func (l *Lease) renew(ctx context.Context) error {
	if err := l.err(); err != nil {
		return err
	}
	o := l.pending
	if o == nil {
		o = l.newRenewal()
	}
	l.pending = nil
	if !o.run(ctx) {
		if !o.overdue() {
			l.pending = o
			return &store.Error{Op: "renew " + l.r.name, Outcome: store.Unknown, Cause: errors.Join(context.Cause(ctx), o.lastErr)}
		}
		o.giveUp(ErrDeadline)
	}
	return l.renewed(o)
}

func (l *Lease) newRenewal() *operation {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.g.version
	to := from
	to.Beat++
	return &operation{
		c:       l.c,
		op:      Op{Kind: Renew, Resource: l.r.name, Holder: l.g.holder, From: &from, To: to},
		timeout: l.c.requestTimeout(l.ttl),
		until:   l.deadlineLocked(),
	}
}

// renewed takes the end of a renewal into account.
func (l *Lease) renewed(o *operation) error {
	now := l.c.clock.Now()
	switch {
	case o.outcome == store.OK:
		to := o.op.To
		l.r.learn(&to, now, own)
		l.mu.Lock()
		late := l.state == leaseHeld && now >= l.deadlineLocked()
		l.g.version, l.g.anchor = to, max(l.g.anchor, o.anchor)
		if l.state == leaseHeld && !late {
			l.armLocked()
		}
		l.mu.Unlock()
		if late {
			l.lose(ErrDeadline)
		}
		return l.err()
	case o.row != nil:
		l.r.learn(o.row, now, conditional)
		l.lose(fmt.Errorf("%w: %s", ErrTakenOver, o.row))
		return l.err()
	case o.outcome == store.Unknown:
		// Given up at the deadline.
		l.mu.Lock()
		l.g.unsure = true
		l.mu.Unlock()
	}
	if err := l.err(); err != nil {
		return err
	}
	return &store.Error{Op: "renew " + l.r.name, Outcome: o.outcome, Cause: o.err}
}
