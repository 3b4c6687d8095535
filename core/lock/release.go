package lock

import (
	"context"
	"errors"
	"fmt"

	"fencepost/core/store"
)

// Release gives the lock back: the lease's right ends at once, before anything
// is sent. A renewal on its way is settled first. Calling it again returns the
// same answer.
//
// It returns nil when the row is certainly free, a *LostError if the lease was
// lost before (a lapsed lease's row is freed all the same, if it still is the
// lease's), and else an error whose outcome is unknown. When ctx ends first, the
// work goes on in the background until it is settled or the client closed.
func (l *Lease) Release(ctx context.Context) error {
	l.mu.Lock()
	if l.release == nil {
		l.release = make(chan struct{})
		l.startRelease()
	}
	done := l.release
	l.mu.Unlock()
	select {
	case <-done:
		return l.relErr
	case <-ctx.Done():
		return &store.Error{Op: "release " + l.r.name, Outcome: store.Unknown,
			Cause: fmt.Errorf("not settled yet, continuing in the background: %w", context.Cause(ctx))}
	}
}

// startRelease is called once, under the lease's mutex.
func (l *Lease) startRelease() {
	held := l.state == leaseHeld
	if held && l.c.clock.Now() >= l.deadlineLocked() {
		// Nobody has looked since the deadline passed: the lease was lost then.
		l.mu.Unlock()
		l.lose(ErrDeadline)
		l.mu.Lock()
		held = false
	}
	if held {
		l.state, l.reason = leaseReleasing, ErrReleased
		l.stopTimer()
		l.cancel(ErrReleased)
	}
	lost := l.reason
	if errors.Is(lost, ErrTakenOver) || !l.c.fork() {
		l.relErr = lost // a stale release: nothing to give back, or too late to try
		close(l.release)
		return
	}
	go func() {
		defer l.c.done()
		err := l.giveBack()
		if held {
			l.finish()
		} else {
			err = lost
		}
		l.relErr = err
		close(l.release)
	}()
}

// giveBack settles what is on its way and frees the row.
func (l *Lease) giveBack() error {
	if err := l.lock(l.c.base); err != nil {
		return &store.Error{Op: "release " + l.r.name, Outcome: store.Fail, Cause: err}
	}
	defer l.unlock()
	if o := l.pending; o != nil {
		l.pending = nil
		if !o.run(l.c.base) {
			o.giveUp(ErrDeadline)
		}
		l.settled(o)
	}
	l.mu.Lock()
	g := l.g
	l.mu.Unlock()
	return l.c.handBack(l.r, g)
}

// settled takes the end of a renewal into account of a lease that is no longer held.
func (l *Lease) settled(o *operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch o.outcome {
	case store.OK:
		l.g.version, l.g.anchor = o.op.To, max(l.g.anchor, o.anchor)
	case store.Unknown:
		l.g.unsure = true
	}
}

// handBack frees the row of a grant that nobody uses any more.
func (c *Client) handBack(r *resource, g grant) error {
	timeout := c.requestTimeout(g.version.TTL)
	if g.unsure {
		// The row may be one beat on. A read that says so confirms it; one that
		// does not refutes nothing, so the release that follows may be rejected.
		if row, err := c.readSerial(c.base, r.name, g.holder, timeout); err == nil && row != nil {
			r.learn(row, c.clock.Now(), conditional)
			if !g.owns(row) {
				return &LostError{Resource: r.name, Token: g.version.Fence, Reason: fmt.Errorf("%w: %s", ErrTakenOver, row)}
			}
			g.version = *row
		}
	}
	pause := c.opt.Backoff.Min
	for {
		from := g.version
		to := store.Version{Fence: from.Fence, Beat: from.Beat + 1, Attempt: c.newID(), TTL: from.TTL}
		o := &operation{
			c:       c,
			op:      Op{Kind: Release, Resource: r.name, Holder: g.holder, From: &from, To: to},
			timeout: timeout,
		}
		if !o.run(c.base) {
			o.giveUp(context.Cause(c.base))
		}
		now := c.clock.Now()
		switch {
		case o.outcome == store.OK:
			r.learn(&to, now, own)
			return nil
		case o.row != nil:
			r.learn(o.row, now, conditional)
			if o.outcome == store.Fail && g.owns(o.row) && o.row.Beat > from.Beat {
				g.version = *o.row // a renewal was applied late
				continue
			}
			if o.outcome == store.Fail {
				return &LostError{Resource: r.name, Token: from.Fence, Reason: fmt.Errorf("%w: %s", ErrTakenOver, o.row)}
			}
		case o.outcome == store.Fail && !o.final && c.base.Err() == nil && now < g.anchor+2*g.version.TTL:
			// Every node refused. While the row blocks others, try again.
			_ = c.clock.Sleep(c.base, c.jitter(pause))
			pause = min(2*pause, c.opt.Backoff.Max)
			continue
		}
		return &store.Error{Op: "release " + r.name, Outcome: o.outcome, Permanent: o.final, Cause: o.err}
	}
}
