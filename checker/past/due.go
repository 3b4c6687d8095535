package past

import (
	"math"

	"fencepost/harness/record/history"
)

// ScheduledMS is the job's own time, 0 if it was asked for at once.
func (j *Job) ScheduledMS() int64 {
	if j.Spec == nil {
		return 0
	}
	return j.Spec.DueMS
}

// ScheduledIn is the job's own time in a state that it was in.
func (j *Job) ScheduledIn(s JobState) int64 {
	if s.expedited {
		return 0
	}
	return j.ScheduledMS()
}

// dueSetBy is the fence of the owner that said last when the job is due.
func (j *Job) dueSetBy() int64 { return j.Steps[len(j.Steps)-1].Write.To.Fence }

// dueLate is by how much later than now an owner may call a job due that was asked for at once, in
// ms: by as much its wall clock may lead, for whatever reason but a fault.
const dueLate = 10_000

// later is by how much a change makes a job due later than it may, in ms: that is its own time, or a
// wait from now on.
func (r *Replay) later(w *Write, c *history.Change, own, wait int64) int64 {
	now := r.a.WallAt(w.Latest)
	if now == 0 {
		return 0
	}
	lead := r.a.host.most(0, w.Latest) - r.a.host.at(w.Latest)
	for _, e := range r.a.Clocks[history.Life(w.Main().Invoke.Proc)] {
		if e.TS <= w.Latest+notedLate {
			lead = max(lead, e.Clock().OffsetMS)
		}
	}
	if late := c.DueMS - max(own, now+wait); late > dueLate+lead {
		return late
	}
	return 0
}

// longestWait is how long a change may have the job wait at most, in ms: after a run that failed for
// as long as its policy says, after any attempt; else not.
func (j *Job) longestWait(do string) (most int64) {
	if do != history.DoRetry {
		return 0
	}
	p := j.Spec
	if p == nil || p.Retry == nil {
		return int64(Backoff(&history.Retry{BaseMS: math.MaxInt32}, 1))
	}
	for attempt := range max(p.MaxAttempts, 1) {
		_, wait := Waits(p.Retry, attempt+1)
		most = max(most, wait)
	}
	return most
}

// ClocksApart bounds by how much the wall clocks of a run's processes differ by themselves, with
// how they are read, in ms.
const ClocksApart = 1000

// judgeDue is the part of P12 that a change decides. A job is never due before its own
// time, and no later than that and than now, unless its policy has it wait. Else an owner keeps to
// what it said itself, unless its clock was set; what another said it may take for earlier, as that
// one's clock may have been ahead.
func (r *Replay) judgeDue(j *Job, was JobState, w *Write, c *history.Change) {
	own := j.ScheduledIn(was)
	set := r.a.ClockSet(history.Life(w.Main().Invoke.Proc))
	switch c.Do {
	case history.DoEnqueue, history.DoRedrive, history.DoRescue, history.DoRetry:
		switch {
		case c.DueMS < own:
			r.bad("P12", j, w, "makes it due at %d, %d ms before it was asked to be", c.DueMS, own-c.DueMS)
		case c.Do == history.DoRetry && c.DueMS < was.Due && !set:
			r.bad("P12", j, w, "makes it due at %d, %d ms before it was due in the first place", c.DueMS, was.Due-c.DueMS)
		case r.later(w, c, own, j.longestWait(c.Do)) > 0:
			r.bad("P12", j, w, "makes it due at %d, %d ms later than it may be at most", c.DueMS, r.later(w, c, own, j.longestWait(c.Do)))
		}
	case history.DoHasten:
		if r.later(w, c, 0, 0) > 0 {
			r.bad("P12", j, w, "brings it forward to %d, %d ms later than now", c.DueMS, r.later(w, c, 0, 0))
		} else if c.DueMS > was.Due+readingSlack && j.dueSetBy() == w.To.Fence && !set {
			r.bad("P12", j, w, "brings it forward to %d, but it was due at %d", c.DueMS, was.Due)
		}
	case history.DoClaim:
		said := j.dueSetBy()
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

// OwnedSince is when the owner of a claim had first anything to do with its job.
func (k *Claim) OwnedSince() int64 {
	for _, s := range k.Job.Steps {
		if s.Write.To.Fence == k.Write.To.Fence {
			return s.Write.Main().Invoke.TS
		}
	}
	return k.Was.Since
}

// DueMS is when the job of a claim was due.
func (k *Claim) DueMS() int64 {
	if k.Change.DueMS > 0 {
		return k.Change.DueMS
	}
	return k.Was.Due
}
