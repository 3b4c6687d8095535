package past

import (
	"strings"

	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// How the errors of runs begin that were stopped with their worker, or not carried out by it.
const (
	Interrupted = "job: interrupted"
	NotHere     = "not to be run by this process"
)

// MostSpared is how many runs of a job may end without having spent an attempt. After one
// more it may be given up, and must not be claimed again.
const MostSpared = 20

// spares says whether a change lets a job run again without having spent an attempt.
func (j *Job) spares(c *history.Change) bool {
	return c.Do == history.DoRescue || c.Do == history.DoRetry && j.unspent(c.Run)
}

// unspent says whether a run that its own owner ends did not fail by itself: it was
// interrupted, or never began. One that began and has no known end has spent an attempt.
func (j *Job) unspent(run int64) bool {
	if f := j.Finishes[run]; f != nil {
		return strings.HasPrefix(f.Error, Interrupted) || strings.HasPrefix(f.Error, NotHere)
	}
	return !j.StartedBy(run, history.Forever)
}

// SparedBefore counts the claims before a step that did not count as attempts, since the
// job was enqueued or redriven.
func (j *Job) SparedBefore(step int) (n int) {
	for _, s := range j.Steps[:step] {
		switch {
		case s.Change.Do == history.DoRedrive, s.Change.Do == history.DoEnqueue:
			n = 0
		case j.spares(s.Change):
			n++
		}
	}
	return n
}

// Spent is how many attempts a job has spent when a step gives it up that found it so, and
// how many of its runs have spent none.
func (j *Job) Spent(step int, was JobState, w *Write) (attempts, spared int) {
	spared = j.SparedBefore(step)
	if was.Name == StateRunning && (RunFence(was.Run) != w.To.Fence || j.unspent(was.Run)) {
		spared++
	}
	return was.Attempt - spared, spared
}

// Early says whether a step gives a job up that may be tried again, and that the store had
// never refused.
func (r *Replay) Early(j *Job, step int, was JobState, w *Write) bool {
	attempts, spared := j.Spent(step, was, w)
	return attempts < j.Spec.MaxAttempts && spared <= MostSpared && !r.poisoned(j, w.Main().Invoke.TS)
}

// judgeClaim: a job is tried as often as it may be.
func (r *Replay) judgeClaim(j *Job, w *Write, c *history.Change) {
	most, spared := j.Spec.MaxAttempts, j.SparedBefore(len(j.Steps))
	switch {
	case most > 0 && c.Attempt > most+spared:
		r.bad("P5", j, w, "claims it for attempt %d of at most %d, and %d of those before do not count", c.Attempt, most, spared)
	case spared > MostSpared:
		r.bad("P5", j, w, "claims it again after %s that spent no attempt: at most %d may", phrase.Plural(spared, "run"), MostSpared)
	}
}
