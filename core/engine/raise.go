package engine

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"fencepost/core/job"
	"fencepost/core/store"
)

// RaiseFences raises the fences of a queue's shards by so much, for rows that were restored
// from an old copy of the database: runs that were claimed since had higher ids, and theirs
// must not be given out again. The next owners rescue the runs that the copy shows. A queue
// that is younger than the copy is created. Nobody should own the shards meanwhile; an
// owner loses them.
//
// With an error it may be called again: a fence that is raised twice is only higher. They
// end at job.MaxFence.
func RaiseFences(ctx context.Context, s store.Shards, q Queue, by int64) error {
	if by < 1 {
		return fmt.Errorf("engine: raise the fences of queue %q by %d: fences only rise", q.Name, by)
	}
	n, err := s.EnsureQueue(ctx, q.Name, q.Shards)
	switch {
	case err != nil:
		return err
	case n != q.Shards:
		return &ShardsError{Queue: q.Name, Stored: n, Used: q.Shards}
	}
	for i := range n {
		if err := raiseFence(ctx, s, store.ShardID{Queue: q.Name, Shard: i}, by); err != nil {
			return err
		}
	}
	return nil
}

// raiseFence is a takeover by nobody.
func raiseFence(ctx context.Context, s store.Shards, id store.ShardID, by int64) error {
	h, err := s.Look(ctx, id, true)
	switch {
	case err != nil:
		return err
	case h == nil:
		return fmt.Errorf("engine: raise the fence of shard %s: it has no header", id)
	case h.Fence > job.MaxFence-by:
		return fmt.Errorf("engine: raise the fence of shard %s by %d: it is %d, and fences end at %d", id, by, h.Fence, int64(job.MaxFence))
	}
	to := *h
	to.Fence, to.Tick, to.Nonce = h.Fence+by, h.Tick+1, uuid.NewString()
	to.Owner, to.Addr = "", ""
	res, err := s.Commit(ctx, id, store.Batch{From: h.Stamp, To: to}, 0)
	if err == nil && !res.Applied {
		err = fmt.Errorf("engine: raise the fence of shard %s: it was changed at the same time: stop all schedulers first", id)
	}
	return err
}
