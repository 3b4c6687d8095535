package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"fencepost/core/clock"
	"fencepost/core/job"
	"fencepost/core/store"
)

// Engine owns shards of queues, as many as fall to it.
type Engine struct {
	o     Options
	store store.Shards
	spread
	wg sync.WaitGroup
	// bytes is what the bodies of jobs take that are in memory.
	bytes atomic.Int64
	slots slots
	// forbidden: somebody was told that the store refuses everything.
	forbidden atomic.Bool
}

// New makes an engine; Run starts it.
func New(s store.Shards, o Options) (*Engine, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{o: o, store: s, spread: spread{shards: map[store.ShardID]*shard{}}}
	for _, q := range o.Queues {
		e.queues = append(e.queues, store.Queue{Name: q.Name, Shards: q.Shards})
		for i := range q.Shards {
			e.add(store.ShardID{Queue: q.Name, Shard: i}, rand.New(rand.NewPCG(o.Rand.Uint64(), o.Rand.Uint64())))
		}
	}
	return e, nil
}

// Run owns and contends for shards until ctx ends; then it lets runs end, hands its
// shards over, and returns nil. It creates the queues that do not exist; the error is a
// *ShardsError, or the store's if that refuses them for good.
func (e *Engine) Run(ctx context.Context) error {
	for _, q := range e.o.Queues {
		if err := e.ensure(ctx, q.Name); err != nil {
			return err
		}
	}
	var shards sync.WaitGroup
	e.mu.Lock()
	e.start = func(s *shard) { shards.Go(func() { s.run(ctx) }) }
	for _, s := range e.order {
		e.start(s)
	}
	e.mu.Unlock()
	e.follow(ctx)
	e.mu.Lock()
	e.start = nil
	e.mu.Unlock()
	shards.Wait()
	e.wg.Wait()
	return nil
}

// ensure waits until a queue is known from the store.
func (e *Engine) ensure(ctx context.Context, queue string) error {
	var refused store.Refusals
	for {
		_, err := e.Queue(ctx, queue)
		switch {
		case refused.Final(err):
			return fmt.Errorf("engine: creating queue %q: %w", queue, err)
		case err == nil, errors.As(err, new(*ShardsError)):
			return err
		}
		e.o.Logger.Warn("cannot create queue yet", "queue", queue, "error", err)
		if e.o.Clock.Sleep(ctx, e.o.TTL/8) != nil {
			return fmt.Errorf("engine: creating queue %q: %w", queue, err)
		}
	}
}

// timeout bounds a request by the engine's own clock.
func (e *Engine) timeout(ctx context.Context, d time.Duration) (context.Context, func()) {
	return clock.WithTimeout(ctx, e.o.Clock, d, errRequestTimeout)
}

func (e *Engine) step(s Step) {
	if e.o.Observer != nil {
		e.o.Observer.Step(s)
	}
}

func (e *Engine) begin(op Op) Span {
	if e.o.Observer == nil {
		return noSpan{}
	}
	return e.o.Observer.Begin(op)
}

// Receipt is the acknowledgement of an enqueue.
type Receipt struct {
	ID job.ID
	// Duplicate: the job existed before, in whatever state.
	Duplicate bool
	// Inbox: it waits in the shard's inbox for an owner to copy it.
	Inbox bool
}

// ack is what a waiter is told.
type ack struct {
	duplicate bool
	err       error
}

// Enqueue puts a job into its shard, which this process must own, else the error
// is ErrNotOwner and Submit or an Inbox is the way. It returns when the tick that carries
// the job is settled. If ctx ends before that, the outcome is unknown only if a tick
// has taken the job. The error is an *EnqueueError, or a *job.InvalidError.
func (e *Engine) Enqueue(ctx context.Context, j job.Job) (Receipt, error) {
	return e.Line(ctx, j)(ctx)
}

// Line has a job wait for a tick as Enqueue does, and returns at once; what it returns waits for that
// tick, and must be called once. So several jobs can wait together, in this order.
func (e *Engine) Line(ctx context.Context, j job.Job) (await func(context.Context) (Receipt, error)) {
	fail := func(err error) func(context.Context) (Receipt, error) {
		return func(context.Context) (Receipt, error) { return Receipt{}, err }
	}
	j = j.WithDefaults()
	i := &intent{kind: doEnqueue, e: &entry{job: j}, wait: newWaiter()}
	if !e.Serves(j.Queue) {
		return fail(notServed(j.Queue))
	}
	q, ok := e.known(j.Queue)
	if !ok { // so it owns no shard of it
		return fail(i.failed(store.Fail, ErrNotOwner))
	}
	var err error
	if i.e.body, err = encode(j, q.First, e.o.MaxBytes); err != nil {
		return fail(err)
	}
	if ctx.Err() != nil { // or it would be chance whether a tick still takes it
		return fail(i.failed(store.Fail, context.Cause(ctx)))
	}
	s := e.shard(place(j.Queue, j.ID))
	if s == nil { // as it has not heard of it
		return fail(i.failed(store.Fail, ErrNotOwner))
	}
	o := s.current()
	if o == nil || !o.valid() {
		return fail(i.failed(store.Fail, ErrNotOwner))
	}
	if err := o.enqueue(i); err != nil {
		err = i.failed(store.Fail, err)
		e.refusedBy(o, err)
		return fail(err)
	}
	return func(ctx context.Context) (Receipt, error) {
		a := o.await(ctx, i)
		if a.err != nil {
			e.refusedBy(o, a.err)
			return Receipt{}, a.err
		}
		return Receipt{ID: j.ID, Duplicate: a.duplicate}, nil
	}
}

// refusedBy tells of an enqueue that an owner has refused, if it has.
func (e *Engine) refusedBy(o *owner, err error) {
	if _, busy := RetryAfter(err); busy {
		e.o.Refused(o.id, err)
	}
}

// Owns reports whether this process owns the shard and trusts that.
func (e *Engine) Owns(id store.ShardID) bool {
	s := e.shard(id)
	if s == nil {
		return false
	}
	o := s.current()
	return o != nil && o.valid()
}
