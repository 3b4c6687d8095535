package lock

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"fencepost/core/store"
)

// Request asks for a lock.
type Request struct {
	// Resource names the lock, Holder who asks, for people and logs: neither
	// may be empty. Holders need not be unique and locks are not re-entrant.
	Resource, Holder string
	// TTL of the lease in whole milliseconds; default: the client's.
	TTL time.Duration
	// Timeout bounds the whole call; 0: only the context does (TryAcquire: TTL).
	Timeout time.Duration
}

// Acquire waits for the lock and returns a lease on it. Callers of one client
// are served in order; processes compete.
//
// An *AcquireError has the reason when it returns none: ErrTimeout, ErrClosed,
// ErrRefused or the context's error. A request that is still on its way then is settled, and
// its grant released, in the background.
func (c *Client) Acquire(ctx context.Context, req Request) (*Lease, error) {
	return c.acquire(ctx, req, false)
}

// TryAcquire takes the lock if it is free, or its holder is known to have let
// its ttl pass, and else fails with ErrHeld. It does not wait behind callers of
// the same client. To take over a dead holder's locks by polling, ask for each at
// least once in 10 of its ttls: what was seen longer ago may be forgotten.
func (c *Client) TryAcquire(ctx context.Context, req Request) (*Lease, error) {
	return c.acquire(ctx, req, true)
}

func (c *Client) acquire(ctx context.Context, req Request, try bool) (*Lease, error) {
	req.TTL = cmp.Or(req.TTL, c.opt.TTL)
	if req.Timeout == 0 && try {
		req.Timeout = req.TTL
	}
	switch {
	case req.Resource == "" || req.Holder == "":
		return nil, fmt.Errorf("lock: resource %q, holder %q: both must be named (an empty holder means free)", req.Resource, req.Holder)
	case req.Timeout < 0:
		return nil, fmt.Errorf("lock: timeout %s is negative", req.Timeout)
	}
	if err := c.opt.checkTTL(req.TTL); err != nil {
		return nil, err
	}
	if err := c.begin(); err != nil {
		return nil, &AcquireError{Resource: req.Resource, Reason: err}
	}
	defer c.done()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if req.Timeout > 0 {
		defer c.clock.AfterFunc(req.Timeout, func() { cancel(ErrTimeout) })()
	}
	defer context.AfterFunc(c.closing, func() { cancel(ErrClosed) })()

	r := c.resource(req.Resource)
	defer c.drop(r)
	a := &acquisition{c: c, r: r, req: req, try: try}
	if try && r.busy() {
		return nil, a.fail(ErrHeld)
	}
	if err := r.enter(ctx); err != nil {
		return nil, a.fail(err)
	}
	defer r.leave()
	return a.contend(ctx)
}

// acquisition is one caller's way to a lock while it has its process's turn.
type acquisition struct {
	c   *Client
	r   *resource
	req Request
	try bool

	poll      time.Duration // next pause while the lock is held
	pollFence int64
	retry     time.Duration // next pause after a failure
	looked    bool          // this call has seen the row itself
	unsettled bool
	refusals  store.Refusals // of reads
	refused   bool
	last      error
}

func (a *acquisition) fail(reason error) error {
	row, _, _ := a.r.look()
	return &AcquireError{Resource: a.req.Resource, Reason: reason, Unsettled: a.unsettled, Row: row, Last: a.last}
}

// contend looks at the row and acts on it until the lock is granted or ctx ends.
func (a *acquisition) contend(ctx context.Context) (*Lease, error) {
	c, r := a.c, a.r
	if err := r.awaitPending(ctx); err != nil {
		return nil, a.fail(err)
	}
	for {
		switch {
		case ctx.Err() != nil:
			return nil, a.fail(context.Cause(ctx))
		case a.refused:
			return nil, a.fail(ErrRefused)
		}
		select {
		case <-r.wake: // no news any more: the look that follows shows it
		default:
		}
		row, since, known := r.look()
		now := c.clock.Now()
		switch {
		case !known:
			a.read(ctx)
			continue
		case r.heldHere() && !row.Free():
			// A lease of this process: no need to ask the store. Its release
			// or loss is announced; its renewals move since.
			if a.try {
				return nil, a.fail(ErrHeld)
			}
			if now-since < row.TTL {
				a.await(ctx, row.TTL-(now-since))
				continue
			}
		case row.Free():
			if a.try || row == nil {
				break // row == nil: never held by anyone
			}
			if d, ok := r.standBack(now, row.TTL, c.opt.Backoff); ok {
				_ = c.clock.Sleep(ctx, d+c.jitter(c.opt.Backoff.Min))
				a.read(ctx)
				continue
			}
		case now-since < row.TTL:
			if a.try {
				if a.looked {
					return nil, a.fail(ErrHeld)
				}
				a.read(ctx) // what is remembered may be long past
				continue
			}
			if a.await(ctx, min(a.pollPause(row), row.TTL-(now-since))) {
				a.read(ctx)
			}
			continue
		}
		if l := a.attempt(ctx, row); l != nil {
			return l, nil
		}
	}
}

