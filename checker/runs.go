package checker

import (
	"maps"
	"slices"

	"fencepost/harness/record/history"
)

// checkClaim is P6 for a shard: whoever starts a run or calls the sink for one shows
// the run id of a claim that took effect, of that very job, made by its own
// process, and of which it had been told.
func (a *past) checkClaim(e *history.Event, l *rowLog, p *Property) {
	p.Checked++
	k := l.claimOf(e.Token)
	if k == nil {
		a.checkUnclaimed(e, l, p)
		return
	}
	c := k.w.main()
	if own := k.w.recordedBy(history.Life(e.Proc)); own != nil {
		c = own
	}
	events := append(both(&c.op), e)
	bad := func(format string, args ...any) {
		p.add(k.j.id, events, "%s by %s shows run %d of %s"+format, append([]any{e.Op, e.Proc, e.Token, l.name}, args...)...)
	}
	switch {
	case e.Op == history.NoteStart && e.Key != k.j.id:
		bad(" for job %s, but it is a run of job %s", e.Key, k.j.id)
	case e.Op == history.NoteStart && e.Attempt() != 0 && e.Attempt() != k.c.Attempt:
		bad(" as attempt %d, but it is attempt %d", e.Attempt(), k.c.Attempt)
	case e.Op != history.NoteStart && k.j.spec != nil && k.j.spec.Resource != "" && e.Key != k.j.spec.Resource:
		bad(" on resource %s, but it is a run of job %s, whose resource is %s", e.Key, k.j.id, k.j.spec.Resource)
	case history.Life(c.inv.Proc) != history.Life(e.Proc):
		bad(", which %s claimed", c.inv.Proc)
	case c.inv.TS > e.TS:
		bad(", %s before it was claimed", ms(c.inv.TS-e.TS))
	case c.end != nil && (c.outcome != history.OK || c.end.TS > e.TS):
		bad(", but no answer had told it that the claim took effect")
	}
}

// recordedBy is the member that a life recorded, or nil.
func (w *write) recordedBy(life string) *cas {
	for _, c := range w.ops {
		if history.Life(c.inv.Proc) == life {
			return c
		}
	}
	return nil
}

// checkUnclaimed judges a run that no batch of the chain claims.
func (a *past) checkUnclaimed(e *history.Event, l *rowLog, p *Property) {
	for _, c := range l.cas {
		for i := range c.inv.Changes() {
			x := &c.inv.Changes()[i]
			if x.Do != history.DoClaim || x.Run != e.Token {
				continue
			}
			if l.fate(c.w) == open && c.outcome != history.Fail {
				return // it may have
			}
			p.add(x.Job, append(both(&c.op), e), "%s by %s shows run %d of %s, but the batch that claims it for job %s never took effect", e.Op, e.Proc, e.Token, l.name, x.Job)
			return
		}
	}
	if l.whole {
		p.add(l.name, []*history.Event{e}, "%s by %s shows run %d of %s, which no batch claims", e.Op, e.Proc, e.Token, l.name)
	}
}

// findTwice finds runs that were started twice: one claim, one start (P6).
func (x *jobs) findTwice() {
	for _, j := range x.list {
		first := map[int64]*history.Event{}
		for _, e := range j.starts {
			if twin := first[e.Token]; twin != nil {
				x.add("P6", j.id, []*history.Event{twin, e}, "run %d of job %s was started twice", e.Token, j.id)
				continue
			}
			first[e.Token] = e
		}
	}
}

// checkSteps is the part of P4 that jobs add: a job that is completed has had each of
// its effects exactly once, and no job any that it does not list.
func (a *past) checkSteps(p *Property) {
	owners := map[string][]*jobLog{}
	for _, j := range a.jobs.list {
		if j.spec == nil || j.spec.Resource == "" {
			continue
		}
		owners[j.spec.Resource] = append(owners[j.spec.Resource], j)
		if j.end != stateCompleted {
			continue
		}
		s := a.sink[j.spec.Resource]
		if s != nil && (!s.read() || s.hole != "") {
			continue // P14
		}
		for _, step := range j.spec.Steps {
			p.Checked++
			if s == nil || len(s.accepts[step]) == 0 {
				p.add(j.id, append(both(j.last()), j.starts...), "job %s is completed, but its effect %s on %s was never applied", j.id, step, j.spec.Resource)
				continue
			}
			if o, run := j.completion(); o != nil && !s.decided(step, run, o.inv.TS) {
				p.add(j.id, append(both(o), j.starts...), "job %s was completed by %s before its effect %s on %s was decided", j.id, o.inv.Proc, step, j.spec.Resource)
			}
		}
	}
	for _, res := range slices.Sorted(maps.Keys(owners)) {
		if s := a.sink[res]; s != nil {
			s.checkListed(owners[res], p)
		}
	}
}

// completion is the last operation that may have completed the job, and after which run.
func (j *jobLog) completion() (last *op, run int64) {
	for _, s := range j.steps {
		if s.c.Do == history.DoComplete {
			last, run = &s.w.main().op, s.c.Run
		}
	}
	for _, o := range j.updates {
		if c := o.inv.Changes()[0]; o.outcome != history.Fail && c.Do == history.DoComplete {
			last, run = o, c.Run
		}
	}
	return last, run
}

// decided says whether by then an effect can have been decided, as a run saw it: somebody
// had asked for it, and the run itself was not waiting for the answer. That of another run
// it may have seen in the sink.
func (s *sinkLog) decided(key string, run, by int64) bool {
	return slices.ContainsFunc(s.effects, func(o *op) bool {
		waits := o.inv.Token == run && o.end != nil && o.end.TS > by
		return o.inv.EffectKey == key && o.inv.TS <= by && !waits
	})
}

func (s *sinkLog) checkListed(owners []*jobLog, p *Property) {
	listed := map[string]bool{}
	for _, j := range owners {
		specs := []*history.Job{j.spec} // asked for by a schedule, or in a sequence
		for _, o := range j.calls {
			specs = append(specs, o.inv.Job())
		}
		for _, spec := range specs {
			for _, step := range slices.Concat(spec.Steps, spec.May) {
				listed[step] = true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.accepts)) {
		if e := &s.ledger[s.accepts[key][0]]; !listed[key] {
			p.add(s.name, append([]*history.Event{e.ev}, first(e.by)...), "effect %s was applied to %s, which belongs to job %s, and no job lists it", key, s.name, owners[0].id)
		}
	}
}
