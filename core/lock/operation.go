package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fencepost/core/clock"
	"fencepost/core/store"
)

// maxRefusals is how many nodes may refuse a request, certainly without having
// begun it, before an acquire or release counts as failed.
const maxRefusals = 3

// operation is one compare-and-set with all its copies, which are identical. It
// is used by one goroutine at a time, and can be resumed: run again with another
// context sends further copies of the same request.
type operation struct {
	c       *Client
	op      Op
	timeout time.Duration // of one copy
	// until, if not zero, is the instant from which on no copy is sent.
	until time.Duration

	span Span
	// anchor is the clock before the first copy was sent: no effect of this
	// operation is older.
	anchor    time.Duration
	copies    int // copies sent
	uncertain int // of them, those that may have been applied or may yet be
	refusals  int // of them, those that certainly were not and never will be
	permanent store.Refusals
	final     bool // refused for good
	// unanswered: a copy was sent that no coordinator has answered.
	unanswered  bool
	lastTimeout bool
	lastErr     error

	ended   bool
	outcome store.Outcome
	row     *store.Version // that came back with a rejection
	err     error
}

// run sends copies until the outcome is settled and reports true, or returns
// false when ctx or the permitted time ends first.
func (o *operation) run(ctx context.Context) bool {
	pause := o.c.opt.Backoff.Min
	for !o.ended {
		if overdue := o.overdue(); overdue || ctx.Err() != nil {
			if o.uncertain == 0 && (overdue || o.copies == 0 || o.op.Kind != Renew) {
				o.end(store.Fail, nil, notSent(ctx, o.lastErr))
				break
			}
			return false
		}
		start := o.c.clock.Now()
		o.send(ctx)
		if o.ended {
			break
		}
		// A copy that waited for its full time is followed at once by the
		// next; a quick error is given a moment.
		if spent := o.c.clock.Now() - start; spent < o.timeout {
			_ = o.c.clock.Sleep(ctx, min(o.c.jitter(pause), o.timeout-spent))
			pause = min(2*pause, o.c.opt.Backoff.Max)
		}
	}
	return true
}

func (o *operation) overdue() bool { return o.until != 0 && o.c.clock.Now() >= o.until }

// send sends one copy and reads its answer.
func (o *operation) send(ctx context.Context) {
	if o.span == nil {
		o.span = o.c.obs.Begin(o.op)
		// After Begin, which may take its time, and before the first Sending.
		o.anchor = o.c.clock.Now()
	}
	reqCtx, cancel := o.c.withTimeout(ctx, o.timeout)
	defer cancel()
	no := o.copies
	o.copies++
	o.span.Sending(no)
	res, err := o.c.store.CAS(reqCtx, o.op.Resource, o.op.From, o.op.To, no)
	switch {
	case err == nil && res.Applied:
		o.end(store.OK, nil, nil)
	case err == nil:
		outcome := settle(o.op.Kind, o.op.From, o.op.To, res.Row, o.uncertain)
		var why error
		if outcome == store.Unknown {
			why = fmt.Errorf("refused after %d earlier copies without an answer; the row is %s, which does not tell whether one of them was applied", o.uncertain, res.Row)
		}
		o.end(outcome, res.Row, why)
	case store.OutcomeOf(err) == store.Fail:
		o.refusals++
		o.lastTimeout, o.lastErr = false, err
		o.final = o.permanent.Final(err)
		switch {
		case o.op.Kind == Renew:
			// A renewal has its deadline as limit. Were it ended here, the next one
			// would be the same change of the same version: a history could not
			// tell the failed one from the one that was applied.
			if o.permanent == 1 {
				o.c.log.Warn("renewal refused", "resource", o.op.Resource, "holder", o.op.Holder, "token", o.op.To.Fence, "error", err)
			}
		case o.uncertain == 0 && o.refusals >= maxRefusals:
			o.end(store.Fail, nil, err)
		case o.final:
			o.end(store.Unknown, nil, err) // no copy will ever tell of the earlier ones
		}
	default:
		o.uncertain++
		o.permanent = 0
		o.lastTimeout = store.IsServerTimeout(err)
		o.unanswered = o.unanswered || !o.lastTimeout
		o.lastErr = err
	}
}

