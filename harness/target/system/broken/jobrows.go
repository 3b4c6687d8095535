package broken

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/harness/record/history"
	"fencepost/harness/target/workload"
)

func init() {
	plant("jobs-rescue-dead-only", shardsHook(rescueDeadOnly))
	plant("jobs-dlq-lost", shardsHook(dlqLost))
	plant("jobs-retries-in-memory", shardsHook(retriesInMemory))
	plant("jobs-claimed-twice", shardsHook(claimedTwice))
	plant("jobs-format-unsaid", shardsHook(formatUnsaid))
	plant("jobs-behind-the-mark", shardsHook(behindTheMark))
	plant("jobs-swept-early", only(workload.Hooks{Engine: sweptEarly}))
}

// rescueDeadOnly leaves the runs of processes that may be alive alone: one is dead
// for sure when the next life of its worker has been seen to own a shard.
func rescueDeadOnly(_ workload.Config, inner store.Shards) store.Shards {
	w := &witness{owner: map[reign]string{}, newest: map[string]int{}}
	return shards{Shards: inner, looked: w.looked, scanned: w.scanned}
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

// lifeNumber is 2 for the life "w1.2".
func lifeNumber(life string) int {
	_, n, _ := strings.Cut(life, ".")
	number, _ := strconv.Atoi(n)
	return number
}

func (w *witness) looked(_ context.Context, id store.ShardID, h store.Header) store.Header {
	if h.Owner == "" {
		return h
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owner[reign{id, h.Fence}] = h.Owner
	worker := history.Worker(h.Owner)
	w.newest[worker] = max(w.newest[worker], lifeNumber(h.Owner))
	return h
}

func (w *witness) scanned(id store.ShardID, rows []store.Row) []store.Row {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(rows, func(r store.Row) bool {
		life := w.owner[reign{id, job.RunID(r.Run).Fence()}]
		return r.Kind == store.KindRunning && life != "" && w.newest[history.Worker(life)] == lifeNumber(life)
	})
}

// dlqLost loses the second of two writes: a job leaves the running ones and never
// comes to the dead letter queue.
func dlqLost(_ workload.Config, inner store.Shards) store.Shards {
	return shards{Shards: inner, commit: without(func(_ store.Batch, op store.Op) bool {
		return op.Row.Kind == store.KindDLQ || op.Row.Kind == store.KindJob && op.Row.State == string(job.DLQ)
	})}
}

// formatUnsaid writes jobs in a form of its own and tells nobody: who runs the version
// before cannot read them.
func formatUnsaid(_ workload.Config, inner store.Shards) store.Shards {
	const mark = "\x02"
	return shards{Shards: inner,
		commit: func(r commitRequest) (store.CommitResult, error) {
			r.batch.Ops = slices.Clone(r.batch.Ops)
			for i := range r.batch.Ops {
				if row := &r.batch.Ops[i].Row; row.Kind != store.KindJob && row.Kind != store.KindSchedule && len(row.Body) > 0 {
					row.Body = append([]byte(mark), row.Body...)
				}
			}
			return r.send()
		},
		scanned: func(_ store.ShardID, rows []store.Row) []store.Row {
			for i := range rows {
				rows[i].Body = bytes.TrimPrefix(rows[i].Body, []byte(mark))
			}
			return rows
		},
	}
}

// retriesInMemory counts attempts in the owner's memory: the next one begins at 0.
func retriesInMemory(_ workload.Config, inner store.Shards) store.Shards {
	return shards{Shards: inner, scanned: func(_ store.ShardID, rows []store.Row) []store.Row {
		for i := range rows {
			rows[i].Attempt = 0
		}
		return rows
	}}
}

// claimedTwice leaves the pending row of a job that is claimed: the next reader claims
// the job again.
func claimedTwice(_ workload.Config, inner store.Shards) store.Shards {
	return shards{Shards: inner, commit: without(func(b store.Batch, op store.Op) bool {
		return op.Kind == store.Delete && op.Row.Kind == store.KindPending && slices.ContainsFunc(b.Ops, func(o store.Op) bool {
			return o.Kind == store.Put && o.Row.Kind == store.KindRunning && o.Row.ID == op.Row.ID
		})
	})}
}

// sweptEarly forgets jobs at once when they have ended: one that is enqueued again
// runs again.
func sweptEarly(_ workload.Config, o *engine.Options) { o.DedupeWindow = time.Millisecond }

// behindTheMark puts pending rows where they are due, though their owner's marks,
// from which the next owner reads on, may be past that. Ranges of pending rows are
// not deleted, as that would hit such rows in their owner's own time.
func behindTheMark(_ workload.Config, inner store.Shards) store.Shards {
	b := &behind{at: map[place]int64{}}
	return shards{Shards: inner, commit: b.do}
}

type place struct {
	shard store.ShardID
	key   store.Key // as the owner believes
}

type behind struct {
	mu sync.Mutex
	at map[place]int64 // where the rows are instead
}

func (b *behind) do(r commitRequest) (store.CommitResult, error) {
	moved := map[place]int64{}
	var ops []store.Op
	b.mu.Lock()
	for _, op := range r.batch.Ops {
		if op.Row.Kind == store.KindPending {
			at := place{r.shard, op.Row.Key}
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
	r.batch.Ops = ops
	res, err := r.send()
	if err == nil && (res.Applied || res.Stamp != nil && *res.Stamp == r.batch.To.Stamp) {
		b.mu.Lock()
		for at, real := range moved {
			b.at[at] = real
		}
		b.mu.Unlock()
	}
	return res, err
}
