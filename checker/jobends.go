package checker

import (
	"slices"

	"fencepost/harness/record/history"
)

// judgeEnd is the part of P5 that a change decides: whether the job came to the
// right end, or may be tried again.
func (r *shardReplay) judgeEnd(j *jobLog, was jobState, w *write, c *history.Change) {
	if j.spec == nil {
		return // reported by checkJobs
	}
	finish := j.finishes[c.Run]
	begun := w.main().inv.TS
	switch c.Do {
	case history.DoEnqueue:
		if len(j.calls) > 0 && begun < j.calls[0].inv.TS {
			r.bad("P5", j, w, "enqueues it %s before anybody asked for it", ms(j.calls[0].inv.TS-begun))
		}
	case history.DoClaim:
		r.judgeClaim(j, w, c)
	case history.DoComplete:
		switch {
		case !j.startedBy(c.Run, begun):
			r.bad("P5", j, w, "completes it although run %d had not started", c.Run)
		case finish == nil || finish.TS > begun:
			r.bad("P5", j, w, "completes it although run %d had not finished", c.Run)
		case finish.Error != "":
			r.bad("P5", j, w, "completes it although run %d failed: %s", c.Run, finish.Error)
		}
	case history.DoRetry, history.DoCancel:
		switch {
		case was.name == statePending: // cancelled from outside
		case finish == nil && j.startedBy(c.Run, history.Forever), finish != nil && finish.TS > begun:
			r.bad("P5", j, w, "%s it although run %d had not finished", does[c.Do], c.Run)
		case finish != nil && finish.Error == "":
			r.bad("P5", j, w, "%s it although run %d had finished well", does[c.Do], c.Run)
		}
	case history.DoRescue:
		if j.spec.AtMostOnce {
			r.bad("P5", j, w, "lets it run again after run %d was cut short: it may have at most one run that is", c.Run)
		}
	case history.DoAbandon:
		if !j.spec.AtMostOnce {
			r.bad("P5", j, w, "abandons it, but it must be run again")
		}
	case history.DoSweep:
		r.judgeSweep(j, w)
	case history.DoDLQ:
		own := was.name == stateRunning && runFence(c.Run) == w.to.Fence // not a run that was cut short
		switch {
		case r.poisoned(j, begun):
		case own && j.startedBy(c.Run, begun) && (finish == nil || finish.TS > begun):
			r.bad("P5", j, w, "gives it up although run %d had not finished", c.Run)
		case own && finish != nil && finish.Error == "":
			r.bad("P5", j, w, "gives it up although run %d had finished well", c.Run)
		case r.early(j, len(j.steps), was, w):
			attempts, spared := j.spent(len(j.steps), was, w)
			r.bad("P5", j, w, "gives it up after %d of %d attempts and %s that spent none, and the store had never refused it", attempts, j.spec.MaxAttempts, plural(spared, "run"))
		}
	}
}

// judgeSweep: a job's id is remembered for a declared time after its end, by its
// owners' wall clocks, or an enqueue that comes again would run it again.
func (r *shardReplay) judgeSweep(j *jobLog, w *write) {
	end := j.last()
	sweeper := history.Life(w.main().inv.Proc)
	if end == nil || len(r.a.clocks[sweeper])+len(r.a.clocks[history.Life(end.inv.Proc)]) > 0 {
		return
	}
	window := r.a.headerOf(sweeper).DedupeMS * 1e6
	if after := w.by - end.inv.TS; after < window {
		r.bad("P5", j, w, "forgets it at most %s after its end: its id must be remembered for %s", ms(after), ms(window))
	}
}

// startedBy: a run that is interrupted before it begins never is.
func (j *jobLog) startedBy(run, at int64) bool {
	return slices.ContainsFunc(j.starts, func(e *history.Event) bool { return e.Token == run && e.TS <= at })
}

// poisoned says whether the store had refused a batch with the job before: not
// because of another row, but the batch itself.
func (r *shardReplay) poisoned(j *jobLog, before int64) bool {
	t, ok := r.refusals[j.id]
	return ok && t < before
}

// findRefusals finds when the store first refused a batch with a job, by job.
func (l *rowLog) findRefusals() map[string]int64 {
	out := map[string]int64{}
	for _, c := range l.cas {
		if c.outcome != history.Fail || c.end.Error == "" || c.end.Row != nil {
			continue
		}
		for i := range c.inv.Changes() {
			id := c.inv.Changes()[i].Job
			if t, known := out[id]; !known || c.end.TS < t {
				out[id] = c.end.TS
			}
		}
	}
	return out
}
