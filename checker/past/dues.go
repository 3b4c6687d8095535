package past

import "fencepost/harness/record/history"

// OwnMS is the job's own time, 0 if it was asked for at once.
func (j *Job) OwnMS() int64 {
	if j.Spec == nil {
		return 0
	}
	return j.Spec.DueMS
}

// OwnIn is the job's own time in a state that it was in.
func (j *Job) OwnIn(s JobState) int64 {
	if s.hastened {
		return 0
	}
	return j.OwnMS()
}

// saidBy is the fence of the owner that said last when the job is due.
func (j *Job) saidBy() int64 { return j.Steps[len(j.Steps)-1].Write.To.Fence }

// judgeDue is the part of P12 that a change decides. A job is never due before its own
// time. Else an owner keeps to what it said itself, unless its clock was set; what
// another said it may take for earlier, as that one's clock may have been ahead.
func (r *Replay) judgeDue(j *Job, was JobState, w *Write, c *history.Change) {
	own := j.OwnIn(was)
	set := len(r.a.Clocks[history.Life(w.Main().Invoke.Proc)]) > 0
	switch c.Do {
	case history.DoEnqueue, history.DoRedrive, history.DoRescue, history.DoRetry:
		switch {
		case c.DueMS < own:
			r.bad("P12", j, w, "makes it due at %d, %d ms before it was asked to be", c.DueMS, own-c.DueMS)
		case c.Do == history.DoRetry && c.DueMS < was.Due && !set:
			r.bad("P12", j, w, "makes it due at %d, %d ms before it was due in the first place", c.DueMS, was.Due-c.DueMS)
		}
	case history.DoHasten:
		if c.DueMS > was.Due+readingSlack && j.saidBy() == w.To.Fence && !set {
			r.bad("P12", j, w, "brings it forward to %d, but it was due at %d", c.DueMS, was.Due)
		}
	case history.DoClaim:
		said := j.saidBy()
		switch {
		case c.DueMS == 0 || c.DueMS == was.Due: // 0: it is not said
		case c.DueMS > was.Due:
			r.bad("P12", j, w, "claims it as due at %d, but it was due at %d", c.DueMS, was.Due)
		case c.DueMS < own:
			r.bad("P12", j, w, "claims it as due at %d, %d ms before it was asked to be", c.DueMS, own-c.DueMS)
		case said == w.To.Fence && !set:
			r.bad("P12", j, w, "claims it as due at %d, %d ms before its owner itself had said", c.DueMS, was.Due-c.DueMS)
		}
	}
}

// LeastSlack is how long before what it does is recorded a worker can at least have
// looked at its wall clock.
const LeastSlack = int64(1e9)

// ClockSlack is leastSlack for a batch: as long as its owner may have another one on its
// way.
func (l *Row) ClockSlack() int64 {
	slack := LeastSlack
	for _, c := range l.CAS {
		if c.Kind() == history.OpTake {
			slack = max(slack, c.TTL())
		}
	}
	return slack
}

// DueMS is when the job of a claim was due.
func (k *Claim) DueMS() int64 {
	if k.Change.DueMS > 0 {
		return k.Change.DueMS
	}
	return k.Was.Due
}
