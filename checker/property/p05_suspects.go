package property

import (
	"fmt"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// chainConsistent says whether a shard's own chain contradicts nothing: what happens to jobs by
// batches that are lost, done twice or written over tells nothing about jobs.
func (x *Inquiry) chainConsistent(l *past.Row) bool {
	if l == nil || !l.Complete {
		return false
	}
	return !slices.ContainsFunc(l.Writes, func(w *past.Write) bool {
		return (w.Pos < 0) == (w.OK() != nil) && (w.Pos >= 0 || w.OK() != nil) && (w.OK() != nil || !w.Possible())
	})
}

// jobWeight lowers the weight of what a shard without a sound chain shows.
func (x *Inquiry) jobWeight(j *past.Job, w Weight) Weight {
	if x.chainConsistent(x.RowOf[j.Shard]) {
		return w
	}
	return symptom
}

// jobWalk is a job's state as its batches make it, change by change.
type jobWalk struct {
	j       *past.Job
	state   string
	attempt int
	run     int64
	step    int // of the next change
}

func (k *jobWalk) next() {
	c := k.j.Steps[k.step].Change
	k.step++
	if c.Do != history.DoHasten {
		k.state = past.StateAfter(c.Do, k.state)
	}
	switch c.Do {
	case history.DoEnqueue, history.DoRedrive, history.DoSweep:
		k.attempt = 0
	case history.DoClaim:
		k.attempt, k.run = c.Attempt, c.Run
	}
}

// change is the step of a chain that shows what a batch does to a job.
func (x *Inquiry) change(role string, s past.JobStep) Step {
	m := s.Write.Main()
	text := fmt.Sprintf("%s %s job %s", m.Invoke.Proc, past.Verb(s.Change.Do), s.Change.Job)
	if s.Change.Run != 0 {
		text += fmt.Sprintf(": run %d, attempt %d", s.Change.Run, s.Change.Attempt)
	}
	return x.step(role, m.Invoke, "%s (%s of %s)", text, m.Kind(), m.Invoke.Key)
}

func (x *Inquiry) changes(role string, steps []past.JobStep) (out []Step) {
	for _, s := range steps {
		out = append(out, x.change(role, s))
	}
	return out
}

// jobStates: attempts that begin again, and claims of what is not pending.
func (x *Inquiry) jobStates() {
	var claimed []reclaim
	for _, j := range x.Jobs.List {
		k := jobWalk{j: j}
		for k.step < len(j.Steps) {
			s := j.Steps[k.step]
			var sus *Suspect
			switch c := s.Change; {
			case c.Do == history.DoClaim && k.state != past.StatePending && k.state != "":
				claimed = append(claimed, reclaim{j, k.step})
				sus = x.found("claim-leaves-row", x.jobWeight(j, shown), "job %s is claimed as run %d when it is %s", j.ID, c.Run, k.state)
			case c.Do == history.DoClaim && k.state == past.StatePending && c.Attempt <= k.attempt,
				slices.Contains([]string{history.DoRescue, history.DoRetry, history.DoComplete, history.DoAbandon, history.DoDLQ}, c.Do) &&
					k.state == past.StateRunning && c.Attempt < k.attempt:
				sus = x.found("attempts-in-memory", x.jobWeight(j, shown), "job %s: after attempt %d the owner that %s it counts %d",
					j.ID, k.attempt, past.Verb(c.Do), c.Attempt)
			case c.Do == history.DoDLQ && x.failed("P5"):
				if id, why := x.givenUpEarly(&k, s); id != "" {
					sus = x.found(id, x.jobWeight(j, shown), "job %s is given up by %s, and the store had never refused it: %s",
						j.ID, s.Write.Main().Invoke.Proc, why)
				}
			}
			if sus != nil {
				before := x.changes(RoleBefore, j.Steps[max(0, k.step-1):k.step])
				sus.showAt(j.ID, s.Write.Main().Invoke, append(before, x.change(RoleMistake, s))...)
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
		s := x.suspect("late-copy-done-again", x.jobWeight(r.j, shown), i+1, "job %s is claimed again as attempt %d; the batch that %s it was %s",
			r.j.ID, again.Change.Attempt, past.Verb(late.Change.Do), sendText(&late.Write.Main().Op))
		s.Group = "pending again"
		s.showAt(r.j.ID, again.Write.Main().Invoke, x.change(RoleMistake, late), x.change(RoleHarm, again))
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
func (x *Inquiry) givenUpEarly(k *jobWalk, s past.JobStep) (id, why string) {
	was := past.JobState{Name: k.state, Attempt: k.attempt, Run: k.run}
	r := x.RowOf[k.j.Shard].Replayed
	if k.step == 0 || k.j.Spec == nil || !r.GivenUpEarly(k.j, k.step, was, s.Write) {
		return "", ""
	}
	attempts, spared := k.j.AttemptsSpent(k.step, was, s.Write)
	wrote := k.j.Steps[k.step-1].Write.Main().Invoke.Proc
	switch {
	case k.attempt >= k.j.Spec.MaxAttempts:
		return "cut-runs-counted", fmt.Sprintf("of its %s %d spent no attempt", phrase.Plural(k.attempt, "run"), spared)
	case was.Name == past.StateRunning && past.RunFence(was.Run) == s.Write.To.Fence,
		history.Life(wrote) == history.Life(s.Write.Main().Invoke.Proc):
		return "", ""
	}
	return "row-not-read", fmt.Sprintf("%s wrote its row, and it has spent %d of %d attempts", wrote, attempts, k.j.Spec.MaxAttempts)
}

// jobRows: rows that were left and are not what the batches made of them.
func (x *Inquiry) jobRows() {
	for _, j := range x.Jobs.List {
		l := x.RowOf[j.Shard]
		if l == nil || !l.Complete || !x.RowsRead(j) {
			continue
		}
		why := j.Differs()
		if why == "" {
			continue
		}
		row := j.Row(history.RowJob)
		id, w := "rows-differ", possible
		switch {
		case j.Now.Name == past.StateDLQ && (row == nil || row.JobRow().State != past.StateDLQ || j.Row(history.RowDLQ) == nil):
			id, w = "dlq-move-lost", shown
		case j.RowMissing(x.Past) && j.After != nil:
			id, w = "end-ahead-of-next", shown
		case j.RowMissing(x.Past) && j.Now.Name == past.StatePending:
			id, w = "schedule-ahead-of-job", shown
		case j.Now.Name == past.StatePending && len(j.Rows) == 0 && slices.ContainsFunc(j.Calls, func(o *past.Op) bool { return o.Outcome == history.OK }):
			id, w = "acknowledged-and-lost", WeightFits
		case row != nil && row.JobRow().Run != 0 && past.RunFence(row.JobRow().Run) < past.RunFence(j.Now.Run):
			id, w = "write-beside-the-tick", WeightFits // an earlier owner's doing
		case redone(j):
			id, w = "late-copy-done-again", WeightFits
		}
		s := x.found(id, x.jobWeight(j, w), "job %s is %s by its batches, and its rows say otherwise: %s", j.ID, j.Now, why)
		role := RoleBefore
		if j.RowMissing(x.Past) {
			role = RoleMistake // the batch that did one of two things
		}
		chain := x.changes(role, j.Steps[max(0, len(j.Steps)-3):])
		for _, e := range j.Rows {
			chain = append(chain, x.mistake(e, "after the run there is a row of kind %s: %s, attempt %d, run %d",
				e.JobRow().Kind, phrase.OrNone(e.JobRow().State), e.JobRow().Attempt, e.JobRow().Run))
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
	for _, j := range x.judgeJobs(&Property{}).stuck {
		l := x.RowOf[j.Shard]
		switch {
		case j.RowMissing(x.Past): // jobRows
		case j.Now.Name == past.StatePending && x.RowsRead(j) && j.Row(history.RowPending) == nil: // likewise
		case j.Now.Name == past.StateRunning && x.takenSince(l, j) != nil:
			g := x.takenSince(l, j)
			s := x.found("rescue-left-out", x.jobWeight(j, shown), "job %s is still %s, though %s took the shard with fence %d afterwards",
				j.ID, j.Now, g.Acquire.Invoke.Proc, g.Fence)
			s.show(j.ID, g.Acquire.Invoke.TS, []string{j.Last().Invoke.Proc, g.Acquire.Invoke.Proc}, x.change(RoleBefore, j.Steps[len(j.Steps)-1]),
				x.granted(RoleMistake, g),
				x.Instant(RoleHarm, x.EndOfWork(), "at the end the job is still running"))
		case j.Now.Name == past.StatePending && x.passedOver(l, j) != nil:
			k := x.passedOver(l, j)
			s := x.found("row-behind-the-mark", x.jobWeight(j, WeightFits),
				"job %s is pending and due, and job %s, due later, was claimed after that", j.ID, k.Job.ID)
			chain := []Step{x.change(RoleBefore, j.Steps[len(j.Steps)-1]), x.change(RoleMistake, past.JobStep{Write: k.Write, Change: k.Change}),
				x.Instant(RoleHarm, x.EndOfWork(), "at the end the job is still pending")}
			if g := x.takenSince(l, j); g != nil {
				chain = append(chain, x.granted(RoleBefore, g))
			}
			s.show(j.ID, k.Write.Main().Invoke.TS, []string{j.Last().Invoke.Proc, k.Write.Main().Invoke.Proc}, chain...)
		default:
			s := x.found("job-never-ends", x.jobWeight(j, possible), "job %s is still %s at the end", j.ID, stuckAs(j, "in the inbox"))
			switch o := j.Last(); {
			case len(j.Steps) > 0:
				s.showAt(j.ID, o.Invoke, x.change(RoleMistake, j.Steps[len(j.Steps)-1]))
			case o != nil: // it has a lock of its own
				s.showAt(j.ID, o.Invoke, x.mistake(o.Invoke, "%s by %s is the last that changes it", o.Invoke.Op, o.Invoke.Proc))
			case len(j.Calls) > 0:
				s.showAt(j.ID, j.Calls[0].Invoke, x.mistake(j.Calls[0].Invoke, "it is enqueued, and nothing more"))
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
		if k.Job != j && k.Write.Pos > last.Pos && k.Was.Due > j.Now.Due && x.WallAt(k.Write.Main().Invoke.TS) > j.Now.Due &&
			(best == nil || k.Write.Pos < best.Write.Pos || k.Write.Pos == best.Write.Pos && k.Change.Run < best.Change.Run) {
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
			sus := x.suspect("forgotten-too-early", x.jobWeight(j, shown), 1,
				"job %s is forgotten at most %s after its end; it must be remembered for %s", j.ID, phrase.MS(after), phrase.MS(window))
			sus.showAt(j.ID, s.Write.Main().Invoke, x.change(RoleBefore, j.Steps[i-1]), x.change(RoleMistake, s))
		}
	}
}

// runs: rules of the life of jobs that are broken in plain sight.
func (x *Inquiry) runs() {
	for _, j := range x.Jobs.List {
		for i, s := range j.Steps {
			m := s.Write.Main()
			switch s.Change.Do {
			case history.DoComplete:
				f := j.Finishes[s.Change.Run]
				if f != nil && f.TS <= m.Invoke.TS {
					continue
				}
				sus := x.found("completed-before-finish", x.jobWeight(j, WeightFits),
					"job %s is completed by a batch that was sent before run %d had finished", j.ID, s.Change.Run)
				chain := []Step{x.change(RoleMistake, s)}
				if i > 0 {
					chain = append(chain, x.change(RoleBefore, j.Steps[i-1]))
				}
				if f != nil {
					chain = append(chain, x.harm(f, "only %s later run %d is noted as finished", phrase.MS(f.TS-m.Invoke.TS), s.Change.Run))
				}
				sus.showAt(j.ID, m.Invoke, chain...)
			case history.DoRescue:
				if j.Spec == nil || !j.Spec.AtMostOnce {
					continue
				}
				sus := x.found("cut-run-repeated", x.jobWeight(j, shown), "job %s may have one run at most that is cut short, and after run %d it is to run again",
					j.ID, s.Change.Run)
				sus.showAt(j.ID, m.Invoke, append(x.changes(RoleBefore, j.Steps[max(0, i-1):i]), x.change(RoleMistake, s))...)
			case history.DoClaim:
				if j.Spec == nil || j.Spec.MaxAttempts == 0 || s.Change.Attempt <= j.Spec.MaxAttempts+j.UncountedBefore(i) {
					continue
				}
				sus := x.found("tried-too-often", x.jobWeight(j, WeightFits), "job %s is claimed for attempt %d of at most %d",
					j.ID, s.Change.Attempt, j.Spec.MaxAttempts)
				sus.showAt(j.ID, m.Invoke, x.change(RoleMistake, s))
			}
		}
	}
	x.lostJobs()
	x.unclaimedRuns()
	x.missingSteps()
}

// lostJobs: enqueues that were acknowledged and are nowhere.
func (x *Inquiry) lostJobs() {
	for _, j := range x.Jobs.List {
		l := x.RowOf[j.Shard]
		if _, entered := j.Entered(); entered > 0 || l == nil || !l.Complete || j.Row(history.RowInbox) != nil {
			continue
		}
		for _, o := range j.Calls {
			if o.Outcome != history.OK || o.End.Result == past.ResultDuplicate {
				continue
			}
			s := x.found("acknowledged-and-lost", x.jobWeight(j, WeightFits),
				"the enqueue of job %s was acknowledged (%s), and no batch that took effect has it", j.ID, o.End.Result)
			chain := []Step{x.before(o.Invoke, "%s enqueues job %s", o.Invoke.Proc, j.ID), x.mistake(o.End, "it is acknowledged: %s", o.End.Result)}
			for _, c := range l.CAS {
				if l.Fate(c.Write) == past.Never && slices.ContainsFunc(c.Invoke.Changes(), func(x history.Change) bool { return x.Job == j.ID }) {
					chain = append(chain, x.harm(c.Invoke, "the batch by %s that has it never takes effect, %s", c.Invoke.Proc, sendText(&c.Op)))
				}
			}
			s.show(j.ID, o.End.TS, []string{o.Invoke.Proc}, chain...)
		}
	}
}

// unclaimedRuns: runs that start though their claim never took effect, or was not known to.
func (x *Inquiry) unclaimedRuns() {
	for _, j := range x.Jobs.List {
		l := x.RowOf[j.Shard]
		for _, e := range j.Starts {
			var claim *past.CAS
			for _, c := range casOf(l, e.Token) {
				if claim == nil || c.Outcome == history.OK {
					claim = c
				}
			}
			if claim == nil || claim.Outcome == history.OK && claim.End.TS <= e.TS {
				continue
			}
			s := x.found("run-not-settled", x.jobWeight(j, WeightFits), "run %d of job %s starts before its claim is known to have taken effect",
				e.Token, j.ID)
			s.showAt(j.ID, e, x.before(claim.Invoke, "%s claims it, %s", claim.Invoke.Proc, sendText(&claim.Op)),
				x.mistake(e, "%s starts it", e.Proc))
		}
	}
}

// casOf are the recorded batches that claim a run.
func casOf(l *past.Row, run int64) []*past.CAS {
	if l == nil {
		return nil
	}
	if k := l.ClaimOf(run); k != nil {
		return k.Write.Ops
	}
	var out []*past.CAS
	for _, c := range l.CAS {
		if slices.ContainsFunc(c.Invoke.Changes(), func(x history.Change) bool { return x.Do == history.DoClaim && x.Run == run }) {
			out = append(out, c)
		}
	}
	return out
}

// missingSteps: jobs that are completed though nobody sent one of their effects.
func (x *Inquiry) missingSteps() {
	for _, j := range x.Jobs.List {
		if j.Spec == nil || j.EndedAs != past.StateCompleted {
			continue
		}
		s := x.SinkOf[j.Spec.Resource]
		if s == nil || !s.WasRead() || s.Missing != "" {
			continue
		}
		for _, step := range j.Spec.Steps {
			if len(s.Accepts[step]) > 0 || slices.ContainsFunc(s.Effects, func(o *past.Op) bool { return o.Invoke.EffectKey == step }) {
				continue
			}
			sus := x.found("step-left-out", WeightFits, "job %s is completed and nobody sent its effect %s", j.ID, step)
			var chain []Step
			for _, st := range j.Steps {
				if st.Change.Do == history.DoComplete {
					chain = append(chain, x.change(RoleMistake, st))
				}
			}
			sus.showAt(j.ID, j.Last().Invoke, chain...)
		}
	}
}
