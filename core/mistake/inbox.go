package mistake

import (
	"context"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
)

// Asks hands an enqueue to the owner at an address, as engine.Options.Forward does.
type Asks = func(ctx context.Context, addr string, j job.Job) (engine.Receipt, error)

// ownerPatience is for how long InboxAfterTimeout waits for another process: longer than a batch takes,
// and shorter than an enqueue may wait for one.
const ownerPatience = 600 * time.Millisecond

// InboxAfterTimeout takes a shard's owner that does not answer soon for one that cannot be reached: the
// job goes into the inbox, of a queue with so many shards. That owner has it too, and the inbox to copy.
func InboxAfterTimeout(ask Asks, s store.Shards, shards int) Asks {
	inbox := engine.Inbox{Store: s}
	return func(ctx context.Context, addr string, j job.Job) (engine.Receipt, error) {
		short, stop := context.WithTimeout(ctx, ownerPatience)
		defer stop()
		rec, err := ask(short, addr, j)
		if err == nil || short.Err() == nil {
			return rec, err
		}
		if rec, err = inbox.Enqueue(ctx, j, shards); err != nil {
			return rec, &engine.EnqueueError{Job: j.ID, Outcome: store.Unknown, Cause: err}
		}
		rec.Inbox = true
		return rec, nil
	}
}
