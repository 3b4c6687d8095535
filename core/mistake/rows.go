package mistake

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
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

// markFirst writes down with one tick that a schedule has fired, and the jobs with the
// next one: who is killed in between has fired without them.
func markFirst(_ Process, inner store.Shards) store.Shards {
	return splitter(inner, func(j job.Job) bool { return !j.Occurrence.IsZero() && j.After == "" })
}

// followLater ends a job of a sequence with one tick, and enqueues the one that follows it
// with the next one: who is killed in between leaves the sequence where it is.
func followLater(_ Process, inner store.Shards) store.Shards {
	return splitter(inner, func(j job.Job) bool { return j.After != "" })
}

// splitter takes the rows of some jobs that the engine makes out of the batch that makes
// them.
func splitter(inner store.Shards, later func(job.Job) bool) store.Shards {
	m := &marker{later: later, split: map[string]splitBatch{}, owed: map[reign][]store.Op{}}
	return Shards{Shards: inner, OnCommit: m.do}
}

type marker struct {
	later func(job.Job) bool
	mu    sync.Mutex
	split map[string]splitBatch // by nonce: all copies of a batch are alike
	owed  map[reign][]store.Op  // what applied batches have left to the next one
}

// splitBatch is a batch's operations, and those left to the next one.
type splitBatch struct{ now, later []store.Op }

func (m *marker) do(c Copy) (store.CommitResult, error) {
	if c.Takeover() {
		return c.Send()
	}
	at, nonce := reign{c.Shard, c.Batch.From.Fence}, c.Batch.To.Nonce
	m.mu.Lock()
	s, known := m.split[nonce]
	if !known {
		s = m.take(c.Batch.Ops)
		s.now = overwrite(m.owed[at], s.now)
		m.split[nonce] = s
	}
	m.mu.Unlock()
	c.Batch.Ops = s.now
	res, err := c.Send()
	if err == nil && (res.Applied || res.Stamp != nil && *res.Stamp == c.Batch.To.Stamp) {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.split, nonce)
		m.owed[at] = s.later
	}
	return res, err
}

// take takes the rows of the jobs that come later out of a batch.
func (m *marker) take(ops []store.Op) (s splitBatch) {
	later := map[string]bool{}
	for _, op := range ops {
		if op.Kind == store.Put && op.Row.Kind == store.KindPending {
			j, err := job.Decode(op.Row.Body)
			later[op.Row.ID] = err == nil && m.later(j)
		}
	}
	for _, op := range ops {
		isNew := slices.ContainsFunc(ops, func(o store.Op) bool { return o.Kind == store.PutNew && o.Row.ID == op.Row.ID })
		if later[op.Row.ID] && isNew {
			s.later = append(s.later, op)
		} else {
			s.now = append(s.now, op)
		}
	}
	return s
}

// overwrite is what comes of old operations that new ones follow: one on each row.
func overwrite(old, with []store.Op) []store.Op {
	left := slices.DeleteFunc(slices.Clone(old), func(o store.Op) bool {
		return slices.ContainsFunc(with, func(w store.Op) bool {
			return !w.IsRange() && w.Row.Key == o.Row.Key
		})
	})
	return append(left, with...)
}

// countsFromStart has each owner count the times of its schedules from when it took their
// shard, as a scheduler does that has them in memory: what came before is nobody's.
func countsFromStart(_ Process, inner store.Shards) store.Shards {
	return Shards{Shards: inner, OnRows: func(_ store.ShardID, rows []store.Row) []store.Row {
		now := time.Now().UnixMilli()
		for i, r := range rows {
			var st schedule.State
			if r.Kind != store.KindSchedule || r.At != engine.AtState || json.Unmarshal(r.Body, &st) != nil {
				continue
			}
			st.Last = max(st.Last, now)
			rows[i].Body, _ = json.Marshal(st) // of what was decoded
		}
		return rows
	}}
}

// clockReadOnce reads the wall clock when the process begins and counts on from there, as
// timers do: it does not see that the clock is set.
func clockReadOnce(_ Process, o *engine.Options) {
	began, from := o.Wall(), o.Clock.Now()
	o.Wall = func() time.Time { return began.Add(o.Clock.Now() - from) }
}
