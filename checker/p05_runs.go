package checker

import (
	"slices"

	"fencepost/harness/record/history"
)

// runs: rules of the life of jobs that are broken in plain sight.
func (x *inquiry) runs() {
	unfinished, often := 0, 0
	for _, j := range x.a.jobs.list {
		for i, s := range j.steps {
			m := s.w.main()
			switch s.c.Do {
			case history.DoComplete:
				f := j.finishes[s.c.Run]
				if f != nil && f.TS <= m.inv.TS {
					continue
				}
				unfinished++
				sus := x.suspect("completed-before-finish", x.ofJob(j, fits), unfinished, "job %s is completed by a batch that was sent before run %d had finished", j.id, s.c.Run)
				chain := []Step{x.change(RoleMistake, s)}
				if i > 0 {
					chain = append(chain, x.change(RoleBefore, j.steps[i-1]))
				}
				if f != nil {
					chain = append(chain, x.step(RoleHarm, f, "only %s later run %d is noted as finished", ms(f.TS-m.inv.TS), s.c.Run))
				}
				sus.show(j.id, m.inv.TS, []string{m.inv.Proc}, chain...)
			case history.DoClaim:
				if j.spec == nil || j.spec.MaxAttempts == 0 || s.c.Attempt <= j.spec.MaxAttempts+j.sparedBefore(i) {
					continue
				}
				often++
				sus := x.suspect("tried-too-often", x.ofJob(j, fits), often, "job %s is claimed for attempt %d of at most %d", j.id, s.c.Attempt, j.spec.MaxAttempts)
				sus.show(j.id, m.inv.TS, []string{m.inv.Proc}, x.change(RoleMistake, s))
			}
		}
	}
	x.lostJobs()
	x.unclaimedRuns()
	x.missingSteps()
}

// lostJobs: enqueues that were acknowledged and are nowhere.
func (x *inquiry) lostJobs() {
	n := 0
	for _, j := range x.a.jobs.list {
		l := x.a.row[j.shard]
		if _, entered := j.entered(); entered > 0 || l == nil || !l.whole || j.row(history.RowInbox) != nil {
			continue
		}
		for _, o := range j.calls {
			if o.outcome != history.OK || o.end.Result == resultDuplicate {
				continue
			}
			n++
			s := x.suspect("acknowledged-and-lost", x.ofJob(j, fits), n, "the enqueue of job %s was acknowledged (%s), and no batch that took effect has it", j.id, o.end.Result)
			chain := []Step{x.step(RoleBefore, o.inv, "%s enqueues job %s", o.inv.Proc, j.id), x.step(RoleMistake, o.end, "it is acknowledged: %s", o.end.Result)}
			for _, c := range l.cas {
				if l.fate(c.w) == never && slices.ContainsFunc(c.inv.Changes(), func(x history.Change) bool { return x.Job == j.id }) {
					chain = append(chain, x.step(RoleHarm, c.inv, "the batch by %s that has it never takes effect, %s", c.inv.Proc, sent(&c.op)))
				}
			}
			s.show(j.id, o.end.TS, []string{o.inv.Proc}, chain...)
		}
	}
}

// unclaimedRuns: runs that start though their claim never took effect, or was not known to.
func (x *inquiry) unclaimedRuns() {
	n := 0
	for _, j := range x.a.jobs.list {
		l := x.a.row[j.shard]
		for _, e := range j.starts {
			var claim *cas
			for _, c := range l.casOf(e.Token) {
				if claim == nil || c.outcome == history.OK {
					claim = c
				}
			}
			if claim == nil || claim.outcome == history.OK && claim.end.TS <= e.TS {
				continue
			}
			n++
			s := x.suspect("run-not-settled", x.ofJob(j, fits), n, "run %d of job %s starts before its claim is known to have taken effect", e.Token, j.id)
			s.show(j.id, e.TS, []string{e.Proc}, x.step(RoleBefore, claim.inv, "%s claims it, %s", claim.inv.Proc, sent(&claim.op)), x.step(RoleMistake, e, "%s starts it", e.Proc))
		}
	}
}

// casOf are the recorded batches that claim a run.
func (l *rowLog) casOf(run int64) []*cas {
	if l == nil {
		return nil
	}
	if k := l.claimOf(run); k != nil {
		return k.w.ops
	}
	var out []*cas
	for _, c := range l.cas {
		if slices.ContainsFunc(c.inv.Changes(), func(x history.Change) bool { return x.Do == history.DoClaim && x.Run == run }) {
			out = append(out, c)
		}
	}
	return out
}

// missingSteps: jobs that are completed though nobody sent one of their effects.
func (x *inquiry) missingSteps() {
	n := 0
	for _, j := range x.a.jobs.list {
		if j.spec == nil || j.end != stateCompleted {
			continue
		}
		s := x.a.sink[j.spec.Resource]
		if s == nil || !s.read() || s.hole != "" {
			continue
		}
		for _, step := range j.spec.Steps {
			if len(s.accepts[step]) > 0 || slices.ContainsFunc(s.effects, func(o *op) bool { return o.inv.EffectKey == step }) {
				continue
			}
			n++
			sus := x.suspect("step-left-out", fits, n, "job %s is completed and nobody sent its effect %s", j.id, step)
			var chain []Step
			for _, st := range j.steps {
				if st.c.Do == history.DoComplete {
					chain = append(chain, x.change(RoleMistake, st))
				}
			}
			sus.show(j.id, j.last().inv.TS, []string{j.last().inv.Proc}, chain...)
		}
	}
}
