package enginetest

import (
	"math/rand/v2"
	"slices"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// gather has jobs come due many at once, as in a storm.
func (w *World) gather() {
	if !w.cfg.storms {
		return
	}
	r, each := rand.New(rand.NewPCG(w.cfg.seed, 14)), 3*w.cfg.ttl
	for _, j := range w.jobs {
		if r.IntN(4) > 0 {
			due := (j.after + w.cfg.ttl/2).Truncate(each) + each
			j.job.Due = simEpoch.Add(due.Truncate(time.Millisecond))
			if j.other != nil {
				j.other.Due = j.job.Due
			}
		}
	}
}

// ownJob is a pending job that the shard's owner has inserted and keeps in memory.
type ownJob struct {
	due      int64 // by the owner's wall clock, at the latest
	priority int
}

// priorities checks that of the jobs that are due higher priorities are claimed first, among those
// that the owner has in memory for certain: it inserted them by an earlier batch, within its
// window. Where clocks are set, or single jobs are tried alone, nobody can tell.
func (t *truth) priorities(s *shardTruth, c sim.ShardChange) {
	told := t.told[c.To.Nonce]
	if told == nil || t.w.cfg.poison || slices.ContainsFunc(t.w.cfg.events, func(e event) bool { return e.kind == "clock" }) {
		return
	}
	if s.own == nil || c.To.Fence != s.head.Fence || c.To.Pause != s.head.Pause || c.To.Pause.On {
		s.own = map[job.ID]ownJob{}
	}
	low, lowest := "", 0
	touched, inserted := map[job.ID]bool{}, map[string]bool{}
	for _, op := range c.Ops {
		touched[job.ID(op.Row.ID)] = true
		inserted[op.Row.ID] = inserted[op.Row.ID] || op.Kind == store.PutNew
		j := t.w.byID[job.ID(op.Row.ID)]
		if _, moved := s.runs(op.Row); op.Kind == store.Put && op.Row.Kind == store.KindRunning && j != nil && !moved && (low == "" ||
			j.job.Priority < lowest) {
			low, lowest = op.Row.ID, j.job.Priority
		}
	}
	for id, own := range s.own {
		switch {
		case low == "" || touched[id] || own.due > told.op.Wall || own.priority == lowest:
		case own.priority > lowest:
			t.w.violate("priority", "%s at %s: job %s of priority %d is claimed, and %s of priority %d, due since %d ms, is not", c.Shard,
				c.To.Stamp, low, lowest, id, own.priority, told.op.Wall-own.due)
		default:
			t.w.counts["ordered"]++
		}
	}
	for id := range touched {
		delete(s.own, id)
	}
	for _, op := range c.Ops {
		id := job.ID(op.Row.ID)
		j := t.w.byID[id]
		if op.Kind == store.Put && op.Row.Kind == store.KindPending && inserted[op.Row.ID] && j != nil && told.op.Kind == engine.OpTick &&
			op.Row.Due <= s.head.Read && !c.To.Pause.On {
			// A wait is counted by the monotonic clock.
			wait := max(op.Row.Due-told.op.Wall, 0)
			s.own[id] = ownJob{op.Row.Due + wait/2 + 50, j.job.Priority}
		}
	}
}
