package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"

	"fencepost/core/job"
	"fencepost/core/store"
)

// spread is what a process knows of its queues and their shards, of which there may be more at any
// time, never fewer.
type spread struct {
	mu sync.RWMutex
	// queues are in the order in which this process has heard of them. First is 0 until
	// the store has been asked.
	queues []store.Queue
	shards map[store.ShardID]*shard
	order  []*shard
	// start lets a shard be contended for; nil unless the engine runs.
	start func(*shard)
}

// ShardsError is a queue that never had so many shards.
type ShardsError struct {
	Queue        string
	Stored, Used int
}

func (e *ShardsError) Error() string {
	s := fmt.Sprintf("engine: queue %q has %d shards and cannot be used with %d: jobs would not be found; set the number to %d, or use a new queue", e.Queue, e.Stored, e.Used, e.Stored)
	if e.Used > e.Stored {
		s += "; to have more, raise the number of the one that is there: Scheduler.PutQueue, or PUT /api/v1/queues/" + e.Queue
	}
	return s
}

// fits reports a queue that never had as many shards as this process is configured with. It may have more by now,
// and the configuration may say the number of today, or the one at first.
func fits(q store.Queue, used int) error {
	switch {
	case used < q.First:
		return &ShardsError{Queue: q.Name, Stored: q.First, Used: used}
	case used > q.Shards:
		return &ShardsError{Queue: q.Name, Stored: q.Shards, Used: used}
	}
	return nil
}

// Queue tells how many shards a queue has: as this process knows, which another one may have raised
// within the last third of a ttl. The store is asked the first time. The error is a
// *job.InvalidError if it is none of this engine's, a *ShardsError, or the store's.
func (e *Engine) Queue(ctx context.Context, name string) (store.Queue, error) {
	if q, ok := e.known(name); ok {
		return q, nil
	}
	shards, ok := e.o.shardsOf(name)
	if !ok {
		var err error
		if e.o.AllQueues {
			err = e.Refresh(ctx)
		}
		q, ok := e.known(name)
		if !ok && err == nil {
			err = notServed(name)
		}
		return q, err
	}
	q, err := e.stored(ctx, name)
	if err == nil && q.Shards == 0 {
		q, err = e.create(ctx, name, shards)
	}
	if err == nil {
		err = fits(q, shards)
	}
	if err != nil {
		return store.Queue{}, err
	}
	e.learn(q)
	return q, nil
}

// stored is a queue as the store has it; without shards if it does not. It costs one read, however many
// shards there are.
func (e *Engine) stored(ctx context.Context, name string) (store.Queue, error) {
	all, err := e.readQueues(ctx)
	q, _ := store.QueueNamed(all, name)
	return q, err
}

func (e *Engine) readQueues(ctx context.Context) ([]store.Queue, error) {
	rctx, stop := e.timeout(ctx, e.o.RequestTimeout)
	defer stop()
	return e.store.Queues(rctx)
}

// create creates a queue with its headers, or those of them that are missing.
func (e *Engine) create(ctx context.Context, name string, shards int) (store.Queue, error) {
	rctx, stop := e.timeout(ctx, e.o.TTL) // of all shards together
	defer stop()
	return e.store.EnsureQueue(rctx, name, shards)
}

// Queues returns the queues that this engine serves, those of its options first. A queue's First is 0
// until it is known from the store; the other number is that of the options then.
func (e *Engine) Queues() []store.Queue {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return slices.Clone(e.queues)
}

func (e *Engine) known(name string) (store.Queue, bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	q, _ := store.QueueNamed(e.queues, name)
	return q, q.First > 0
}

// first is the first number of shards of a queue that is known.
func (e *Engine) first(queue string) int {
	q, _ := e.known(queue)
	return q.First
}

// Refresh asks the store how many shards the queues have, and contends for those that are new to this process,
// as it does by itself every third of the ttl.
func (e *Engine) Refresh(ctx context.Context) error {
	all, err := e.readQueues(ctx)
	if err != nil {
		return err
	}
	for _, q := range all {
		_, known := e.known(q.Name)
		if _, own := e.o.shardsOf(q.Name); known || e.o.AllQueues && !own {
			e.learn(q)
		}
	}
	return nil
}

// follow refreshes until ctx ends.
func (e *Engine) follow(ctx context.Context) {
	for e.o.Clock.Sleep(ctx, e.o.TTL/3) == nil {
		if err := e.Refresh(ctx); err != nil && ctx.Err() == nil {
			e.o.Logger.Warn("cannot see whether queues have more shards", "error", err)
		}
	}
}

