package broken

import (
	"slices"
	"sync"

	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/harness/workload"
)

// markFirst writes down with one tick that a schedule has fired, and the jobs with the
// next one: who is killed in between has fired without them.
func markFirst(_ workload.Config, inner store.Shards) store.Shards {
	m := &marker{split: map[string]splitBatch{}, owed: map[reign][]store.Op{}}
	return shards{Shards: inner, commit: m.do}
}

type marker struct {
	mu    sync.Mutex
	split map[string]splitBatch // by nonce: all copies of a batch are alike
	owed  map[reign][]store.Op  // what applied batches have left to the next one
}

// splitBatch is a batch's operations, and those left to the next one.
type splitBatch struct{ now, later []store.Op }

func (m *marker) do(r commitRequest) (store.CommitResult, error) {
	if r.takeover() {
		return r.send()
	}
	at, nonce := reign{r.shard, r.batch.From.Fence}, r.batch.To.Nonce
	m.mu.Lock()
	s, known := m.split[nonce]
	if !known {
		s = splitFires(r.batch.Ops)
		s.now = overwrite(m.owed[at], s.now)
		m.split[nonce] = s
	}
	m.mu.Unlock()
	r.batch.Ops = s.now
	res, err := r.send()
	if err == nil && (res.Applied || res.Stamp != nil && *res.Stamp == r.batch.To.Stamp) {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.split, nonce)
		m.owed[at] = s.later
	}
	return res, err
}

// splitFires takes the rows of the jobs that schedules enqueue out of a batch.
func splitFires(ops []store.Op) (s splitBatch) {
	fired := map[string]bool{}
	for _, op := range ops {
		if op.Kind == store.Put && op.Row.Kind == store.KindPending {
			j, err := job.Decode(op.Row.Body)
			fired[op.Row.ID] = err == nil && !j.Occurrence.IsZero()
		}
	}
	for _, op := range ops {
		isNew := slices.ContainsFunc(ops, func(o store.Op) bool { return o.Kind == store.PutNew && o.Row.ID == op.Row.ID })
		if fired[op.Row.ID] && isNew {
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
		return slices.ContainsFunc(with, func(w store.Op) bool { return w.Kind != store.DeleteUpTo && w.Row.Key == o.Row.Key })
	})
	return append(left, with...)
}
