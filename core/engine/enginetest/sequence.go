package enginetest

import (
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// sequences checks that the next job of a sequence is inserted by the very batch that
// ends the one before it, and that a schedule learns of the end of what it waits for.
func (t *truth) sequences(s *shardTruth, c sim.ShardChange, after func() map[store.Key]store.Row) {
	v := t.w.violate
	follows := map[job.ID]bool{}
	for _, op := range c.Ops {
		if op.Row.Kind == store.KindPending {
			if j, err := job.Decode(op.Row.Body); err == nil && j.After != "" {
				if _, old := s.rows[store.Key{Kind: store.KindJob, ID: op.Row.ID}]; !old {
					follows[j.After] = true
				}
			}
		}
	}
	for _, op := range c.Ops {
		if op.Row.Kind != store.KindJob || op.Kind == store.Delete || !job.State(op.Row.State).Ended() {
			continue
		}
		body, ok := t.bodies[op.Row.ID]
		j, err := job.Decode(body)
		if !ok || err != nil {
			continue
		}
		// The rule, written out once more.
		state := job.State(op.Row.State)
		want := len(j.Then) > 0 && (state == job.Completed || state != job.Cancelled && j.OnFailure == job.GoOn)
		if follows[j.ID] != want {
			v("sequence", "%s: job %s ends as %s, is followed %v, want %v", c.To.Stamp, j.Key, state, follows[j.ID], want)
		}
		if want {
			t.w.counts["followed-"+op.Row.State]++
		} else if len(j.Then) > 0 {
			t.w.counts["stopped-"+op.Row.State]++
		}
		delete(follows, j.ID)
		if j.Occurrence.IsZero() || want {
			continue
		}
		id := string(job.ScheduleID("q", j.Occurrence.Schedule, t.w.cfg.shards))
		if r, ok := t.scheduleIn(after(), id); ok && r.state.Active == j.Occurrence {
			v("schedule", "%s: %s has ended and its schedule still waits for it", c.To.Stamp, j.Key)
		}
	}
	for id := range follows {
		v("sequence", "%s: a job follows %s, which has not ended", c.To.Stamp, id)
	}
	for _, op := range c.Ops {
		if op.Kind == store.Put && op.Row.Kind == store.KindPending {
			t.bodies[op.Row.ID] = op.Row.Body
		}
	}
}
