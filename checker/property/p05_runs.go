package property

import (
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// runs: rules of the life of jobs that are broken in plain sight.
func (x *Inquiry) runs() {
	unfinished, often := 0, 0
	for _, j := range x.Jobs.List {
		for i, s := range j.Steps {
			m := s.Write.Main()
			switch s.Change.Do {
			case history.DoComplete:
				f := j.Finishes[s.Change.Run]
				if f != nil && f.TS <= m.Invoke.TS {
					continue
				}
				unfinished++
				sus := x.suspect("completed-before-finish", x.ofJob(j, Fits), unfinished, "job %s is completed by a batch that was sent before run %d had finished", j.ID, s.Change.Run)
				chain := []Step{x.change(RoleMistake, s)}
				if i > 0 {
					chain = append(chain, x.change(RoleBefore, j.Steps[i-1]))
				}
				if f != nil {
					chain = append(chain, x.step(RoleHarm, f, "only %s later run %d is noted as finished", phrase.MS(f.TS-m.Invoke.TS), s.Change.Run))
				}
				sus.show(j.ID, m.Invoke.TS, []string{m.Invoke.Proc}, chain...)
			case history.DoClaim:
				if j.Spec == nil || j.Spec.MaxAttempts == 0 || s.Change.Attempt <= j.Spec.MaxAttempts+j.SparedBefore(i) {
					continue
				}
				often++
				sus := x.suspect("tried-too-often", x.ofJob(j, Fits), often, "job %s is claimed for attempt %d of at most %d", j.ID, s.Change.Attempt, j.Spec.MaxAttempts)
				sus.show(j.ID, m.Invoke.TS, []string{m.Invoke.Proc}, x.change(RoleMistake, s))
			}
		}
	}
	x.lostJobs()
	x.unclaimedRuns()
	x.missingSteps()
}

// lostJobs: enqueues that were acknowledged and are nowhere.
func (x *Inquiry) lostJobs() {
	n := 0
	for _, j := range x.Jobs.List {
		l := x.RowOf[j.Shard]
		if _, entered := j.Entered(); entered > 0 || l == nil || !l.Whole || j.Row(history.RowInbox) != nil {
			continue
		}
		for _, o := range j.Calls {
			if o.Outcome != history.OK || o.End.Result == past.ResultDuplicate {
				continue
			}
			n++
			s := x.suspect("acknowledged-and-lost", x.ofJob(j, Fits), n, "the enqueue of job %s was acknowledged (%s), and no batch that took effect has it", j.ID, o.End.Result)
			chain := []Step{x.step(RoleBefore, o.Invoke, "%s enqueues job %s", o.Invoke.Proc, j.ID), x.step(RoleMistake, o.End, "it is acknowledged: %s", o.End.Result)}
			for _, c := range l.CAS {
				if l.Fate(c.Write) == past.Never && slices.ContainsFunc(c.Invoke.Changes(), func(x history.Change) bool { return x.Job == j.ID }) {
					chain = append(chain, x.step(RoleHarm, c.Invoke, "the batch by %s that has it never takes effect, %s", c.Invoke.Proc, sent(&c.Op)))
				}
			}
			s.show(j.ID, o.End.TS, []string{o.Invoke.Proc}, chain...)
		}
	}
}

// unclaimedRuns: runs that start though their claim never took effect, or was not known to.
func (x *Inquiry) unclaimedRuns() {
	n := 0
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
			n++
			s := x.suspect("run-not-settled", x.ofJob(j, Fits), n, "run %d of job %s starts before its claim is known to have taken effect", e.Token, j.ID)
			s.show(j.ID, e.TS, []string{e.Proc}, x.step(RoleBefore, claim.Invoke, "%s claims it, %s", claim.Invoke.Proc, sent(&claim.Op)), x.step(RoleMistake, e, "%s starts it", e.Proc))
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
	n := 0
	for _, j := range x.Jobs.List {
		if j.Spec == nil || j.EndedAs != past.StateCompleted {
			continue
		}
		s := x.SinkOf[j.Spec.Resource]
		if s == nil || !s.WasRead() || s.Hole != "" {
			continue
		}
		for _, step := range j.Spec.Steps {
			if len(s.Accepts[step]) > 0 || slices.ContainsFunc(s.Effects, func(o *past.Op) bool { return o.Invoke.EffectKey == step }) {
				continue
			}
			n++
			sus := x.suspect("step-left-out", Fits, n, "job %s is completed and nobody sent its effect %s", j.ID, step)
			var chain []Step
			for _, st := range j.Steps {
				if st.Change.Do == history.DoComplete {
					chain = append(chain, x.change(RoleMistake, st))
				}
			}
			sus.show(j.ID, j.Last().Invoke.TS, []string{j.Last().Invoke.Proc}, chain...)
		}
	}
}
