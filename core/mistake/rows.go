package mistake

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
)

// rescueDeadOnly leaves the runs of processes that may be alive alone: one is dead
// for sure when the next life of its worker has been seen to own a shard.
func rescueDeadOnly(_ Process, inner store.Shards) store.Shards {
	w := &witness{owner: map[reign]string{}, newest: map[string]int{}}
	return Shards{Shards: inner, OnLook: w.looked, OnRows: w.scanned}
}

// reign is a shard under one fence.
type reign struct {
	shard store.ShardID
	fence int64
}

// witness remembers which life owned what, and the newest life of each worker.
type witness struct {
	mu     sync.Mutex
	owner  map[reign]string
	newest map[string]int
}

// life is "w1" and 2 for the second life of w1, "w1.2".
func life(name string) (worker string, number int) {
	worker, n, _ := strings.Cut(name, ".")
	number, _ = strconv.Atoi(n)
	return worker, number
}

func (w *witness) looked(_ context.Context, id store.ShardID, h *store.Header) {
	if h.Owner == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owner[reign{id, h.Fence}] = h.Owner
	worker, n := life(h.Owner)
	w.newest[worker] = max(w.newest[worker], n)
}

func (w *witness) scanned(id store.ShardID, rows []store.Row) []store.Row {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(rows, func(r store.Row) bool {
		owner := w.owner[reign{id, job.RunID(r.Run).Fence()}]
		worker, n := life(owner)
		return r.Kind == store.KindRunning && owner != "" && w.newest[worker] == n
	})
}

// dlqLost loses the second of two writes: a job leaves the running ones and never
// comes to the dead letter queue.
func dlqLost(_ Process, inner store.Shards) store.Shards {
	return Without(inner, func(_ store.Batch, op store.Op) bool {
		return op.Row.Kind == store.KindDLQ || op.Row.Kind == store.KindJob && op.Row.State == string(job.DLQ)
	})
}

// retriesInMemory counts attempts in the owner's memory: the next one begins at 0.
func retriesInMemory(_ Process, inner store.Shards) store.Shards {
	return Shards{Shards: inner, OnRows: func(_ store.ShardID, rows []store.Row) []store.Row {
		for i := range rows {
			rows[i].Attempt = 0
		}
		return rows
	}}
}

// claimedTwice leaves the pending row of a job that is claimed: the next reader claims
// the job again.
func claimedTwice(_ Process, inner store.Shards) store.Shards {
	return Without(inner, func(b store.Batch, op store.Op) bool {
		return op.Kind == store.Delete && op.Row.Kind == store.KindPending &&
			Has(b, func(o store.Op) bool { return Claims(o) && o.Row.ID == op.Row.ID })
	})
}

// sweptEarly forgets jobs at once when they have ended: one that is enqueued again
// runs again.
func sweptEarly(_ Process, o *engine.Options) { o.DedupeWindow = time.Millisecond }

// behindTheMark puts pending rows where they are due, though their owner's marks,
// from which the next owner reads on, may be past that. Ranges of pending rows are
// not deleted, as that would hit such rows in their owner's own time.
func behindTheMark(_ Process, inner store.Shards) store.Shards {
	b := &behind{at: map[place]int64{}}
	return Shards{Shards: inner, OnCommit: b.do}
}

type place struct {
	shard store.ShardID
	key   store.Key // as the owner believes
}

type behind struct {
	mu sync.Mutex
	at map[place]int64 // where the rows are instead
}

func (b *behind) do(c Copy) (store.CommitResult, error) {
	moved := map[place]int64{}
	var ops []store.Op
	b.mu.Lock()
	for _, op := range c.Batch.Ops {
		if op.Row.Kind == store.KindPending {
			at := place{c.Shard, op.Row.Key}
			switch op.Kind {
			case store.Put:
				op.Row.At = op.Row.Due
				moved[at] = op.Row.At
			case store.Delete:
				if real, ok := b.at[at]; ok {
					op.Row.At = real
				}
			default:
				continue
			}
		}
		ops = append(ops, op)
	}
	b.mu.Unlock()
	c.Batch.Ops = ops
	res, err := c.Send()
	if err == nil && (res.Applied || res.Stamp != nil && *res.Stamp == c.Batch.To.Stamp) {
		b.mu.Lock()
		for at, real := range moved {
			b.at[at] = real
		}
		b.mu.Unlock()
	}
	return res, err
}

// earlyBird fires jobs by a clock that runs ahead of the worker's own.
func earlyBird(p Process, o *engine.Options) {
	wall := o.Wall
	o.Wall = func() time.Time { return wall().Add(p.TTL / 3) }
}