// learn takes note of a queue as the store has it. An older answer changes nothing.
func (e *Engine) learn(q store.Queue) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := slices.IndexFunc(e.queues, func(k store.Queue) bool { return k.Name == q.Name })
	switch {
	case at < 0:
		e.queues = append(e.queues, q)
	case e.queues[at].First == 0:
		e.queues[at] = q
	case q.Shards > e.queues[at].Shards:
		e.o.Logger.Info("a queue has more shards", "queue", q.Name, "before", e.queues[at].Shards, "now", q.Shards)
		e.queues[at] = q
	}
	for n := range q.Shards {
		if id := (store.ShardID{Queue: q.Name, Shard: n}); e.shards[id] == nil {
			e.add(id, e.o.randOf(id))
		}
	}
}

// add lets a shard be this process's business.
func (e *Engine) add(id store.ShardID, rnd *rand.Rand) {
	s := &shard{e: e, id: id, turn: make(chan struct{}, 1), glance: make(chan struct{}, 1), rnd: rnd}
	e.shards[id] = s
	e.order = append(e.order, s)
	if e.start != nil {
		e.start(s)
	}
}

// randOf is the chance of a shard that there was not from the beginning: another in each process.
func (o Options) randOf(id store.ShardID) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %s", o.Name, id)
	return rand.New(rand.NewPCG(h.Sum64(), 0))
}

// all are the shards there are so far.
func (e *Engine) all() []*shard {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.order[:len(e.order):len(e.order)]
}

// shard is nil if there is no such one, as far as this process knows.
func (e *Engine) shard(id store.ShardID) *shard {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.shards[id]
}

// Place is the shard of a job, or of a schedule, by its id. The error is as of Queue, or a *job.InvalidError
// of the id.
func (e *Engine) Place(ctx context.Context, queue string, id job.ID) (store.ShardID, error) {
	q, err := e.Queue(ctx, queue)
	if err == nil {
		err = id.Check(q.First)
	}
	if err == nil {
		_, err = e.shardOf(ctx, queue, id)
	}
	return place(queue, id), err
}

// place is the shard of a job whose id has been checked against its queue.
func place(queue string, id job.ID) store.ShardID {
	n, _ := id.Shard()
	return store.ShardID{Queue: queue, Shard: n}
}

// Serves reports whether a queue may be one of this engine's, as far as one can tell without the store.
func (e *Engine) Serves(queue string) bool {
	_, own := e.o.shardsOf(queue)
	return own || e.o.AllQueues
}

// shardsOf is how many shards the options give a queue; ok: they name it.
func (o Options) shardsOf(queue string) (n int, ok bool) {
	at := slices.IndexFunc(o.Queues, func(q Queue) bool { return q.Name == queue })
	if at < 0 {
		return 0, false
	}
	return o.Queues[at].Shards, true
}

// notServed is the error of a queue that is none of this engine's.
func notServed(queue string) error {
	return &job.InvalidError{Field: "queue", Reason: fmt.Sprintf("%q is not one of this engine's", queue)}
}

// find is a shard, nil if there is none. One that this process does not know may be new.
func (e *Engine) find(ctx context.Context, id store.ShardID) (*shard, error) {
	if s := e.shard(id); s != nil {
		return s, nil
	}
	ask := e.Refresh
	if _, known := e.known(id.Queue); !known {
		ask = func(ctx context.Context) error { _, err := e.Queue(ctx, id.Queue); return err }
	}
	if err := ask(ctx); err != nil {
		return nil, err
	}
	return e.shard(id), nil
}

// shardOf is the shard of a job whose id has been checked against its queue. The error is a
// *job.InvalidError, or the store's.
func (e *Engine) shardOf(ctx context.Context, queue string, id job.ID) (*shard, error) {
	at := place(queue, id)
	if s, err := e.find(ctx, at); s != nil || err != nil {
		return s, err
	}
	q, _ := e.known(queue)
	return nil, &job.InvalidError{Field: "id", Reason: fmt.Sprintf("%q names shard %d of %d", id, at.Shard, q.Shards)}
}

// notRead is the caller's error for an intent about a queue or a shard that could not be read.
func (i *intent) notRead(err error) error {
	if errors.As(err, new(*job.InvalidError)) {
		return err
	}
	return i.failed(store.Fail, err)
}
