package checker

import (
	"slices"

	"fencepost/harness/record/history"
)

// pauseStep is a batch that paused or resumed a shard.
type pauseStep struct {
	w       *write
	on      bool
	stretch int // of the chain, in which it is known
}

// pauses reports whether a change is of the whole shard.
func pauses(c *history.Change) bool { return c.Do == history.DoPause || c.Do == history.DoResume }

// paused is the pause that lasts, or nil.
func (r *shardReplay) paused() *pauseStep {
	if n := len(r.pauses); n > 0 && r.pauses[n-1].on && (r.stretch == 1 || r.pauses[n-1].stretch == r.stretch) {
		return &r.pauses[n-1]
	}
	return nil
}

// pause applies what a batch does to its shard, before all else that it does: a claim
// may ride with the end of a pause, not with its beginning.
func (r *shardReplay) pause(w *write) {
	changes := w.main().inv.Changes()
	for i := range changes {
		c := &changes[i]
		if !pauses(c) {
			continue
		}
		on := c.Do == history.DoPause
		if r.stretch == 1 && on == (r.paused() != nil) {
			m := w.main()
			r.a.jobs.add("P2", r.l.name, both(&m.op), "the %s of %s by %s to %s does %q to it, though it was so before", m.kind(), r.l.name, m.inv.Proc, r.l.text(w.to), c.Do)
		}
		if on {
			r.a.jobs.n.Pauses++
		}
		r.pauses = append(r.pauses, pauseStep{w, on, r.stretch})
	}
}

// judgePaused is the part of P12 that a pause asks for: nothing is claimed while it lasts.
func (r *shardReplay) judgePaused(j *jobLog, w *write, c *history.Change) {
	if p := r.paused(); p != nil && c.Do == history.DoClaim {
		r.bad("P12", j, w, "claims it as run %d, though %s was paused by %s", c.Run, r.l.name, r.l.text(p.w.to))
	}
}

// resumedAt is when the last pause of a job's shard was over, in ns, 0 if there was none,
// and whether one lasts to the end.
func (a *past) resumedAt(j *jobLog) (ts int64, lasts bool) {
	l := a.row[j.shard]
	if l == nil || l.replayed == nil || len(l.replayed.pauses) == 0 {
		return 0, false
	}
	last := l.replayed.pauses[len(l.replayed.pauses)-1]
	return last.w.by, last.on
}

// pausedDuring reports whether a job's shard was paused at some time within a span.
func (a *past) pausedDuring(j *jobLog, from, to int64) bool {
	l := a.row[j.shard]
	if l == nil || l.replayed == nil {
		return false
	}
	all := l.replayed.pauses
	for i, p := range all {
		over := to
		if k := slices.IndexFunc(all[i:], func(q pauseStep) bool { return !q.on }); k >= 0 {
			over = all[i+k].w.by
		}
		if p.on && p.w.main().inv.TS <= to && over >= from {
			return true
		}
	}
	return false
}
