package workload

import (
	"context"
	"errors"
	"slices"
	"sync"

	"fencepost/core/engine"
	"fencepost/core/scheduler"
	"fencepost/core/store"
	"fencepost/harness/record/history"
)

// pauseQueue pauses a random queue for a short time. What a resumption does not reach others resume,
// shard by shard.
func (c *commander) pauseQueue(ctx context.Context) {
	all := c.cfg.Jobs.queues()
	n, d := c.drawPause(len(all))
	_ = c.queue(ctx, all[n], true) // recorded
	sleep(ctx, d)
	_ = c.queue(ctx, all[n], false) // recorded
}

// queue pauses or resumes a queue by one command. Each of its shards has a record of its own, which
// begins before the command is given: what it was told is judged shard by shard.
func (c *commander) queue(ctx context.Context, name string, on bool) error {
	var asked, told sync.WaitGroup
	asked.Add(c.cfg.Jobs.Shards)
	var duplicate bool
	var err error
	answered := make(chan struct{})
	for n := range c.cfg.Jobs.Shards {
		key := engine.Issuer(store.ShardID{Queue: name, Shard: n})
		told.Go(func() {
			what := history.Command{Queue: name, Shard: key, Do: pausing(on), Whole: true}
			_ = c.give(ctx, key, what, func(context.Context) (bool, error) {
				asked.Done()
				<-answered
				return duplicate, toldOf(n, err)
			})
		})
	}
	asked.Wait()
	sending, cancel := context.WithTimeout(ctx, c.cfg.TTL)
	defer cancel()
	duplicate, err = c.to.SetPaused(sending, name, on)
	close(answered)
	told.Wait()
	return err
}

// toldOf is what the answer to a command on a queue says of a shard: those that a *PartlyError does
// not name are as was asked for, and of those that it names nobody knows.
func toldOf(n int, err error) error {
	var partly *scheduler.PartlyError
	if err == nil || errors.As(err, &partly) && !slices.Contains(partly.Shards, n) {
		return nil
	}
	return &store.Error{Op: "pause a queue", Outcome: store.Unknown, Cause: err}
}

// SetPaused implements Commander.
func (c engineCommander) SetPaused(ctx context.Context, queue string, on bool) (bool, error) {
	all := true
	var partly *scheduler.PartlyError
	for n := range c.shards {
		had, err := c.e.SetPaused(ctx, store.ShardID{Queue: queue, Shard: n}, on)
		if err != nil {
			if partly == nil {
				partly = &scheduler.PartlyError{Queue: queue, Cause: err}
			}
			partly.Shards = append(partly.Shards, n)
		}
		all = all && had
	}
	if partly != nil {
		return false, partly
	}
	return all, nil
}
