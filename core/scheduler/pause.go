package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
)

// PartlyError says that some shards of a queue may not be as was asked for: their owners
// could not be reached, or did not answer in time. Asking again is safe.
type PartlyError struct {
	Queue  string
	Shards []int // in order
	// Cause is the first one's.
	Cause error
}

func (e *PartlyError) Error() string {
	return fmt.Sprintf("scheduler: shards %v of queue %s: %v", e.Shards, e.Queue, e.Cause)
}

// Unwrap returns the cause.
func (e *PartlyError) Unwrap() error { return e.Cause }

// SetPaused pauses a queue, or resumes it, through the owners of its shards; see
// engine.Engine.SetPaused. duplicate: all of them were so already. The error is a
// *PartlyError, or a *job.InvalidError of the queue.
func (s *Scheduler) SetPaused(ctx context.Context, queue string, on bool) (duplicate bool, err error) {
	at := slices.IndexFunc(s.queues, func(q engine.Queue) bool { return q.Name == queue })
	if at < 0 {
		return false, &job.InvalidError{Field: "queue", Reason: fmt.Sprintf("%q is not one of this scheduler's", queue)}
	}
	n := s.queues[at].Shards
	errs, had := make([]error, n), make([]bool, n)
	slots := make(chan struct{}, pausesAtOnce)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			had[i], errs[i] = s.setShardPaused(ctx, store.ShardID{Queue: queue, Shard: i}, on)
			<-slots
		})
	}
	wg.Wait()
	var partly *PartlyError
	for i, err := range errs {
		switch {
		case err == nil:
			continue
		case partly == nil:
			partly = &PartlyError{Queue: queue, Cause: err}
		}
		partly.Shards = append(partly.Shards, i)
	}
	if partly != nil {
		return false, partly
	}
	return !slices.Contains(had, false), nil
}

// pausesAtOnce bounds the requests of one call.
const pausesAtOnce = 8

func (s *Scheduler) setShardPaused(ctx context.Context, id store.ShardID, on bool) (duplicate bool, err error) {
	rec, err := s.byOwner(ctx, func() string { return s.engine.OwnerAddr(id) },
		func() (engine.Receipt, error) {
			duplicate, err := s.engine.SetPaused(ctx, id, on)
			return engine.Receipt{Duplicate: duplicate}, err
		},
		func(addr string) (engine.Receipt, error) {
			duplicate, err := s.client.SetPaused(ctx, addr, id, on)
			return engine.Receipt{Duplicate: duplicate}, err
		})
	return rec.Duplicate, err
}
