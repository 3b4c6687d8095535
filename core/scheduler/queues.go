package scheduler

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"fencepost/core/job"
	"fencepost/core/store"
)

// MaxQueueName is how many bytes the name of a queue may have that PutQueue creates.
const MaxQueueName = 100

// ErrPaused: a queue is not given more shards while one of its shards is paused, as the new ones would not
// be. A pause at the same time as a raise may miss the new shards: pause again.
var ErrPaused = errors.New("the queue is paused: resume it first")

// Queue tells how many shards a queue has; see engine.Engine.Queue.
func (s *Scheduler) Queue(ctx context.Context, name string) (store.Queue, error) {
	return s.engine.Queue(ctx, name)
}

// Queues are those that this process serves; see engine.Engine.Queues.
func (s *Scheduler) Queues() []store.Queue { return s.engine.Queues() }

// Place is the shard of a job; see engine.Engine.Place.
func (s *Scheduler) Place(ctx context.Context, queue string, id job.ID) (store.ShardID, error) {
	return s.engine.Place(ctx, queue, id)
}

// PutQueue gives a queue more shards while it is at work, or creates it if the engine serves AllQueues.
// duplicate: it had as many already. All processes serve the new shards a third of a ttl later, and share
// them as all others. Jobs without a key are spread over all shards from then on. Keys, schedules and what
// follows a job stay where they are: their ids do not change, so nothing is doubled or lost.
//
// The number can never be lowered. Programs from before queues could be raised do not start any more on
// this keyspace, and go on if they run. The error is a *job.InvalidError, ErrPaused, a *QueueError, or the
// store's if nothing was done.
func (s *Scheduler) PutQueue(ctx context.Context, name string, shards int) (q store.Queue, duplicate bool, err error) {
	if err := s.checkQueue(name, shards); err != nil {
		return q, false, err
	}
	q, err = s.engine.Queue(ctx, name) // created as the options say, if they name it
	if err == nil {
		if err = s.engine.Refresh(ctx); err == nil { // another process may have raised it
			q, err = s.engine.Queue(ctx, name)
		}
	}
	switch {
	case errors.As(err, new(*job.InvalidError)): // there is none yet
		if q, err = s.shards.EnsureQueue(ctx, name, shards); err != nil {
			return q, false, &QueueError{name, err}
		}
	case err != nil:
		return q, false, &QueueError{name, err}
	default:
		duplicate = q.Shards == shards
	}
	if q.Shards < shards {
		if err := s.notPaused(ctx, q); err != nil {
			return q, false, err
		}
		if q, err = s.shards.RaiseQueue(ctx, name, shards); err != nil {
			return q, false, &QueueError{name, err}
		}
	}
	if q.Shards > shards {
		return q, false, &job.InvalidError{Field: "shards", Reason: fmt.Sprintf("is %d, and the queue has %d: there can only be more", shards, q.Shards)}
	}
	if err := s.engine.Refresh(ctx); err != nil {
		s.logger.Info("a queue has more shards, which this process will see later", "queue", name, "error", err)
	}
	return q, duplicate, nil
}

// QueueError says that it is not known whether a queue has as many shards as was asked. Asking again is safe.
type QueueError struct {
	Queue string
	Cause error
}

func (e *QueueError) Error() string {
	return fmt.Sprintf("scheduler: queue %s may or may not have more shards: %v", e.Queue, e.Cause)
}

// Unwrap returns the cause, as one of an unknown outcome.
func (e *QueueError) Unwrap() error {
	return &store.Error{Op: "put queue", Outcome: store.Unknown, Permanent: store.IsPermanent(e.Cause), Cause: e.Cause}
}

// notPaused is ErrPaused if a shard of a queue is paused.
func (s *Scheduler) notPaused(ctx context.Context, q store.Queue) error {
	for n := range q.Shards {
		h, err := s.shards.Look(ctx, store.ShardID{Queue: q.Name, Shard: n}, false)
		if err != nil {
			return err
		}
		if h != nil && h.Pause.On {
			return ErrPaused
		}
	}
	return nil
}

func (s *Scheduler) checkQueue(name string, shards int) error {
	switch {
	case !s.engine.Serves(name):
		return &job.InvalidError{Field: "queue", Reason: fmt.Sprintf("%q is not one of this scheduler's, which does not serve all queues", name)}
	case name == "" || len(name) > MaxQueueName || !utf8.ValidString(name):
		return &job.InvalidError{Field: "queue", Reason: fmt.Sprintf("is %.200q: want a name of 1 to %d bytes of UTF-8", name, MaxQueueName)}
	case shards < 1 || shards > job.MaxShards:
		return &job.InvalidError{Field: "shards", Reason: fmt.Sprintf("is %d: want 1 to %d", shards, job.MaxShards)}
	}
	return nil
}

// shardsNow is how many shards a queue has, in which none is missing that it had before the call. If that
// cannot be known, nobody knows of any shard whether it is as was asked.
func (s *Scheduler) shardsNow(ctx context.Context, queue string) (int, error) {
	_, err := s.engine.Queue(ctx, queue)
	if err == nil {
		err = s.engine.Refresh(ctx)
	}
	q, ok := store.QueueNamed(s.engine.Queues(), queue)
	switch {
	case !ok:
		return 0, err
	case err == nil:
		return q.Shards, nil
	}
	partly := &PartlyError{Queue: queue, Cause: err}
	for n := range q.Shards {
		partly.Shards = append(partly.Shards, n)
	}
	return 0, partly
}
