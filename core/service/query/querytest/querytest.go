// Package querytest has queues for tests of what reads queues.
package querytest

import (
	"context"
	"fmt"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
)

// Fixed are queues whose numbers of shards were never raised.
type Fixed []engine.Queue

// Queue implements query.Queues.
func (f Fixed) Queue(_ context.Context, name string) (store.Queue, error) {
	if q, ok := store.QueueNamed(f.Queues(), name); ok {
		return q, nil
	}
	return store.Queue{}, &job.InvalidError{Field: "queue", Reason: fmt.Sprintf("%q is not one of this scheduler's", name)}
}

// Queues implements query.Queues.
func (f Fixed) Queues() (out []store.Queue) {
	for _, q := range f {
		out = append(out, store.Queue{Name: q.Name, First: q.Shards, Shards: q.Shards})
	}
	return out
}

// Place implements query.Queues.
func (f Fixed) Place(ctx context.Context, queue string, id job.ID) (store.ShardID, error) {
	q, err := f.Queue(ctx, queue)
	if err == nil {
		err = id.Check(q.First)
	}
	n, _ := id.Shard()
	if err == nil && n >= q.Shards {
		err = &job.InvalidError{Field: "id", Reason: fmt.Sprintf("%q names shard %d of %d", id, n, q.Shards)}
	}
	return store.ShardID{Queue: queue, Shard: n}, err
}
