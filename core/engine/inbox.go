package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"fencepost/core/clock"
	"fencepost/core/job"
	"fencepost/core/store"
)

// Inbox enqueues jobs without their shard's owner, for when that cannot be reached:
// one conditional insert, which the owner copies into the shard. The zero value of
// each field but Store is usable.
type Inbox struct {
	Store store.Shards
	// Timeout bounds the wait for the answer to one copy; default 2 s.
	Timeout time.Duration
	// Clock defaults to clock.System(), NewID to random UUIDs.
	Clock clock.Clock
	NewID func() string
}

// Enqueue inserts a job of a queue with so many shards. It sends copies until an
// answer settles the insert or ctx ends. The error is an *EnqueueError, or a
// *job.InvalidError.
func (b Inbox) Enqueue(ctx context.Context, j job.Job, shards int) (Receipt, error) {
	b.Timeout = cmp.Or(b.Timeout, 2*time.Second)
	b.Clock = cmp.Or(b.Clock, clock.System())
	if b.NewID == nil {
		b.NewID = uuid.NewString
	}
	j = j.WithDefaults()
	body, err := encode(j, shards, store.MaxBytes)
	if err != nil {
		return Receipt{}, err
	}
	n, _ := j.ID.Shard()
	id, row := store.ShardID{Queue: j.Queue, Shard: n}, store.InboxRow{ID: string(j.ID), Nonce: b.NewID(), Body: body}
	unsure, refused := 0, 0
	for copyNo := 0; ; copyNo++ {
		rctx, stop := timeout(ctx, b.Clock, b.Timeout)
		applied, existing, err := b.Store.InboxPut(rctx, id, row, copyNo)
		stop()
		switch {
		case err == nil:
			// A row that carries this nonce was inserted by an earlier copy.
			return Receipt{ID: j.ID, Duplicate: !applied && existing != row.Nonce}, nil
		case store.OutcomeOf(err) == store.Fail:
			refused++
		default:
			unsure++
		}
		if ctx.Err() != nil || refused >= refusalsToSplit {
			outcome := store.Fail
			if unsure > 0 {
				outcome = store.Unknown
			}
			return Receipt{}, &EnqueueError{Job: j.ID, Outcome: outcome, Cause: err}
		}
		// An answer that came at once would come again at once.
		_ = b.Clock.Sleep(ctx, b.Timeout/20)
	}
}

// encode checks a job and returns its row's body. A job must fit into a batch of so
// many bytes whatever becomes of it, so that no tick is ever too large for it.
func encode(j job.Job, shards, most int) ([]byte, error) {
	if err := j.Check(shards); err != nil {
		return nil, err
	}
	if !j.Occurrence.IsZero() || j.After != "" {
		return nil, &job.InvalidError{Field: "occurrence", Reason: "and after are set by the scheduler: leave them out"}
	}
	body, err := j.Encode()
	if err != nil {
		return nil, &job.InvalidError{Field: "body", Reason: err.Error()}
	}
	if size := room(j, len(body), mostNote+mostWhy); size > most {
		return nil, &job.InvalidError{Field: "payload", Reason: fmt.Sprintf(
			"of %d bytes makes the job too large: changes of up to %d bytes, at most %d fit into a batch; put what is large elsewhere and enqueue its name", len(j.Payload), size, most)}
	}
	return body, nil
}

// errRequestTimeout is the cause of the end of a request that was not answered.
var errRequestTimeout = errors.New("engine: no answer in time")

// timeout is context.WithTimeout by a clock of our own.
func timeout(ctx context.Context, c clock.Clock, d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := c.AfterFunc(d, func() { cancel(errRequestTimeout) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
