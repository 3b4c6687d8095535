package checker

import (
	"strings"

	"fencepost/harness/record/history"
)

// How the errors of runs begin that were stopped with their worker, or not carried out by it.
const (
	interrupted = "job: interrupted"
	notHere     = "not to be run by this process"
)

// mostSpared is how many runs of a job may end without having spent an attempt. After one
// more it may be given up, and must not be claimed again.
const mostSpared = 20

// spares says whether a change lets a job run again without having spent an attempt.
func (j *jobLog) spares(c *history.Change) bool {
	return c.Do == history.DoRescue || c.Do == history.DoRetry && j.unspent(c.Run)
}

// unspent says whether a run that its own owner ends did not fail by itself: it was
// interrupted, or never began. One that began and has no known end has spent an attempt.
func (j *jobLog) unspent(run int64) bool {
	if f := j.finishes[run]; f != nil {
		return strings.HasPrefix(f.Error, interrupted) || strings.HasPrefix(f.Error, notHere)
	}
	return !j.startedBy(run, history.Forever)
}

// sparedBefore counts the claims before a step that did not count as attempts, since the
// job was enqueued or redriven.
func (j *jobLog) sparedBefore(step int) (n int) {
	for _, s := range j.steps[:step] {
		switch {
		case s.c.Do == history.DoRedrive, s.c.Do == history.DoEnqueue:
			n = 0
		case j.spares(s.c):
			n++
		}
	}
	return n
}

// spent is how many attempts a job has spent when a step gives it up that found it so, and
// how many of its runs have spent none.
func (j *jobLog) spent(step int, was jobState, w *write) (attempts, spared int) {
	spared = j.sparedBefore(step)
	if was.name == stateRunning && (runFence(was.run) != w.to.Fence || j.unspent(was.run)) {
		spared++
	}
	return was.attempt - spared, spared
}

// early says whether a step gives a job up that may be tried again, and that the store had
// never refused.
func (r *shardReplay) early(j *jobLog, step int, was jobState, w *write) bool {
	attempts, spared := j.spent(step, was, w)
	return attempts < j.spec.MaxAttempts && spared <= mostSpared && !r.poisoned(j, w.main().inv.TS)
}

// judgeClaim: a job is tried as often as it may be.
func (r *shardReplay) judgeClaim(j *jobLog, w *write, c *history.Change) {
	most, spared := j.spec.MaxAttempts, j.sparedBefore(len(j.steps))
	switch {
	case most > 0 && c.Attempt > most+spared:
		r.bad("P5", j, w, "claims it for attempt %d of at most %d, and %d of those before do not count", c.Attempt, most, spared)
	case spared > mostSpared:
		r.bad("P5", j, w, "claims it again after %s that spent no attempt: at most %d may", plural(spared, "run"), mostSpared)
	}
}