// await pauses until there is news or d has passed, which it reports.
func (a *acquisition) await(ctx context.Context, d time.Duration) (passed bool) {
	timer := make(chan struct{})
	defer a.c.clock.AfterFunc(d, func() { close(timer) })()
	select {
	case <-timer:
		return true
	case <-a.r.wake:
	case <-ctx.Done():
	}
	return false
}

// pollPause is the pause before the next look at a row that another holds:
// 50 ms, doubling up to pollLimit. It starts over with each new fence: a lock that changes hands quickly is looked at
// often, one that is held for long is not.
func (a *acquisition) pollPause(row *store.Version) time.Duration {
	if a.poll == 0 || row.Fence != a.pollFence {
		a.poll, a.pollFence = a.c.opt.Backoff.Min, row.Fence
	}
	d := a.c.jitter(a.poll)
	a.poll = min(2*a.poll, a.c.opt.Backoff.Max)
	return min(d, pollLimit(row.TTL, a.c.opt.Backoff))
}

// read looks at the row by a plain read. A failure only delays: the row as
// known still counts, and the compare-and-set decides.
func (a *acquisition) read(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	reqCtx, cancel := a.c.withTimeout(ctx, a.c.requestTimeout(a.req.TTL))
	defer cancel()
	row, err := a.c.store.Read(reqCtx, a.req.Resource, false)
	if err != nil {
		if ctx.Err() == nil {
			a.last, a.refused = err, a.refusals.Final(err)
			a.pause(ctx)
		}
		return
	}
	// The row stands still from the return of the look on, not from its start.
	a.r.learn(row, a.c.clock.Now(), plainRead)
	a.looked, a.retry, a.refusals = true, 0, 0
}

// pause waits after a failure: 50 ms doubling to 2 s.
func (a *acquisition) pause(ctx context.Context) {
	a.retry = cmp.Or(a.retry, a.c.opt.Backoff.Min)
	_ = a.c.clock.Sleep(ctx, a.c.jitter(a.retry))
	a.retry = min(2*a.retry, a.c.opt.Backoff.Max)
}

// Who owns the result of an attempt.
const (
	attemptOpen int32 = iota
	attemptFinished
	attemptAbandoned
)

// attempt tries to move the row from the version seen to a grant of the
// caller's. It returns nil if that did not work out, for whatever reason.
func (a *acquisition) attempt(ctx context.Context, from *store.Version) *Lease {
	c := a.c
	to := store.Version{Fence: 1, Attempt: c.newID(), Holder: a.req.Holder, TTL: a.req.TTL}
	if from != nil {
		to.Fence = from.Fence + 1
	}
	o := &operation{
		c:       c,
		timeout: c.requestTimeout(a.req.TTL),
		op: Op{Kind: Acquire, Resource: a.req.Resource, Holder: a.req.Holder,
			From: from, To: to, Takeover: !from.Free()},
	}
	// The request outlives its caller: once sent, it must be settled.
	c.fork()
	c.hold(a.r)
	var state atomic.Int32
	var settled func() // set before state says abandoned
	finished := make(chan struct{})
	go func() {
		defer c.done()
		defer c.drop(a.r)
		if !o.run(c.base) {
			o.giveUp(context.Cause(c.base))
		}
		a.note(o)
		if state.CompareAndSwap(attemptOpen, attemptFinished) {
			close(finished)
			return
		}
		defer settled()
		if o.outcome == store.OK {
			c.handBack(a.r, grant{holder: a.req.Holder, version: to, anchor: o.anchor})
		}
	}()
	select {
	case <-finished:
	case <-ctx.Done():
		settled = a.r.setPending()
		if state.CompareAndSwap(attemptOpen, attemptAbandoned) {
			a.unsettled = true
			return nil
		}
		settled() // it finished at the same time
	}
	return a.outcome(ctx, o)
}

// note keeps what the end of an attempt shows of the row.
func (a *acquisition) note(o *operation) {
	now := a.c.clock.Now()
	switch {
	case o.outcome == store.OK:
		to := o.op.To
		a.r.learn(&to, now, own)
	case o.row != nil:
		a.r.learn(o.row, now, conditional)
	}
}

// outcome turns a settled attempt into a lease.
func (a *acquisition) outcome(ctx context.Context, o *operation) *Lease {
	a.looked = a.looked || o.row != nil
	if o.outcome != store.OK {
		a.refused = o.final
		if o.err != nil && ctx.Err() == nil {
			a.last = o.err
		}
		if o.row == nil {
			a.pause(ctx)
		}
		return nil
	}
	a.retry = 0
	g := grant{holder: a.req.Holder, version: o.op.To, anchor: o.anchor}
	if l := a.c.newLease(ctx, a.r, g); l != nil {
		return l
	}
	// Known too late: nobody was ever entitled by it.
	lost := &LostError{Resource: a.req.Resource, Token: g.version.Fence, Reason: ErrLateGrant}
	a.last = lost
	a.c.obs.LeaseLost(a.req.Resource, a.req.Holder, g.version.Fence, lost)
	a.c.fork() // cannot fail: this call is counted work itself
	settled := a.r.setPending()
	go func() {
		defer a.c.done()
		defer settled()
		a.c.handBack(a.r, g)
	}()
	a.unsettled = a.r.awaitPending(ctx) != nil
	return nil
}
