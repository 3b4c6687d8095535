package past

import (
	"slices"

	"fencepost/harness/record/history"
)

// Pause is a batch that paused or resumed a shard.
type Pause struct {
	w       *Write
	on      bool
	stretch int // of the chain, in which it is known
}

// Pauses reports whether a change is of the whole shard.
func Pauses(c *history.Change) bool { return c.Do == history.DoPause || c.Do == history.DoResume }

// paused is the pause that lasts, or nil.
func (r *Replay) paused() *Pause {
	if n := len(r.Pauses); n > 0 && r.Pauses[n-1].on && (r.stretch == 1 || r.Pauses[n-1].stretch == r.stretch) {
		return &r.Pauses[n-1]
	}
	return nil
}

// pause applies what a batch does to its shard, before all else that it does: a claim
// may ride with the end of a pause, not with its beginning.
func (r *Replay) pause(w *Write) {
	changes := w.Main().Invoke.Changes()
	for c := range Each(changes) {
		if !Pauses(c) {
			continue
		}
		on := c.Do == history.DoPause
		if r.stretch == 1 && on == (r.paused() != nil) {
			m := w.Main()
			r.a.Jobs.add("P2", r.l.Name, Events(&m.Op), "the %s of %s by %s to %s does %q to it, though it was so before",
				m.Kind(), r.l.Name, m.Invoke.Proc, r.l.Text(w.To), c.Do)
		}
		if on {
			r.a.Jobs.Counts.Pauses++
		}
		clear(r.own) // a shard that is paused keeps nothing in memory
		r.Pauses = append(r.Pauses, Pause{w, on, r.stretch})
	}
}

// judgePaused is the part of P12 that a pause asks for: nothing is claimed while it lasts.
func (r *Replay) judgePaused(j *Job, w *Write, c *history.Change) {
	if p := r.paused(); p != nil && c.Do == history.DoClaim {
		r.bad("P12", j, w, "claims it as run %d, though %s was paused by %s", c.Run, r.l.Name, r.l.Text(p.w.To))
	}
}

// ResumedAt is when the last pause of a job's shard was over, in ns, 0 if there was none,
// and whether one lasts to the end.
func (a *Past) ResumedAt(j *Job) (ts int64, lasts bool) {
	l := a.RowOf[j.Shard]
	if l == nil || l.Replayed == nil || len(l.Replayed.Pauses) == 0 {
		return 0, false
	}
	last := l.Replayed.Pauses[len(l.Replayed.Pauses)-1]
	return last.w.Latest, last.on
}

// PausedDuring reports whether a job's shard was paused at some time within a span.
func (a *Past) PausedDuring(j *Job, from, to int64) bool {
	l := a.RowOf[j.Shard]
	if l == nil || l.Replayed == nil {
		return false
	}
	all := l.Replayed.Pauses
	for i, p := range all {
		over := to
		if k := slices.IndexFunc(all[i:], func(q Pause) bool { return !q.on }); k >= 0 {
			over = all[i+k].w.Latest
		}
		if p.on && p.w.Main().Invoke.TS <= to && over >= from {
			return true
		}
	}
	return false
}
