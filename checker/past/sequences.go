package past

import "fencepost/harness/record/history"

// follows gives each job that a batch enqueues to follow another what its sequence asks
// of it.
func (r *Replay) follows(changes []history.Change) {
	for i := range changes {
		c := &changes[i]
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

// goesOn says whether the next job of a sequence follows one that has ended.
func goesOn(j *history.Job, state string) bool {
	return state == StateCompleted || j.GoOn && (state == StateDLQ || state == StateAbandoned)
}

// sequences is the part of P5 that a batch decides: the batch that ends a job enqueues
// the one that follows it, once; and nothing follows a job that has not ended, or whose
// failure ends its sequence.
func (r *Replay) sequences(w *Write, changes []history.Change) {
	for i := range changes {
		c := &changes[i]
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
		case !goesOn(before.Spec, before.Now.Name):
			r.bad("P5", j, w, "enqueues it to follow job %s, which ends as %s: its sequence ends there", c.After, before.Now)
		case before.next != nil && before.next != j:
			r.bad("P5", j, w, "enqueues it to follow job %s, which job %s follows already", c.After, before.next.ID)
		}
		if before.next == nil {
			before.next = j
			r.a.Jobs.Counts.Followed++
		}
	}
	for i := range changes {
		if c := &changes[i]; c.Job != "" {
			r.followed(w, r.a.Jobs.of(r.l.Name, c.Job))
		}
	}
}

// followed looks at a job that a batch has changed: whether it ended, and the next one of
// its sequence came.
func (r *Replay) followed(w *Write, j *Job) {
	switch {
	case j.Spec == nil || len(j.Spec.Then) == 0 || !Ended(j.Now.Name):
	case !goesOn(j.Spec, j.Now.Name):
		r.a.Jobs.Counts.Stopped++
	case j.next != nil, r.stretch > 1, j.Now.Name == StateDLQ && r.poisoned(j, w.Main().Invoke.TS):
	default:
		r.bad("P5", j, w, "ends it as %s and does not enqueue the job that follows it: the rest of its sequence is lost", j.Now)
	}
}

// neverCame: a batch enqueued a job for a schedule or to follow another, and its row is
// not there.
func (j *Job) NeverCame(a *Past) bool {
	return (j.Schedule != nil || j.After != nil) && a.RowsRead(j) && j.Now.Name != "" && j.Row(history.RowJob) == nil
}
