package run

import (
	"context"
	"fmt"
	"math"

	"fencepost/core/store"
	"fencepost/harness/fault"
)

// queueRows are the run's queues by their rows.
type queueRows struct {
	names []string
	store store.Shards
}

// Sizes implements fault.QueueRows.
func (r queueRows) Sizes(ctx context.Context) (out []fault.QueueSize, err error) {
	all, err := r.store.Queues(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range r.names {
		q, ok := store.QueueNamed(all, name)
		if !ok {
			return nil, fmt.Errorf("queue %s is not in the store", name)
		}
		out = append(out, fault.QueueSize{Queue: name, First: q.First, Shards: q.Shards})
	}
	return out, nil
}

// Raise implements fault.QueueRows.
func (r queueRows) Raise(ctx context.Context, queue string, shards int) error {
	_, err := r.store.RaiseQueue(ctx, queue, shards)
	return err
}

// mostJobs bounds what is counted of a shard.
const mostJobs = 1000

// Jobs implements fault.QueueRows.
func (r queueRows) Jobs(ctx context.Context, queue string, shard int) (n int, owned bool, err error) {
	id := store.ShardID{Queue: queue, Shard: shard}
	h, err := r.store.Look(ctx, id, true)
	if err != nil || h == nil || h.Owner == "" {
		return 0, false, err
	}
	n, err = r.store.Count(ctx, id, store.Range{Kind: store.KindJob, AfterAt: -1, AfterID: lastID, UpTo: math.MaxInt64, Limit: mostJobs})
	return n, true, err
}