// giveUp ends an operation that has not ended and will not be run again.
func (o *operation) giveUp(why error) {
	outcome := store.Unknown
	if o.uncertain == 0 {
		outcome = store.Fail
	}
	o.end(outcome, nil, errors.Join(why, o.lastErr))
}

func (o *operation) end(outcome store.Outcome, row *store.Version, err error) {
	o.ended, o.outcome, o.row, o.err = true, outcome, row, err
	if o.span == nil {
		return // nothing was ever sent
	}
	o.span.End(Result{
		Outcome:       outcome,
		Row:           row,
		Err:           err,
		ServerTimeout: outcome == store.Unknown && row == nil && o.lastTimeout && !o.unanswered,
	})
}

func notSent(ctx context.Context, last error) error {
	cause := context.Cause(ctx)
	if cause == nil {
		cause = ErrDeadline
	}
	return errors.Join(cause, last)
}

// readSerial is an observed SERIAL read. Its answer can confirm what an
// unsettled operation did and never refute it: a copy may still be on its way.
func (c *Client) readSerial(ctx context.Context, resource, holder string, timeout time.Duration) (*store.Version, error) {
	span := c.obs.Begin(Op{Kind: Read, Resource: resource, Holder: holder})
	ctx, cancel := c.withTimeout(ctx, timeout)
	defer cancel()
	span.Sending(0)
	row, err := c.store.Read(ctx, resource, true)
	span.End(Result{Outcome: store.OutcomeOf(err), Row: row, Err: err, ServerTimeout: store.IsServerTimeout(err)})
	return row, err
}

// withTimeout is context.WithTimeout by the client's clock.
func (c *Client) withTimeout(ctx context.Context, d time.Duration) (context.Context, func()) {
	return clock.WithTimeout(ctx, c.clock, d, errRequestTimeout)
}

// errRequestTimeout is the cause of a request's end at its own time limit. It is
// a context.DeadlineExceeded to the store, which so knows that the node, not the
// caller, was at fault.
var errRequestTimeout = fmt.Errorf("no answer within the request timeout: %w", context.DeadlineExceeded)

// settle reads the answer "not applied" to the last copy of a compare-and-set
// of from to to: row is what was there instead, earlier says how many earlier
// copies ended without certainty and may have been applied.
//
// Without such a copy the answer is plain: fail. With one, the row may have been
// changed by that copy and then by others, and "the row is not what I set" proves
// nothing. What remains certain rests on three facts: an attempt id is used by
// one operation only; a fence f+1 is granted by one compare-and-set only, and
// only that grant's own holder changes the row until f+2; a version, once left,
// never returns.
func settle(kind OpKind, from *store.Version, to store.Version, row *store.Version, earlier int) store.Outcome {
	if earlier == 0 {
		return store.Fail
	}
	if row == nil {
		return store.Unknown // rows are never deleted: this store has lost one
	}
	switch kind {
	case Acquire:
		return settleAcquire(from, to, row)
	case Renew:
		// The attempt alone would not do: the row carries it before the
		// renewal too.
		if *row == to {
			return store.OK
		}
	case Release:
		if row.Attempt == to.Attempt {
			return store.OK
		}
	}
	return store.Unknown
}

func settleAcquire(from *store.Version, to store.Version, row *store.Version) store.Outcome {
	base := int64(0)
	if from != nil {
		base = from.Fence
	}
	switch {
	case row.Attempt == to.Attempt:
		return store.OK
	case store.Same(row, from):
		return store.Unknown // rejected though the row is what was named: nothing may be concluded
	case row.Fence == base && base > 0:
		return store.Fail // the beat moved on: the named version is gone for good
	case row.Fence == base+1:
		return store.Fail // another attempt made the grant of this fence
	}
	return store.Unknown // two grants on: the first may have been this one
}
