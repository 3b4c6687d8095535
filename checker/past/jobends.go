package past

import (
	"slices"

	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// judgeEnd is the part of P5 that a change decides: whether the job came to the
// right end, or may be tried again.
func (r *Replay) judgeEnd(j *Job, was JobState, w *Write, c *history.Change) {
	if j.Spec == nil {
		return // P5 says so
	}
	finish := j.Finishes[c.Run]
	begun := w.Main().Invoke.TS
	switch c.Do {
	case history.DoEnqueue:
		if len(j.Calls) > 0 && begun < j.Calls[0].Invoke.TS {
			r.bad("P5", j, w, "enqueues it %s before anybody asked for it", phrase.MS(j.Calls[0].Invoke.TS-begun))
		}
	case history.DoClaim:
		r.judgeClaim(j, w, c)
	case history.DoComplete:
		switch {
		case !j.StartedBy(c.Run, begun):
			r.bad("P5", j, w, "completes it although run %d had not started", c.Run)
		case finish == nil || finish.TS > begun:
			r.bad("P5", j, w, "completes it although run %d had not finished", c.Run)
		case finish.Error != "":
			r.bad("P5", j, w, "completes it although run %d failed: %s", c.Run, finish.Error)
		}
	case history.DoRetry, history.DoCancel:
		switch {
		case was.Name == StatePending: // cancelled from outside
		case finish == nil && j.StartedBy(c.Run, history.Forever), finish != nil && finish.TS > begun:
			r.bad("P5", j, w, "%s it although run %d had not finished", Verbs[c.Do], c.Run)
		case finish != nil && finish.Error == "":
			r.bad("P5", j, w, "%s it although run %d had finished well", Verbs[c.Do], c.Run)
		}
	case history.DoRescue:
		if j.Spec.AtMostOnce {
			r.bad("P5", j, w, "lets it run again after run %d was cut short: it may have at most one run that is", c.Run)
		}
	case history.DoAbandon:
		if !j.Spec.AtMostOnce {
			r.bad("P5", j, w, "abandons it, but it must be run again")
		}
	case history.DoSweep:
		r.judgeSweep(j, w)
	case history.DoDLQ:
		own := was.Name == StateRunning && RunFence(c.Run) == w.To.Fence // not a run that was cut short
		switch {
		case r.poisoned(j, begun):
		case own && j.StartedBy(c.Run, begun) && (finish == nil || finish.TS > begun):
			r.bad("P5", j, w, "gives it up although run %d had not finished", c.Run)
		case own && finish != nil && finish.Error == "":
			r.bad("P5", j, w, "gives it up although run %d had finished well", c.Run)
		case r.Early(j, len(j.Steps), was, w):
			attempts, spared := j.Spent(len(j.Steps), was, w)
			r.bad("P5", j, w, "gives it up after %d of %d attempts and %s that spent none, and the store had never refused it", attempts, j.Spec.MaxAttempts, phrase.Plural(spared, "run"))
		}
	}
}

// judgeSweep: a job's id is remembered for a declared time after its end, by its
// owners' wall clocks, or an enqueue that comes again would run it again.
func (r *Replay) judgeSweep(j *Job, w *Write) {
	end := j.Last()
	sweeper := history.Life(w.Main().Invoke.Proc)
	if end == nil || len(r.a.Clocks[sweeper])+len(r.a.Clocks[history.Life(end.Invoke.Proc)]) > 0 {
		return
	}
	window := r.a.HeaderOf(sweeper).DedupeMS * 1e6
	if after := w.Latest - end.Invoke.TS; after < window {
		r.bad("P5", j, w, "forgets it at most %s after its end: its id must be remembered for %s", phrase.MS(after), phrase.MS(window))
	}
}

// startedBy: a run that is interrupted before it begins never is.
func (j *Job) StartedBy(run, at int64) bool {
	return slices.ContainsFunc(j.Starts, func(e *history.Event) bool { return e.Token == run && e.TS <= at })
}

// poisoned says whether the store had refused a batch with the job before: not
// because of another row, but the batch itself.
func (r *Replay) poisoned(j *Job, before int64) bool {
	t, ok := r.refusals[j.ID]
	return ok && t < before
}

// findRefusals finds when the store first refused a batch with a job, by job.
func (l *Row) findRefusals() map[string]int64 {
	out := map[string]int64{}
	for _, c := range l.CAS {
		if c.Outcome != history.Fail || c.End.Error == "" || c.End.Row != nil {
			continue
		}
		for i := range c.Invoke.Changes() {
			id := c.Invoke.Changes()[i].Job
			if t, known := out[id]; !known || c.End.TS < t {
				out[id] = c.End.TS
			}
		}
	}
	return out
}
