package broken

import (
	"context"
	"slices"
	"sync"
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/harness/target/workload"
)

func init() {
	plant("jobs-id-without-queue", idWithoutQueue)
	plant("jobs-no-key-is-a-key", noKeyIsAKey)
	plant("jobs-pause-in-part", only(workload.Hooks{Commander: pauseInPart}))
	plant("jobs-priority-lost", only(workload.Hooks{Submit: priorityLost}))
	plant("jobs-never-ended", only(workload.Hooks{Submit: neverEnded}))
}

// idWithoutQueue looks jobs up by their key alone: one whose key has come before is the job that it
// came as, whatever queue it is for.
func idWithoutQueue() workload.Hooks {
	var first sync.Map // jobs by key
	return workload.Hooks{Submit: func(j job.Job) job.Job {
		if was, known := first.LoadOrStore(j.Key, j); known && j.Key != "" {
			j.Queue, j.ID = was.(job.Job).Queue, was.(job.Job).ID
		}
		return j
	}}
}

// noKeyIsAKey looks jobs up by their key, also those that have none: each is taken for the first one
// of its queue.
func noKeyIsAKey() workload.Hooks {
	var first sync.Map // ids of jobs without a key, by queue
	return workload.Hooks{Submit: func(j job.Job) job.Job {
		if j.Key == "" {
			was, _ := first.LoadOrStore(j.Queue, j.ID)
			j.ID = was.(job.ID)
		}
		return j
	}}
}

// pauseInPart pauses a queue but for its last shard: the loop over them ends one too early.
func pauseInPart(cfg workload.Config, inner workload.Commander) workload.Commander {
	return partCommander{inner, cfg.Jobs.Shards}
}

type partCommander struct {
	workload.Commander
	shards int
}

// SetPaused implements workload.Commander.
func (c partCommander) SetPaused(ctx context.Context, queue string, on bool) (bool, error) {
	if !on {
		return c.Commander.SetPaused(ctx, queue, on)
	}
	all := true
	for n := range c.shards - 1 {
		had, err := c.SetShardPaused(ctx, store.ShardID{Queue: queue, Shard: n}, on)
		if err != nil {
			return false, err
		}
		all = all && had
	}
	return all, nil
}

// neverEnded stores jobs without their bound on a run: what is stuck stays stuck.
func neverEnded(j job.Job) job.Job {
	j.MaxDuration = time.Hour
	return j
}

// priorityLost stores jobs without their priority: those that are due are claimed in the order of
// their times.
func priorityLost(j job.Job) job.Job {
	j.Priority, j.Then = 0, slices.Clone(j.Then)
	for i := range j.Then {
		j.Then[i].Priority = 0
	}
	return j
}
