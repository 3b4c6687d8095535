package past

import (
	"slices"
	"strings"

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
		case j.Spec.Overruns && c.Attempt == 1:
			r.bad("P5", j, w, "completes it after run %d, its first, which takes longer than a run of it may", c.Run)
		}
	case history.DoRetry, history.DoCancel:
		switch {
		case was.Name == StatePending: // cancelled from outside
		case finish == nil && j.StartedBy(c.Run, history.Forever), finish != nil && finish.TS > begun:
			r.bad("P5", j, w, "%s it although run %d had not finished", Verb(c.Do), c.Run)
		case finish != nil && finish.Error == "":
			r.bad("P5", j, w, "%s it although run %d had finished well", Verb(c.Do), c.Run)
		case c.Do == history.DoCancel && (finish == nil || !strings.HasPrefix(finish.Error, CancelPrefix)) && !j.cancelAsked(begun):
			r.bad("P5", j, w, "cancels it after run %d, which neither its handler nor a client had asked for", c.Run)
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
		case r.GivenUpEarly(j, len(j.Steps), was, w):
			attempts, spared := j.AttemptsSpent(len(j.Steps), was, w)
			r.bad("P5", j, w, "gives it up after %d of %d attempts and %s that spent none, and the store had never refused it",
				attempts, j.Spec.MaxAttempts, phrase.Plural(spared, "run"))
		}
	}
}

