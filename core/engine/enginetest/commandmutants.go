package enginetest

import (
	"context"
	"errors"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/mistake"
	"fencepost/core/store"
)

// commandMutants are wrong about what operators ask for.
var commandMutants = []Mutant{
	{Name: "a cancellation is told before it is settled", Rules: []string{"command"}, Plant: earlyAnswers(func(_ *World,
		c mistake.Copy) bool {
		return mistake.Has(c.Batch, func(op store.Op) bool { return op.Kind == store.Put && op.Row.State == string(job.Cancelled) })
	})},
	{Name: "a cancellation beats success", Rules: []string{"end-state"}, Plant: ends(func(ctx context.Context, err error) error {
		if err == nil && errors.Is(context.Cause(ctx), job.ErrCancelled) {
			err = job.ErrCancelled
		}
		return err
	})},
	{Name: "a cancellation is told and forgotten", Rules: []string{"command"}, Plant: operations(func(op *store.Op) {
		if op.Row.Kind == store.KindJob && op.Row.State == string(job.Cancelled) {
			op.Row.State = string(job.Completed)
		}
	})},
	{Name: "a job that is brought forward is told so before it is settled", Rules: []string{"command"},
		Plant: earlyAnswers(func(_ *World, c mistake.Copy) bool { return len(hastened(c.Batch)) > 0 })},
	{Name: "a job that is brought forward keeps its own time", Rules: []string{"liveness"}, Under: "clocks",
		Plant: batches(func(w *World, c *mistake.Copy) {
			c.Each(func(op *store.Op) {
				if j := w.byID[job.ID(op.Row.ID)]; j != nil && op.Row.Body != nil {
					op.Row.Body, _ = j.job.Encode()
				}
			})
		})},
	{Name: "a job that is brought forward starts over", Rules: []string{"attempts", "changes"},
		Plant: ofHastened(func(op *store.Op) { op.Row.Attempt = 0 })},
	{Name: "a job that is brought forward waits twice", Rules: []string{"state"}, Plant: ofHastened(func(op *store.Op) {
		if op.Kind == store.Delete {
			op.Row.ID = "none"
		}
	})},
	{Name: "a redrive is told before it is settled", Rules: []string{"command"},
		Plant: earlyAnswers(func(_ *World, c mistake.Copy) bool { return mistake.Has(c.Batch, leavesDLQ) })},
	{Name: "a redriven job keeps its attempts", Rules: []string{"attempts"}, Plant: batches(func(_ *World, c *mistake.Copy) {
		again := mistake.Has(c.Batch, leavesDLQ)
		c.Each(func(op *store.Op) {
			if again && op.Row.Kind == store.KindPending && op.Row.Attempt == 0 && op.Row.Run > 0 {
				op.Row.Attempt = 2
			}
		})
	})},
	{Name: "a redriven job stays in the dead letter queue", Rules: []string{"state"}, Plant: operations(func(op *store.Op) {
		if leavesDLQ(*op) {
			op.Row.ID = "none"
		}
	})},
	{Name: "a command that does not look into the inbox", Rules: []string{"command"},
		Plant: func(_ *World, s store.Shards, _ *engine.Options) store.Shards {
			return mistake.Shards{Shards: s, OnInboxRow: func(*store.InboxRow) *store.InboxRow { return nil }}
		}},
	// Pauses of shards.
	{Name: "a takeover forgets the pause", Rules: []string{"paused"}, Under: "pauses",
		Plant: looks(func(h *store.Header) { h.Pause = store.Pause{} })},
	{Name: "an owner that claims from a paused shard", Rules: []string{"paused"}, Under: "pauses", Plant: heedless},
	{Name: "a pause is told before it is settled", Rules: []string{"told"}, Under: "pauses", Plant: earlyAnswers(func(w *World,
		c mistake.Copy) bool {
		h, _ := w.store.ShardRows(c.Shard)
		return c.Batch.To.Fence == h.Fence && c.Batch.To.Pause != h.Pause
	})},
	{Name: "what came while a shard was paused is forgotten", Rules: []string{"liveness"}, Under: "pauses", Plant: forgetful},
}

// leavesDLQ: the operation takes a job out of the dead letter queue.
func leavesDLQ(op store.Op) bool { return op.Kind == store.Delete && op.Row.Kind == store.KindDLQ }

// hastened are the jobs that a batch brings forward, by the note that it leaves.
func hastened(b store.Batch) map[string]bool {
	ids := map[string]bool{}
	for _, op := range b.Ops {
		if op.Kind == store.Put && op.Row.Kind == store.KindJob && op.Row.State == string(job.Pending) && op.Row.Note == "brought forward" {
			ids[op.Row.ID] = true
		}
	}
	return ids
}

// ofHastened changes the operations on jobs that are brought forward.
func ofHastened(f func(op *store.Op)) Plant {
	return batches(func(_ *World, c *mistake.Copy) {
		ids := hastened(c.Batch)
		c.Each(func(op *store.Op) {
			if ids[op.Row.ID] {
				f(op)
			}
		})
	})
}
