package sim

import (
	"context"
	"errors"
	"fmt"
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
	lag               int           // changes that a stale read at One does not show
	again             time.Duration // after which a second copy arrives; 0: none does
}

// draw decides a request's fate by the session's streams.
func (p *Session) draw() fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults.draw(p.rnd, p.more, p.cut)
}

// draw decides a request's fate. The number of draws is the same for every
// request, so that the streams do not depend on the faults in force.
func (f Faults) draw(r, more *rand.Rand, cut bool) fate {
	way := func() time.Duration {
		d := time.Duration(float64(f.Latency) * (0.5 + r.Float64()))
		return d + time.Duration(1+r.Int64N(1000))
	}
	out := fate{request: way(), reply: way(), arrives: true, answered: true, execute: true}
	what, half, late, stale := r.Float64(), r.Float64(), r.Float64(), r.Float64()
	out.stale = stale < f.StaleRead
	out.lag = 1 + more.IntN(maxLag)
	if twice, after := more.Float64(), more.Float64(); twice < f.Twice {
		out.again = 1 + time.Duration(after*float64(f.LateBy))
	}
	switch {
	case cut || what < f.LoseRequest:
		out.arrives, out.answered = false, false
	case what < f.LoseRequest+f.LoseReply:
		out.answered = false
	case what < f.LoseRequest+f.LoseReply+f.Late:
		out.answered = false
		out.request += time.Duration(late * float64(f.LateBy))
		out.again = 0
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

// ask sends a request through the network. find runs at the store, which it has for itself
// then; an error of find is a refusal. It runs once more for a second copy.
func ask[T any](ctx context.Context, p *Session, op string, f fate, find func() (T, error)) (T, error) {
	var got, none T
	var refused error
	err := p.call(ctx, op, f, func() {
		p.store.mu.Lock()
		defer p.store.mu.Unlock()
		got, refused = find()
		if f.again > 0 && refused == nil { // who was told that nothing is done can rely on it
			time.AfterFunc(f.again, func() {
				p.store.mu.Lock()
				defer p.store.mu.Unlock()
				p.store.met["doubled"]++
				_, _ = find()
			})
		}
	})
	switch {
	case err != nil:
		return none, err
	case refused != nil:
		return none, &store.Error{Op: op, Outcome: store.Fail, Cause: refused}
	}
	return got, nil
}

// askNamed is ask for what has its fate by its name, and of a process that may stand still.
func askNamed[T any](ctx context.Context, p *Session, op string, find func(fate) (T, error)) (T, error) {
	p.Hold()
	f := p.fateOf(op)
	got, err := ask(ctx, p, op, f, func() (T, error) { return find(f) })
	p.Hold()
	return got, err
}

// Read implements store.Locks.
func (p *Session) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	p.Hold()
	f := p.draw()
	row, err := ask(ctx, p, "read "+resource, f, func() (*store.Version, error) { return p.store.read(resource, f.stale && !serial), nil })
	p.Hold()
	return row, err
}

// CAS implements store.Locks. Every copy takes its chances alone.
func (p *Session) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	from = clone(from)
	p.Hold()
	res, err := ask(ctx, p, "cas "+resource, p.draw(), func() (store.CASResult, error) { return p.store.cas(p.name, resource, from, to), nil })
	p.Hold()
	return res, err
}

var _ store.Shards = (*Session)(nil)

// ErrInvalid is the cause of the refusal of a request that is too large, and of a batch
// that Store.Refuses.
var ErrInvalid = errors.New("sim: invalid request")

// tooLarge is the error of a request that is larger than a store takes; nil: it is not.
func tooLarge(op string, ops, size int) error {
	if ops > store.MaxOps || size > store.MaxBytes {
		return &store.Error{Op: op, Outcome: store.Fail, Cause: fmt.Errorf("%d operations of %d bytes: %w", ops, size, ErrInvalid)}
	}
	return nil
}

// fateOf decides the fate of a copy of a request by its name and by how often the
// session has sent one of that name. Goroutines that wake at one instant run in no
// fixed order, so one stream for all requests would not replay.
func (p *Session) fateOf(name string) fate {
	p.mu.Lock()
	p.sent[name]++
	n := p.sent[name]
	f, cut := p.faults, p.cut
	p.mu.Unlock()
	r := rand.New(rand.NewPCG(p.seed^hash(p.name), hash(name)+n))
	return f.draw(r, r, cut)
}

// Pause makes the process stand still: what it sends leaves, and what it is
// answered is heard, only after that long.
func (p *Session) Pause(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = time.Now().Add(d)
}

// Hold waits until the process no longer stands still or has crashed.
func (p *Session) Hold() {
	for {
		p.mu.Lock()
		d := time.Until(p.paused)
		p.mu.Unlock()
		if d <= 0 {
			return
		}
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-p.crashed:
			timer.Stop()
			return
		}
	}
}

// Crashed is closed when the process crashes.
func (p *Session) Crashed() <-chan struct{} { return p.crashed }

