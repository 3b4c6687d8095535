package mistake

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
)

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
