package engine

import (
	"context"
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
	o      Options
	store  store.Shards
	queues map[string]int
	shards map[store.ShardID]*shard
	order  []*shard
	wg     sync.WaitGroup
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
	e := &Engine{o: o, store: s, queues: map[string]int{}, shards: map[store.ShardID]*shard{}}
	for _, q := range o.Queues {
		e.queues[q.Name] = q.Shards
		for i := range q.Shards {
			id := store.ShardID{Queue: q.Name, Shard: i}
			e.shards[id] = &shard{e: e, id: id, turn: make(chan struct{}, 1), glance: make(chan struct{}, 1), rnd: rand.New(rand.NewPCG(o.Rand.Uint64(), o.Rand.Uint64()))}
			e.order = append(e.order, e.shards[id])
		}
	}
	return e, nil
}

// ShardsError is a queue that was created with another number of shards.
type ShardsError struct {
	Queue        string
	Stored, Used int
}

func (e *ShardsError) Error() string {
	return fmt.Sprintf("engine: queue %q has %d shards and cannot be used with %d: jobs would not be found; set the number to %d, or use a new queue", e.Queue, e.Stored, e.Used, e.Stored)
}

// Run owns and contends for shards until ctx ends; then it lets runs end, hands its
// shards over, and returns nil. It creates the queues that do not exist; the error is a
// *ShardsError, or the store's if that refuses them for good.
func (e *Engine) Run(ctx context.Context) error {
	for _, q := range e.o.Queues {
		if err := e.ensure(ctx, q); err != nil {
			return err
		}
	}
	var shards sync.WaitGroup
	for _, s := range e.order {
		shards.Go(func() { s.run(ctx) })
	}
	shards.Wait()
	e.wg.Wait()
	return nil
}

func (e *Engine) ensure(ctx context.Context, q Queue) error {
	var refused store.Refusals
	for {
		rctx, stop := e.timeout(ctx, e.o.RequestTimeout)
		n, err := e.store.EnsureQueue(rctx, q.Name, q.Shards)
		stop()
		switch {
		case refused.Final(err):
			return fmt.Errorf("engine: creating queue %q: %w", q.Name, err)
		case err == nil && n != q.Shards:
			return &ShardsError{Queue: q.Name, Stored: n, Used: q.Shards}
		case err == nil:
			return nil
		}
		e.o.Logger.Warn("cannot create queue yet", "queue", q.Name, "error", err)
		if e.o.Clock.Sleep(ctx, e.o.TTL/8) != nil {
			return fmt.Errorf("engine: creating queue %q: %w", q.Name, err)
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
	shards, ok := e.queues[j.Queue]
	if !ok {
		return fail(&job.InvalidError{Field: "queue", Reason: fmt.Sprintf("%q is not one of this engine's", j.Queue)})
	}
	body, err := encode(j, shards, e.o.MaxBytes)
	if err != nil {
		return fail(err)
	}
	if ctx.Err() != nil { // or it would be chance whether a tick still takes it
		return fail(&EnqueueError{Job: j.ID, Outcome: store.Fail, Cause: context.Cause(ctx)})
	}
	o := e.shardOf(j.Queue, j.ID).current()
	if o == nil || !o.valid() {
		return fail(&EnqueueError{Job: j.ID, Outcome: store.Fail, Cause: ErrNotOwner})
	}
	i := &intent{kind: doEnqueue, e: &entry{job: j, body: body}, wait: newWaiter()}
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

// shardOf is the shard of a job whose id has been checked against its queue.
func (e *Engine) shardOf(queue string, id job.ID) *shard {
	n, _ := id.Shard()
	return e.shards[store.ShardID{Queue: queue, Shard: n}]
}

// Owns reports whether this process owns the shard and trusts that.
func (e *Engine) Owns(id store.ShardID) bool {
	s := e.shards[id]
	if s == nil {
		return false
	}
	o := s.current()
	return o != nil && o.valid()
}