// Call sends a request named name through the session's network; execute runs
// where it arrives. For tests that have other servers than the store on it.
func (p *Session) Call(ctx context.Context, name string, execute func()) error {
	p.line()
	err := p.call(ctx, name, p.fateOf(name), execute)
	p.line()
	return err
}

// line is Hold. Requests that had to wait go on one after the other, as they came: what they do may
// depend on their order, and has to repeat.
func (p *Session) line() {
	place := p.held.Add(1)
	began := time.Now()
	if p.Hold(); time.Now().After(began) {
		time.Sleep(time.Duration(place))
	}
}

// EnsureQueue implements store.Shards.
func (p *Session) EnsureQueue(ctx context.Context, queue string, shards int) (store.Queue, error) {
	return askNamed(ctx, p, "queue "+queue, func(fate) (store.Queue, error) { return p.store.ensureQueue(queue, shards), nil })
}

// RaiseQueue implements store.Shards.
func (p *Session) RaiseQueue(ctx context.Context, queue string, shards int) (store.Queue, error) {
	return askNamed(ctx, p, "raise "+queue, func(fate) (store.Queue, error) { return p.store.raiseQueue(queue, shards) })
}

// Queues implements store.Shards.
func (p *Session) Queues(ctx context.Context) ([]store.Queue, error) {
	return askNamed(ctx, p, "queues", func(fate) ([]store.Queue, error) { return p.store.allQueues(), nil })
}

// Look implements store.Shards.
func (p *Session) Look(ctx context.Context, s store.ShardID, serial bool) (*store.Header, error) {
	p.Hold()
	name := "look " + s.String()
	f := p.fateOf(name)
	h, err := ask(ctx, p, name, f, func() (*store.Header, error) { return p.store.look(s, serial, f.stale), nil })
	if err == nil {
		p.Hold()
	}
	return h, err
}

// Commit implements store.Shards.
func (p *Session) Commit(ctx context.Context, s store.ShardID, b store.Batch, copyNo int) (store.CommitResult, error) {
	if err := tooLarge("commit", len(b.Ops), b.Bytes()); err != nil {
		return store.CommitResult{}, err
	}
	invalid := p.store.Refuses != nil && p.store.Refuses(b)
	return askNamed(ctx, p, fmt.Sprintf("commit %s %d-%d", s, b.To.Fence, b.To.Tick), func(f fate) (store.CommitResult, error) {
		if invalid {
			return store.CommitResult{}, ErrInvalid
		}
		return p.store.commit(p.name, s, b, f.timeout), nil
	})
}

// Scan implements store.Shards.
func (p *Session) Scan(ctx context.Context, s store.ShardID, r store.Range) ([]store.Row, error) {
	return askNamed(ctx, p, fmt.Sprintf("scan %s %d", s, r.Kind), func(f fate) ([]store.Row, error) {
		return p.store.scan(s, r, p.hides(p.levels.Rows, f))
	})
}

// Count implements store.Shards.
func (p *Session) Count(ctx context.Context, s store.ShardID, r store.Range) (int, error) {
	rows, err := p.Scan(ctx, s, r)
	return len(rows), err
}

// Row implements store.Shards.
func (p *Session) Row(ctx context.Context, s store.ShardID, k store.Key) (*store.Row, error) {
	return askNamed(ctx, p, fmt.Sprintf("row %s %s", s, k), func(f fate) (*store.Row, error) {
		return p.store.row(s, k, p.hides(p.levels.Rows, f)), nil
	})
}

// InboxPut implements store.Shards.
func (p *Session) InboxPut(ctx context.Context, s store.ShardID, r store.InboxRow, _ int) (applied bool, existing string, err error) {
	if err := tooLarge("inbox put", 1, r.Bytes()); err != nil {
		return false, "", err
	}
	old, err := askNamed(ctx, p, "inbox put "+r.ID, func(f fate) (*store.InboxRow, error) { return p.store.inboxPut(s, r, f.timeout) })
	if err != nil || old == nil {
		return err == nil, "", err
	}
	return false, old.Nonce, nil
}

// InboxDelete implements store.Shards.
func (p *Session) InboxDelete(ctx context.Context, s store.ShardID, id, nonce string, _ int) (bool, error) {
	return askNamed(ctx, p, "inbox delete "+id, func(f fate) (bool, error) { return p.store.inboxDelete(s, id, nonce, f.timeout), nil })
}

// InboxRow implements store.Shards.
func (p *Session) InboxRow(ctx context.Context, s store.ShardID, id string) (*store.InboxRow, error) {
	return askNamed(ctx, p, "inbox row "+id, func(f fate) (*store.InboxRow, error) {
		return p.store.inboxRow(s, id, p.hides(p.levels.Inbox, f)), nil
	})
}

// InboxScan implements store.Shards.
func (p *Session) InboxScan(ctx context.Context, s store.ShardID, after, upTo string, limit int) ([]store.InboxRow, error) {
	return askNamed(ctx, p, "inbox scan "+s.String(), func(f fate) ([]store.InboxRow, error) {
		return p.store.inboxScan(s, after, upTo, limit, p.hides(p.levels.Inbox, f))
	})
}
