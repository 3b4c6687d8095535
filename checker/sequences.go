package checker

import (
	"fmt"

	"fencepost/harness/record/history"
)

// follows gives each job that a batch enqueues to follow another what its sequence asks
// of it.
func (r *shardReplay) follows(changes []history.Change) {
	for i := range changes {
		c := &changes[i]
		if c.Do != history.DoEnqueue || c.After == "" {
			continue
		}
		before, j := r.a.jobs.of(r.l.name, c.After), r.a.jobs.of(r.l.name, c.Job)
		if j.after == nil {
			j.after = before
		}
		if j.spec == nil && before.spec != nil && len(before.spec.Then) > 0 {
			spec := before.spec.Then[0]
			spec.Then = before.spec.Then[1:]
			spec.Resource += j.id
			j.spec = &spec
		}
	}
}

// goesOn says whether the next job of a sequence follows one that has ended.
func goesOn(j *history.Job, state string) bool {
	return state == stateCompleted || j.GoOn && (state == stateDLQ || state == stateAbandoned)
}

// sequences is the part of P5 that a batch decides: the batch that ends a job enqueues
// the one that follows it, once; and nothing follows a job that has not ended, or whose
// failure ends its sequence.
func (r *shardReplay) sequences(w *write, changes []history.Change) {
	for i := range changes {
		c := &changes[i]
		if c.Do != history.DoEnqueue || c.After == "" {
			continue
		}
		j := r.a.jobs.of(r.l.name, c.Job)
		before := j.after
		last := before.steps[max(0, len(before.steps)-1):]
		switch {
		case r.stretch > 1 && (len(last) == 0 || before.spec == nil):
			continue // what came before is not known
		case before.spec == nil || len(before.spec.Then) == 0:
			r.bad("P5", j, w, "enqueues it to follow job %s, which nothing follows", c.After)
		case len(last) == 0 || last[0].w != w || !ended(before.now.name):
			r.bad("P5", j, w, "enqueues it to follow job %s, which does not end by that batch: it is %s", c.After, before.now)
		case !goesOn(before.spec, before.now.name):
			r.bad("P5", j, w, "enqueues it to follow job %s, which ends as %s: its sequence ends there", c.After, before.now)
		case before.next != nil && before.next != j:
			r.bad("P5", j, w, "enqueues it to follow job %s, which job %s follows already", c.After, before.next.id)
		}
		if before.next == nil {
			before.next = j
			r.a.jobs.n.Followed++
		}
	}
	for i := range changes {
		if c := &changes[i]; c.Job != "" {
			r.followed(w, r.a.jobs.of(r.l.name, c.Job))
		}
	}
}

// followed looks at a job that a batch has changed: whether it ended, and the next one of
// its sequence came.
func (r *shardReplay) followed(w *write, j *jobLog) {
	switch {
	case j.spec == nil || len(j.spec.Then) == 0 || !ended(j.now.name):
	case !goesOn(j.spec, j.now.name):
		r.a.jobs.n.Stopped++
	case j.next != nil, r.stretch > 1, j.now.name == stateDLQ && r.poisoned(j, w.main().inv.TS):
	default:
		r.bad("P5", j, w, "ends it as %s and does not enqueue the job that follows it: the rest of its sequence is lost", j.now)
	}
}

// checkNext: a job that was enqueued to follow another exists.
func (a *past) checkNext(j *jobLog, p *Property) {
	if l := a.row[j.shard]; j.after != nil && l != nil && l.whole && j.neverCame(a) {
		p.add(j.id, append(both(j.last()), j.rows...), "job %s ended by a batch that took effect, and the job that was to follow it, %s, is not in %s: the rest of its sequence is lost", j.after.id, j.id, j.shard)
	}
}

// neverCame: a batch enqueued a job for a schedule or to follow another, and its row is
// not there.
func (j *jobLog) neverCame(a *past) bool {
	return (j.of != nil || j.after != nil) && a.rowsRead(j) && j.now.name != "" && j.row(history.RowJob) == nil
}

// sequenceText says in P5's detail what was seen of sequences, "" without any.
func (n *JobCounts) sequenceText() string {
	if n.Followed+n.Stopped == 0 {
		return ""
	}
	return fmt.Sprintf("; %s that %s another, %s that ended with a failure", plural(n.Followed, "job"), map[bool]string{true: "follows", false: "follow"}[n.Followed == 1], plural(n.Stopped, "sequence"))
}
