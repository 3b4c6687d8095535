package query

import (
	"context"
	"math"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
)

// MaxDepth bounds what is counted of one state in one shard.
const MaxDepth = 1000

// Queue is what is known of a queue.
type Queue struct {
	Name string
	// Depth counts the jobs that are pending, running and in the dead letter queue. Those
	// in inboxes are not counted.
	Depth map[job.State]Depth
	// Shards are in order.
	Shards []Shard
}

// Depth is how many jobs there are.
type Depth struct {
	Jobs int
	// More: in some shard there are MaxDepth, and maybe more.
	More bool
}

// Shard is what a shard's header shows.
type Shard struct {
	Shard int
	// Owner is the process that ticks, "" if nobody does; Fence its fencing token, Tick
	// the number of its batches so far, over all owners.
	Owner, Addr string
	Fence, Tick int64
	Pause       store.Pause
}

// Paused counts the shards that are paused.
func (q Queue) Paused() (n int) {
	for _, s := range q.Shards {
		if s.Pause.On {
			n++
		}
	}
	return n
}

// Queue reads the headers of a queue's shards, and counts its jobs. The error is a
// *job.InvalidError of the queue, or the store's.
func (r *Reader) Queue(ctx context.Context, name string) (Queue, error) {
	n, err := r.queue(name)
	if err != nil {
		return Queue{}, err
	}
	out := Queue{Name: name, Depth: map[job.State]Depth{}, Shards: make([]Shard, n)}
	counts := make([][len(depths)]int, n)
	err = each(n, func(i int) error {
		id := store.ShardID{Queue: name, Shard: i}
		h, err := r.header(ctx, id)
		if err != nil {
			return err
		}
		out.Shards[i] = shardView(i, h)
		for k, d := range depths {
			if counts[i][k], err = r.count(ctx, id, d, h, MaxDepth); err != nil {
				return err
			}
		}
		return nil
	})
	for k, d := range depths {
		var sum Depth
		for i := range counts {
			sum.Jobs += counts[i][k]
			sum.More = sum.More || counts[i][k] == MaxDepth
		}
		out.Depth[d.state] = sum
	}
	return out, err
}

// ShardsOf reads the headers of a queue's shards only, without its depth. The error is
// as of Queue.
func (r *Reader) ShardsOf(ctx context.Context, name string) ([]Shard, error) {
	n, err := r.queue(name)
	if err != nil {
		return nil, err
	}
	out := make([]Shard, n)
	return out, each(n, func(i int) error {
		h, err := r.header(ctx, store.ShardID{Queue: name, Shard: i})
		out[i] = shardView(i, h)
		return err
	})
}

func shardView(n int, h store.Header) Shard {
	return Shard{Shard: n, Owner: h.Owner, Addr: h.Addr, Fence: h.Fence, Tick: h.Tick, Pause: h.Pause}
}

// depth is a state that is counted, by the rows that its jobs have.
type depth struct {
	state job.State
	kind  store.Kind
	low   func(store.Header) int64
}

var depths = [...]depth{
	{job.Pending, store.KindPending, func(h store.Header) int64 { return h.LowPending }},
	{job.Running, store.KindRunning, func(h store.Header) int64 { return h.LowRunning }},
	{job.DLQ, store.KindDLQ, func(store.Header) int64 { return -1 }},
}

func (r *Reader) count(ctx context.Context, s store.ShardID, d depth, h store.Header, most int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	return r.o.Shards.Count(ctx, s, store.Range{Kind: d.kind, AfterAt: d.low(h), AfterID: afterAll, UpTo: math.MaxInt64, Limit: most})
}

// Queues are those that can be asked for.
func (r *Reader) Queues() []engine.Queue { return r.o.Queues }
