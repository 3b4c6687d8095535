package property

import (
	"fmt"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// sound says whether a shard's own chain contradicts nothing: what happens to jobs by
// batches that are lost, done twice or written over tells nothing about jobs.
func (x *Inquiry) sound(l *past.Row) bool {
	if l == nil || !l.Whole {
		return false
	}
	return !slices.ContainsFunc(l.Writes, func(w *past.Write) bool {
		return (w.Pos < 0) == (w.OK() != nil) && (w.Pos >= 0 || w.OK() != nil) && (w.OK() != nil || !w.Possible())
	})
}

// ofJob lowers the weight of what a shard without a sound chain shows.
func (x *Inquiry) ofJob(j *past.Job, w Weight) Weight {
	if x.sound(x.RowOf[j.Shard]) {
		return w
	}
	return symptom
}

// walk is a job's state as its batches make it, change by change.
type walk struct {
	j       *past.Job
	state   string
	attempt int
	run     int64
	step    int // of the next change
}

func (k *walk) next() {
	c := k.j.Steps[k.step].Change
	k.step++
	switch c.Do {
	case history.DoEnqueue, history.DoRedrive:
		k.state, k.attempt = past.StatePending, 0
	case history.DoClaim:
		k.state, k.attempt, k.run = past.StateRunning, c.Attempt, c.Run
	case history.DoComplete:
		k.state = past.StateCompleted
	case history.DoRetry, history.DoRescue:
		k.state = past.StatePending
	case history.DoDLQ:
		k.state = past.StateDLQ
	case history.DoCancel:
		k.state = past.StateCancelled
	case history.DoAbandon:
		k.state = past.StateAbandoned
	case history.DoSweep:
		k.state, k.attempt = "", 0
	}
}

// change is the step of a chain that shows what a batch does to a job.
func (x *Inquiry) change(role string, s past.JobStep) Step {
	m := s.Write.Main()
	text := fmt.Sprintf("%s %s job %s", m.Invoke.Proc, past.Verbs[s.Change.Do], s.Change.Job)
	if s.Change.Run != 0 {
		text += fmt.Sprintf(": run %d, attempt %d", s.Change.Run, s.Change.Attempt)
	}
	return x.step(role, m.Invoke, "%s (%s of %s)", text, m.Kind(), m.Invoke.Key)
}

// jobStates: attempts that begin again, and claims of what is not pending.
func (x *Inquiry) jobStates() {
	fewer, claimed := 0, []reclaim{}
	early := map[string]int{}
	for _, j := range x.Jobs.List {
		k := walk{j: j}
		for k.step < len(j.Steps) {
			s := j.Steps[k.step]
			before := func() []Step {
				if k.step == 0 {
					return nil
				}
				return []Step{x.change(RoleBefore, j.Steps[k.step-1])}
			}
			switch c := s.Change; {
			case c.Do == history.DoClaim && k.state != past.StatePending && k.state != "":
				claimed = append(claimed, reclaim{j, k.step})
				sus := x.suspect("claim-leaves-row", x.ofJob(j, shown), len(claimed), "job %s is claimed as run %d when it is %s", j.ID, c.Run, k.state)
				sus.show(j.ID, s.Write.Main().Invoke.TS, []string{s.Write.Main().Invoke.Proc}, append(before(), x.change(RoleMistake, s))...)
			case c.Do == history.DoClaim && k.state == past.StatePending && c.Attempt <= k.attempt,
				slices.Contains([]string{history.DoRescue, history.DoRetry, history.DoComplete, history.DoAbandon, history.DoDLQ}, c.Do) && k.state == past.StateRunning && c.Attempt < k.attempt:
				fewer++
				sus := x.suspect("attempts-in-memory", x.ofJob(j, shown), fewer, "job %s: after attempt %d the owner that %s it counts %d", j.ID, k.attempt, past.Verbs[c.Do], c.Attempt)
				sus.show(j.ID, s.Write.Main().Invoke.TS, []string{s.Write.Main().Invoke.Proc}, append(before(), x.change(RoleMistake, s))...)
			case c.Do == history.DoDLQ && x.failed("P5"):
				id, why := x.givenUpEarly(&k, s)
				if id == "" {
					break
				}
				early[id]++
				sus := x.suspect(id, x.ofJob(j, shown), early[id], "job %s is given up by %s, and the store had never refused it: %s", j.ID, s.Write.Main().Invoke.Proc, why)
				sus.show(j.ID, s.Write.Main().Invoke.TS, []string{s.Write.Main().Invoke.Proc}, append(before(), x.change(RoleMistake, s))...)
			}
			k.next()
		}
	}
	x.lateCopies(claimed)
}

// reclaim is a claim of a job that was not pending.
type reclaim struct {
	j *past.Job
	i int // the claim, in its steps
}

// late is the change that made the job pending with the attempts that the claim goes on from,
// if a copy of its batch may have come late.
func (r reclaim) late() *past.JobStep {
	for i := range r.j.Steps[:r.i] {
		s := &r.j.Steps[i]
		switch s.Change.Do {
		case history.DoEnqueue, history.DoRedrive, history.DoRetry, history.DoRescue, history.DoHasten:
			if s.Change.Attempt == r.j.Steps[r.i].Change.Attempt-1 && resent(s.Write) {
				return s
			}
		}
	}
	return nil
}

// resent: the batch was sent several times, or a copy of it was not answered.
func resent(w *past.Write) bool {
	c := w.Main()
	return c.End == nil || c.Outcome == history.Unknown || len(c.End.Sends) > 1
}

// lateCopies: all jobs that are claimed again were made pending by a batch of which a late
// copy may have done that again. That the claims left the row is the alternative.
func (x *Inquiry) lateCopies(claimed []reclaim) {
	if len(claimed) == 0 || slices.ContainsFunc(claimed, func(r reclaim) bool { return r.late() == nil }) {
		return
	}
	for i, r := range claimed {
		late, again := *r.late(), r.j.Steps[r.i]
		s := x.suspect("late-copy-done-again", x.ofJob(r.j, shown), i+1, "job %s is claimed again as attempt %d; the batch that %s it was %s",
			r.j.ID, again.Change.Attempt, past.Verbs[late.Change.Do], sent(&late.Write.Main().Op))
		s.Group = "pending again"
		proc := again.Write.Main().Invoke.Proc
		s.show(r.j.ID, again.Write.Main().Invoke.TS, []string{proc}, x.change(RoleMistake, late), x.change(RoleHarm, again))
	}
	for _, s := range x.Suspects {
		if s.ID == "claim-leaves-row" {
			s.Group = "pending again"
		}
	}
}

// redone: the job has ended, and has the row of a run again whose claim a late copy may have
// done again.
func redone(j *past.Job) bool {
	row := j.Row(history.RowRunning)
	return row != nil && j.Now.Name != past.StateRunning && slices.ContainsFunc(j.Steps, func(s past.JobStep) bool {
		return s.Change.Do == history.DoClaim && s.Change.Run == row.JobRow().Run && s.Change.Run == j.Now.Run && resent(s.Write)
	})
}

// givenUpEarly is the mechanism by which a job is given up that may be tried again, if there
// is one.
func (x *Inquiry) givenUpEarly(k *walk, s past.JobStep) (id, why string) {
	was := past.JobState{Name: k.state, Attempt: k.attempt, Run: k.run}
	r := x.RowOf[k.j.Shard].Replayed
	if k.step == 0 || k.j.Spec == nil || !r.Early(k.j, k.step, was, s.Write) {
		return "", ""
	}
	attempts, spared := k.j.Spent(k.step, was, s.Write)
	wrote := k.j.Steps[k.step-1].Write.Main().Invoke.Proc
	switch {
	case k.attempt >= k.j.Spec.MaxAttempts:
		return "cut-runs-counted", fmt.Sprintf("of its %s %d spent no attempt", phrase.Plural(k.attempt, "run"), spared)
	case was.Name == past.StateRunning && past.RunFence(was.Run) == s.Write.To.Fence, history.Life(wrote) == history.Life(s.Write.Main().Invoke.Proc):
		return "", ""
	}
	return "row-not-read", fmt.Sprintf("%s wrote its row, and it has spent %d of %d attempts", wrote, attempts, k.j.Spec.MaxAttempts)
}

// jobRows: rows that were left and are not what the batches made of them.
func (x *Inquiry) jobRows() {
	dlq, ahead, next, beside, late, other := 0, 0, 0, 0, 0, 0
	for _, j := range x.Jobs.List {
		l := x.RowOf[j.Shard]
		if l == nil || !l.Whole || !x.RowsRead(j) {
			continue
		}
		why := j.Differs()
		if why == "" {
			continue
		}
		row := j.Row(history.RowJob)
		id, n, w := "rows-differ", &other, possible
		switch {
		case j.Now.Name == past.StateDLQ && (row == nil || row.JobRow().State != past.StateDLQ || j.Row(history.RowDLQ) == nil):
			id, n, w = "dlq-move-lost", &dlq, shown
		case j.NeverCame(x.Past) && j.After != nil:
			id, n, w = "end-ahead-of-next", &next, shown
		case j.NeverCame(x.Past) && j.Now.Name == past.StatePending:
			id, n, w = "schedule-ahead-of-job", &ahead, shown
		case row != nil && row.JobRow().Run != 0 && past.RunFence(row.JobRow().Run) < past.RunFence(j.Now.Run):
			id, n, w = "write-beside-the-tick", &beside, Fits // an earlier owner's doing
		case redone(j):
			id, n, w = "late-copy-done-again", &late, Fits
		}
		*n++
		s := x.suspect(id, x.ofJob(j, w), *n, "job %s is %s by its batches, and its rows say otherwise: %s", j.ID, j.Now, why)
		var chain []Step
		role := RoleBefore
		if j.NeverCame(x.Past) {
			role = RoleMistake // the batch that did one of two things
		}
		for _, st := range j.Steps[max(0, len(j.Steps)-3):] {
			chain = append(chain, x.change(role, st))
		}
		for _, e := range j.Rows {
			chain = append(chain, x.step(RoleMistake, e, "after the run there is a row of kind %s: %s, attempt %d, run %d", e.JobRow().Kind, phrase.OrNone(e.JobRow().State), e.JobRow().Attempt, e.JobRow().Run))
		}
		at, procs := int64(0), []string{}
		if o := j.Last(); o != nil {
			at, procs = o.Invoke.TS, []string{o.Invoke.Proc}
		}
		s.show(j.ID, at, procs, chain...)
	}
}

// stuckJobs: jobs that never ended, by where they were left.
func (x *Inquiry) stuckJobs() {
	if !x.failed("P5") {
		return
	}
	left, behind, other := 0, 0, 0
	for _, j := range x.judgeJobs(&Property{}).stuck {
		l := x.RowOf[j.Shard]
		switch {
		case j.NeverCame(x.Past): // jobRows
		case j.Now.Name == past.StateRunning && x.takenSince(l, j) != nil:
			left++
			g := x.takenSince(l, j)
			s := x.suspect("rescue-left-out", x.ofJob(j, shown), left, "job %s is still %s, though %s took the shard with fence %d afterwards", j.ID, j.Now, g.Acquire.Invoke.Proc, g.Fence)
			s.show(j.ID, g.Acquire.Invoke.TS, []string{j.Last().Invoke.Proc, g.Acquire.Invoke.Proc}, x.change(RoleBefore, j.Steps[len(j.Steps)-1]), x.granted(RoleMistake, g),
				x.Instant(RoleHarm, x.EndOfWork(), "at the end the job is still running"))
		case j.Now.Name == past.StatePending && x.passedOver(l, j) != nil:
			behind++
			k := x.passedOver(l, j)
			s := x.suspect("row-behind-the-mark", x.ofJob(j, Fits), behind, "job %s is pending and due, and job %s, due later, was claimed after that", j.ID, k.Job.ID)
			chain := []Step{x.change(RoleBefore, j.Steps[len(j.Steps)-1]), x.change(RoleMistake, past.JobStep{Write: k.Write, Change: k.Change}), x.Instant(RoleHarm, x.EndOfWork(), "at the end the job is still pending")}
			if g := x.takenSince(l, j); g != nil {
				chain = append(chain, x.granted(RoleBefore, g))
			}
			s.show(j.ID, k.Write.Main().Invoke.TS, []string{j.Last().Invoke.Proc, k.Write.Main().Invoke.Proc}, chain...)
		default:
			other++
			s := x.suspect("job-never-ends", x.ofJob(j, possible), other, "job %s is still %s at the end", j.ID, stuckAs(j, "in the inbox"))
			switch o := j.Last(); {
			case len(j.Steps) > 0:
				s.show(j.ID, o.Invoke.TS, []string{o.Invoke.Proc}, x.change(RoleMistake, j.Steps[len(j.Steps)-1]))
			case o != nil: // it has a lock of its own
				s.show(j.ID, o.Invoke.TS, []string{o.Invoke.Proc}, x.step(RoleMistake, o.Invoke, "%s by %s is the last that changes it", o.Invoke.Op, o.Invoke.Proc))
			case len(j.Calls) > 0:
				s.show(j.ID, j.Calls[0].Invoke.TS, []string{j.Calls[0].Invoke.Proc}, x.step(RoleMistake, j.Calls[0].Invoke, "it is enqueued, and nothing more"))
			}
		}
	}
}

// takenSince is a grant of the shard that came after the job's last change.
func (x *Inquiry) takenSince(l *past.Row, j *past.Job) *past.Grant {
	if l == nil || len(j.Steps) == 0 {
		return nil
	}
	pos := j.Steps[len(j.Steps)-1].Write.Pos
	for _, g := range l.Grants {
		if g.Acquire.Write.Pos > pos && g.Acquire.Outcome == history.OK {
			return g
		}
	}
	return nil
}

// passedOver is a claim of another job of the shard that was due later than j, after j was
// due and pending.
func (x *Inquiry) passedOver(l *past.Row, j *past.Job) *past.Claim {
	if l == nil || l.Replayed == nil || len(j.Steps) == 0 {
		return nil
	}
	last := j.Steps[len(j.Steps)-1].Write
	var best *past.Claim
	for _, k := range l.Replayed.Claims {
		if k.Job != j && k.Write.Pos > last.Pos && k.Was.Due > j.Now.Due && x.WallAt(k.Write.Main().Invoke.TS) > j.Now.Due && (best == nil || k.Write.Pos < best.Write.Pos || k.Write.Pos == best.Write.Pos && k.Change.Run < best.Change.Run) {
			best = k
		}
	}
	return best
}

func (x *Inquiry) forgotten(j *past.Job) {
	for i, s := range j.Steps {
		if s.Change.Do != history.DoSweep || i == 0 {
			continue
		}
		end := j.Steps[i-1].Write.Main()
		sweeper := history.Life(s.Write.Main().Invoke.Proc)
		window := x.HeaderOf(sweeper).DedupeMS * 1e6
		if after := s.Write.Latest - end.Invoke.TS; after < window && len(x.Clocks[sweeper]) == 0 {
			sus := x.suspect("forgotten-too-early", x.ofJob(j, shown), 1, "job %s is forgotten at most %s after its end; it must be remembered for %s", j.ID, phrase.MS(after), phrase.MS(window))
			sus.show(j.ID, s.Write.Main().Invoke.TS, []string{s.Write.Main().Invoke.Proc}, x.change(RoleBefore, j.Steps[i-1]), x.change(RoleMistake, s))
		}
	}
}
