package checker

import (
	"maps"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// checkClaim is P6 for a shard: whoever starts a run or calls the sink for one shows
// the run id of a claim that took effect, of that very job, made by its own
// process, and of which it had been told.
func (a *judgement) checkClaim(e *history.Event, l *past.Row, p *Property) {
	p.Checked++
	k := l.ClaimOf(e.Token)
	if k == nil {
		a.checkUnclaimed(e, l, p)
		return
	}
	c := k.Write.Main()
	if own := k.Write.RecordedBy(history.Life(e.Proc)); own != nil {
		c = own
	}
	events := append(past.Events(&c.Op), e)
	bad := func(format string, args ...any) {
		p.add(k.Job.ID, events, "%s by %s shows run %d of %s"+format, append([]any{e.Op, e.Proc, e.Token, l.Name}, args...)...)
	}
	switch {
	case e.Op == history.NoteStart && e.Key != k.Job.ID:
		bad(" for job %s, but it is a run of job %s", e.Key, k.Job.ID)
	case e.Op == history.NoteStart && e.Attempt() != 0 && e.Attempt() != k.Change.Attempt:
		bad(" as attempt %d, but it is attempt %d", e.Attempt(), k.Change.Attempt)
	case e.Op != history.NoteStart && k.Job.Spec != nil && k.Job.Spec.Resource != "" && e.Key != k.Job.Spec.Resource:
		bad(" on resource %s, but it is a run of job %s, whose resource is %s", e.Key, k.Job.ID, k.Job.Spec.Resource)
	case history.Life(c.Invoke.Proc) != history.Life(e.Proc):
		bad(", which %s claimed", c.Invoke.Proc)
	case c.Invoke.TS > e.TS:
		bad(", %s before it was claimed", phrase.MS(c.Invoke.TS-e.TS))
	case c.End != nil && (c.Outcome != history.OK || c.End.TS > e.TS):
		bad(", but no answer had told it that the claim took effect")
	}
}

// checkUnclaimed judges a run that no batch of the chain claims.
func (a *judgement) checkUnclaimed(e *history.Event, l *past.Row, p *Property) {
	for _, c := range l.CAS {
		for i := range c.Invoke.Changes() {
			x := &c.Invoke.Changes()[i]
			if x.Do != history.DoClaim || x.Run != e.Token {
				continue
			}
			if l.Fate(c.Write) == past.Open && c.Outcome != history.Fail {
				return // it may have
			}
			p.add(x.Job, append(past.Events(&c.Op), e), "%s by %s shows run %d of %s, but the batch that claims it for job %s never took effect", e.Op, e.Proc, e.Token, l.Name, x.Job)
			return
		}
	}
	if l.Whole {
		p.add(l.Name, []*history.Event{e}, "%s by %s shows run %d of %s, which no batch claims", e.Op, e.Proc, e.Token, l.Name)
	}
}

// checkSteps is the part of P4 that jobs add: a job that is completed has had each of
// its effects exactly once, and no job any that it does not list.
func (a *judgement) checkSteps(p *Property) {
	owners := map[string][]*past.Job{}
	for _, j := range a.Jobs.List {
		if j.Spec == nil || j.Spec.Resource == "" {
			continue
		}
		owners[j.Spec.Resource] = append(owners[j.Spec.Resource], j)
		if j.EndedAs != past.StateCompleted {
			continue
		}
		s := a.SinkOf[j.Spec.Resource]
		if s != nil && (!s.WasRead() || s.Hole != "") {
			continue // P14
		}
		for _, step := range j.Spec.Steps {
			p.Checked++
			if s == nil || len(s.Accepts[step]) == 0 {
				p.add(j.ID, append(past.Events(j.Last()), j.Starts...), "job %s is completed, but its effect %s on %s was never applied", j.ID, step, j.Spec.Resource)
				continue
			}
			if o, run := j.Completion(); o != nil && !s.DecidedBy(step, run, o.Invoke.TS) {
				p.add(j.ID, append(past.Events(o), j.Starts...), "job %s was completed by %s before its effect %s on %s was decided", j.ID, o.Invoke.Proc, step, j.Spec.Resource)
			}
		}
	}
	for _, res := range slices.Sorted(maps.Keys(owners)) {
		if s := a.SinkOf[res]; s != nil {
			checkListed(s, owners[res], p)
		}
	}
}

func checkListed(s *past.Sink, owners []*past.Job, p *Property) {
	listed := map[string]bool{}
	for _, j := range owners {
		specs := []*history.Job{j.Spec} // asked for by a schedule, or in a sequence
		for _, o := range j.Calls {
			specs = append(specs, o.Invoke.Job())
		}
		for _, spec := range specs {
			for _, step := range slices.Concat(spec.Steps, spec.May) {
				listed[step] = true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Accepts)) {
		if e := &s.Ledger[s.Accepts[key][0]]; !listed[key] {
			p.add(s.Name, append([]*history.Event{e.Event}, past.FirstEvents(e.By)...), "effect %s was applied to %s, which belongs to job %s, and no job lists it", key, s.Name, owners[0].ID)
		}
	}
}