// judgeSweep: a job's id is remembered for a declared time after its end, by its
// owners' wall clocks, or an enqueue that comes again would run it again.
func (r *Replay) judgeSweep(j *Job, w *Write) {
	end := j.Last()
	sweeper := history.Life(w.Main().Invoke.Proc)
	if end == nil || r.a.ClockSetBy(sweeper, w.Latest) || r.a.ClockSetBy(history.Life(end.Invoke.Proc), w.Latest) {
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

// poisoned says whether the store had refused a batch with this job alone before: not because of
// another row, but the batch itself.
func (r *Replay) poisoned(j *Job, before int64) bool {
	t, ok := r.refusals[j.ID]
	return ok && t < before
}

// findRefusals finds when the store first refused a batch with a job alone, by job. A batch with
// others may have been refused for theirs, or as the store was in trouble.
func (l *Row) findRefusals() map[string]int64 {
	out := map[string]int64{}
	for _, c := range l.CAS {
		if c.Outcome != history.Fail || c.End.Error == "" || c.End.Row != nil {
			continue
		}
		id, alone := onlyJob(c.Invoke.Changes())
		if t, known := out[id]; alone && (!known || c.End.TS < t) {
			out[id] = c.End.TS
		}
	}
	return out
}

// onlyJob is the job that all changes of a batch are about: itself, the one that follows its end, or
// the occurrence that ends with it.
func onlyJob(changes []history.Change) (id string, only bool) {
	for c := range Each(changes) {
		switch {
		case c.Do == history.DoOver: // of a schedule whose occurrence ends with its job
		case c.Job == "":
			return "", false
		case id == "" && c.After == "":
			id = c.Job
		case c.Job != id && c.After != id:
			return "", false
		}
	}
	return id, id != ""
}

// How the errors of runs begin that were stopped with their worker, or not carried out by it,
// or after which their handlers ask for no other.
const (
	InterruptedPrefix = "job: interrupted"
	NotHerePrefix     = "not to be run by this process"
	PermanentPrefix   = "not to be tried again"
	CancelPrefix      = "job: cancelled by its handler"
)

// cancelAsked says whether a client had asked to cancel the job by an instant.
func (j *Job) cancelAsked(by int64) bool {
	return slices.ContainsFunc(j.Commands, func(o *Op) bool {
		return o.Invoke.Command().Do == history.DoCancel && o.Invoke.TS <= by && o.Outcome != history.Fail
	})
}

// MaxUncounted is how many runs of a job may end without having spent an attempt. After one
// more it may be given up, and must not be claimed again.
const MaxUncounted = 20

// uncounted says whether a change lets a job run again without having spent an attempt.
func (j *Job) uncounted(c *history.Change) bool {
	return c.Do == history.DoRescue || c.Do == history.DoRetry && j.unspent(c.Run)
}

// unspent says whether a run that its own owner ends did not fail by itself: it was
// interrupted, or never began. One that began and has no known end has spent an attempt.
func (j *Job) unspent(run int64) bool {
	if f := j.Finishes[run]; f != nil {
		return interrupted(f) || strings.HasPrefix(f.Error, NotHerePrefix)
	}
	return !j.StartedBy(run, history.Forever)
}

// interrupted says whether a run ended as its worker stopped.
func interrupted(finish *history.Event) bool {
	return strings.HasPrefix(finish.Error, InterruptedPrefix)
}

// Interrupted counts the runs that ended as their workers stopped.
func (j *Job) Interrupted() (n int) {
	for _, f := range j.Finishes {
		if interrupted(f) {
			n++
		}
	}
	return n
}

// UncountedBefore counts the claims before a step that did not count as attempts, since the
// job was enqueued or redriven.
func (j *Job) UncountedBefore(step int) (n int) {
	for _, s := range j.Steps[:step] {
		switch {
		case s.Change.Do == history.DoRedrive, s.Change.Do == history.DoEnqueue:
			n = 0
		case j.uncounted(s.Change):
			n++
		}
	}
	return n
}

// AttemptsSpent is how many attempts a job has spent when a step gives it up that found it so, and
// how many of its runs have spent none.
func (j *Job) AttemptsSpent(step int, was JobState, w *Write) (attempts, spared int) {
	spared = j.UncountedBefore(step)
	if was.Name == StateRunning && (RunFence(was.Run) != w.To.Fence || j.unspent(was.Run)) {
		spared++
	}
	return was.Attempt - spared, spared
}

// GivenUpEarly says whether a step gives a job up that may be tried again, and that the store had
// never refused.
func (r *Replay) GivenUpEarly(j *Job, step int, was JobState, w *Write) bool {
	attempts, spared := j.AttemptsSpent(step, was, w)
	return attempts < j.Spec.MaxAttempts && spared <= MaxUncounted && !r.poisoned(j, w.Main().Invoke.TS) && !j.failedForGood(was, w)
}

// failedForGood says whether the run that the owner found at work asked for no other.
func (j *Job) failedForGood(was JobState, w *Write) bool {
	f := j.Finishes[was.Run]
	return was.Name == StateRunning && RunFence(was.Run) == w.To.Fence && f != nil && strings.HasPrefix(f.Error, PermanentPrefix)
}

// judgeClaim: a job is tried as often as it may be.
func (r *Replay) judgeClaim(j *Job, w *Write, c *history.Change) {
	most, spared := j.Spec.MaxAttempts, j.UncountedBefore(len(j.Steps))
	switch {
	case most > 0 && c.Attempt > most+spared:
		r.bad("P5", j, w, "claims it for attempt %d of at most %d, and %d of those before do not count", c.Attempt, most, spared)
	case spared > MaxUncounted:
		r.bad("P5", j, w, "claims it again after %s that spent no attempt: at most %d may", phrase.Plural(spared, "run"), MaxUncounted)
	}
}

// follows gives each job that a batch enqueues to follow another what its sequence asks
// of it.
func (r *Replay) follows(changes []history.Change) {
	for c := range Each(changes) {
		if c.Do != history.DoEnqueue || c.After == "" {
			continue
		}
		before, j := r.a.Jobs.of(r.l.Name, c.After), r.a.Jobs.of(r.l.Name, c.Job)
		if j.After == nil {
			j.After = before
		}
		if j.Spec == nil && before.Spec != nil && len(before.Spec.Then) > 0 {
			spec := before.Spec.Then[0]
			spec.Then = before.Spec.Then[1:]
			spec.Resource += j.ID
			j.Spec = &spec
		}
	}
}

// continues says whether the next job of a sequence follows one that has ended.
func continues(j *history.Job, state string) bool {
	return state == StateCompleted || j.GoOn && (state == StateDLQ || state == StateAbandoned)
}

// sequences is the part of P5 that a batch decides: the batch that ends a job enqueues
// the one that follows it, once; and nothing follows a job that has not ended, or whose
// failure ends its sequence.
func (r *Replay) sequences(w *Write, changes []history.Change) {
	for c := range Each(changes) {
		if c.Do != history.DoEnqueue || c.After == "" {
			continue
		}
		j := r.a.Jobs.of(r.l.Name, c.Job)
		before := j.After
		last := before.Steps[max(0, len(before.Steps)-1):]
		switch {
		case r.stretch > 1 && (len(last) == 0 || before.Spec == nil):
			continue // what came before is not known
		case before.Spec == nil || len(before.Spec.Then) == 0:
			r.bad("P5", j, w, "enqueues it to follow job %s, which nothing follows", c.After)
		case len(last) == 0 || last[0].Write != w || !Ended(before.Now.Name):
			r.bad("P5", j, w, "enqueues it to follow job %s, which does not end by that batch: it is %s", c.After, before.Now)
		case !continues(before.Spec, before.Now.Name):
			r.a.Jobs.Astray = append(r.a.Jobs.Astray, Astray{before, before.Now.Name, j, w})
			r.bad("P5", j, w, "enqueues it to follow job %s, which ends as %s: its sequence ends there", c.After, before.Now)
		case before.next != nil && before.next != j:
			r.bad("P5", j, w, "enqueues it to follow job %s, which job %s follows already", c.After, before.next.ID)
		}
		if before.next == nil {
			before.next = j
			r.a.Jobs.Counts.Followed++
		}
	}
	for c := range Each(changes) {
		if c.Job != "" {
			r.followed(w, r.a.Jobs.of(r.l.Name, c.Job))
		}
	}
}

// followed looks at a job that a batch has changed: whether it ended, and the next one of
// its sequence came.
func (r *Replay) followed(w *Write, j *Job) {
	switch {
	case j.Spec == nil || len(j.Spec.Then) == 0 || !Ended(j.Now.Name):
	case !continues(j.Spec, j.Now.Name):
		r.a.Jobs.Counts.Stopped++
	case j.next != nil, r.stretch > 1, j.Now.Name == StateDLQ && r.poisoned(j, w.Main().Invoke.TS):
	default:
		if j.Now.Name != StateCompleted {
			r.a.Jobs.Astray = append(r.a.Jobs.Astray, Astray{j, j.Now.Name, nil, w})
		}
		r.bad("P5", j, w, "ends it as %s and does not enqueue the job that follows it: the rest of its sequence is lost", j.Now)
	}
}

// neverCame: a batch enqueued a job for a schedule or to follow another, and its row is
// not there.
func (j *Job) RowMissing(a *Past) bool {
	return (j.Schedule != nil || j.After != nil) && a.RowsRead(j) && j.Now.Name != "" && j.Row(history.RowJob) == nil
}
