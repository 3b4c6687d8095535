package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"fencepost/core/store"
)

var _ store.Locks = (*Session)(nil)

// Causes of the errors that a Session returns.
var (
	ErrCrashed = errors.New("sim: the process has crashed")
	ErrRefused = errors.New("sim: refused, not begun")
	ErrTimeout = errors.New("sim: the coordinator timed out")
)

// fate is what the network does to one request.
type fate struct {
	request, reply    time.Duration
	arrives, answered bool
	execute           bool
	refuse, timeout   bool
	stale             bool
}

// draw decides a request's fate by the session's stream.
func (p *Session) draw() fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults.draw(p.rnd, p.cut)
}

// draw decides a request's fate. The number of draws is the same for every
// request, so that the stream does not depend on the faults in force.
func (f Faults) draw(r *rand.Rand, cut bool) fate {
	way := func() time.Duration {
		d := time.Duration(float64(f.Latency) * (0.5 + r.Float64()))
		return d + time.Duration(1+r.Int64N(1000))
	}
	out := fate{request: way(), reply: way(), arrives: true, answered: true, execute: true}
	what, half, late, stale := r.Float64(), r.Float64(), r.Float64(), r.Float64()
	out.stale = stale < f.StaleRead
	switch {
	case cut || what < f.LoseRequest:
		out.arrives, out.answered = false, false
	case what < f.LoseRequest+f.LoseReply:
		out.answered = false
	case what < f.LoseRequest+f.LoseReply+f.Late:
		out.answered = false
		out.request += time.Duration(late * float64(f.LateBy))
	case what < f.LoseRequest+f.LoseReply+f.Late+f.Refuse:
		out.refuse, out.execute = true, false
	case what < f.LoseRequest+f.LoseReply+f.Late+f.Refuse+f.ServerTimeout:
		out.timeout, out.execute = true, half < 0.5
	}
	return out
}

// call runs a request through the network. execute runs at the store, whatever
// has become of the caller.
func (p *Session) call(ctx context.Context, op string, f fate, execute func()) error {
	select {
	case <-p.crashed:
		return &store.Error{Op: op, Outcome: store.Fail, Cause: ErrCrashed}
	default:
	}
	if ctx.Err() != nil {
		return &store.Error{Op: op, Outcome: store.Fail, Cause: context.Cause(ctx)}
	}
	begun, answer := time.Now(), make(chan struct{})
	var leaving *time.Timer
	if f.arrives {
		leaving = time.AfterFunc(f.request, func() {
			if f.execute {
				execute()
			}
			if f.answered {
				time.AfterFunc(f.reply, func() { close(answer) })
			}
		})
	}
	select {
	case <-answer:
		switch {
		case f.refuse:
			return &store.Error{Op: op, Outcome: store.Fail, Cause: ErrRefused}
		case f.timeout:
			return &store.Error{Op: op, Outcome: store.Unknown, ServerTimeout: true, Cause: ErrTimeout}
		}
		return nil
	case <-p.crashed:
		return givenUp(op, begun, leaving, ErrCrashed)
	case <-ctx.Done():
		return givenUp(op, begun, leaving, context.Cause(ctx))
	}
}

// givenUp is the error of a request whose caller waits no more. One that was given up
// at the instant at which it was sent has not left: which of the two came first is for
// the scheduler to say, and would not replay.
func givenUp(op string, begun time.Time, leaving *time.Timer, cause error) error {
	outcome := store.Unknown
	if time.Now().Equal(begun) {
		outcome = store.Fail
		if leaving != nil {
			leaving.Stop()
		}
	}
	return &store.Error{Op: op, Outcome: outcome, Cause: cause}
}

// Read implements store.Locks.
func (p *Session) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	f := p.draw()
	var row *store.Version
	err := p.call(ctx, "read "+resource, f, func() { row = p.store.read(resource, f.stale && !serial) })
	if err != nil {
		return nil, err
	}
	return row, nil
}

// CAS implements store.Locks. Every copy takes its chances alone.
func (p *Session) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	f := p.draw()
	from = clone(from)
	var res store.CASResult
	err := p.call(ctx, "cas "+resource, f, func() { res = p.store.cas(p.name, resource, from, to) })
	if err != nil {
		return store.CASResult{}, err
	}
	return res, nil
}
