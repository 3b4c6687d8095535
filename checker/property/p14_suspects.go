package property

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// record looks for mistakes of the programs that wrote the history.
func (x *Inquiry) record() {
	x.missingCalls()
	for _, r := range x.Record.Remarks {
		if r.Kind == history.Late {
			x.lateCalls(r.Events[0], r.Events[1], r.More+1)
		}
	}
	have := x.WorkerNames()
	for _, e := range x.Expects {
		if n := e.Expect().Workers; len(have) < n {
			var missing []string
			for i := range n {
				if w := fmt.Sprintf("w%d", i+1); !have[w] {
					missing = append(missing, w)
				}
			}
			s := x.suspect("worker-missing", shown, n-len(have), "%s of %d recorded operations; there is nothing of %s",
				phrase.Plural(len(have), "worker"), n, strings.Join(missing, ", "))
			s.show("", e.TS, nil, x.mistake(e, "the scenario has %s", phrase.Plural(n, "worker")))
		}
	}
}

// lateCalls: n calls of a life were recorded after they had been sent, that of inv first.
func (x *Inquiry) lateCalls(inv, end *history.Event, n int) {
	early := int64(0)
	for _, s := range end.Sends {
		early = max(early, inv.TS-s)
	}
	s := x.suspect("calls-dated-late", written, n,
		"%s of %s with a send outside of its recorded interval; the first was sent %s before it was recorded",
		phrase.Plural(n, "operation"), history.Life(inv.Proc), phrase.MS(early))
	s.show(inv.Key, inv.TS, []string{inv.Proc},
		x.Instant(RoleBefore, end.Sends[0], "%s sends %s", inv.Proc, inv.Op),
		x.mistake(inv, "only now the call is recorded (id %d)", inv.ID), x.harm(end, "its answer: %s", end.Type))
}

// missingCalls finds the ids that each life's record lacks: a recorder numbers its
// operations without gaps.
func (x *Inquiry) missingCalls() {
	lost, total, every := 0, 0, map[int64]int{}
	var at *history.Event
	gaps := map[string][]*history.Event{}
	for _, r := range x.Record.Remarks {
		if r.Kind == history.Lost {
			gaps[r.Life] = nil
		}
	}
	for i := range x.Ops {
		e := x.Ops[i].Invoke
		if of, lacks := gaps[history.Life(e.Proc)]; lacks {
			gaps[history.Life(e.Proc)] = append(of, e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(gaps)) {
		calls := gaps[name]
		slices.SortStableFunc(calls, func(x, y *history.Event) int { return cmp.Compare(x.ID, y.ID) })
		total += len(calls)
		prev, last := int64(0), int64(0)
		for _, e := range calls {
			for id := prev + 1; id < e.ID; id++ {
				if lost++; last > 0 {
					every[id-last]++
				}
				last = id
				if at == nil {
					at = e
				}
			}
			prev = max(prev, e.ID)
		}
	}
	if lost == 0 {
		for _, r := range x.Record.Remarks {
			if r.Kind != history.Lost {
				continue
			}
			s := x.suspect("record-cut-off", shown, x.Lost, "%s", r.Message())
			if len(r.Events) > 0 {
				s.show(r.Life, r.Events[0].TS, []string{r.Life},
					x.mistake(r.Events[0], "the last that is known to have been recorded about it in order"))
			}
		}
		return
	}
	s := x.suspect("calls-missing", written, lost, "%s missing in the records of %s (%s of operations)",
		phrase.PluralIs(lost, "number"), strings.Join(slices.Sorted(maps.Keys(gaps)), ", "), phrase.Plural(total, "number"))
	for step, n := range every {
		if n > 2 && n > lost*3/4 {
			x.suspect("calls-missing", written, lost, "they are every %d numbers: nothing that happens to a process is so regular", step)
		}
	}
	s.showAt(history.Life(at.Proc), at, x.mistake(at, "the first number after a missing one: %s by %s, id %d", at.Op, at.Proc, at.ID))
}

// demands looks for what the scenario demanded of the run and did not get.
func (x *Inquiry) demands() {
	x.faultsOfThePlan()
	counts := x.count()
	for _, e := range x.Expects {
		for _, point := range e.Expect().Must {
			if counts.Points[point] == 0 {
				s := x.suspect("point-not-reached", possible, 1, "the scenario must reach %q, and the run did not", point)
				s.show("", e.TS, nil, x.mistake(e, "the scenario demands %q", point))
			}
		}
		for _, phase := range slices.Sorted(maps.Keys(e.Expect().MinCycles)) {
			if got, n := counts.PhaseCycles[phase], e.Expect().MinCycles[phase]; got < n {
				x.tooLittle(e, fmt.Sprintf("phase %s has %s of the %d demanded", phase, phrase.Plural(got, x.CycleNoun()), n), x.stretches(phase)...)
			}
		}
	}
	p := &Property{}
	for _, e := range x.Expects {
		x.checkSuccess(e, p)
	}
	for _, v := range p.Violations {
		x.tooLittle(x.Expects[0], v.Message)
	}
	if counts.Operations == 0 || counts.Cycles == 0 {
		x.tooLittle(nil, fmt.Sprintf("of %s nothing finished", phrase.Plural(counts.Operations, "operation")))
	}
	if len(x.Expects) == 0 {
		x.suspect("no-expectation", shown, 1, "the history has no expect note")
	}
	open := &Property{}
	x.checkSealed(open)
	x.checkLedgers(open)
	for _, v := range open.Violations[:min(len(open.Violations), Printed)] {
		x.suspect("end-not-read", WeightFits, open.Count, "%s", v.Message)
	}
	x.points()
	for _, f := range x.unknownStatements() {
		s := x.suspect("statement-unknown", shown, 1, "%s", f.message)
		s.show(f.table, f.events[0].TS, []string{f.events[0].Key}, x.mistake(f.events[0], "%s", firstUse(f.events[0], "a statement that is not known")))
	}
	for _, p := range x.Result.Properties {
		if p.Status == StatusUnknown && x.failed(p.ID) {
			x.suspect("check-unfinished", shown, 1, "%s: %s", p.ID, p.Detail)
		}
	}
}

// points looks for clients that did not stand where they said.
func (x *Inquiry) points() {
	for i, e := range x.Witness.Hits {
		if what, _ := x.missedPoint(e); what != "" {
			s := x.suspect("point-not-kept", shown, i+1, "%s", what)
			s.show(e.Key, e.TS, []string{e.Hit().Proc}, x.mistake(e, "%s", what))
		}
	}
}

func (x *Inquiry) tooLittle(e *history.Event, what string, more ...Step) {
	s := x.suspect("too-little-work", WeightFits, 1, "%s", what)
	if e != nil {
		at := e.TS
		if len(more) > 0 {
			at = more[0].TS
		}
		s.show("", at, nil, append(more, x.mistake(e, "%s", what))...)
	}
}

// stretches are where a phase's time went: the longest stretch in which nothing succeeded,
// or that the run ended before.
func (x *Inquiry) stretches(phase string) []Step {
	phases := x.History.Phases()
	for _, ph := range phases {
		if ph.Name != phase {
			continue
		}
		last, longest, from := ph.From, int64(0), ph.From
		var ends []int64
		for _, s := range x.Successes {
			if at := s.Op.End.TS; at >= ph.From && at < ph.To {
				ends = append(ends, at)
			}
		}
		slices.Sort(ends)
		for _, at := range append(ends, ph.To) {
			if at-last > longest {
				longest, from = at-last, last
			}
			last = at
		}
		return []Step{x.Instant(RoleBefore, ph.From, "phase %s begins, for %s", phase, phrase.MS(ph.To-ph.From)),
			x.Instant(RoleBefore, from, "for %s no %s succeeds, the longest such stretch of the phase", phrase.MS(longest), x.SuccessNoun())}
	}
	if n := len(phases); n > 0 {
		return []Step{x.Instant(RoleBefore, phases[n-1].To, "the run ends in phase %s: it never came to phase %s", phases[n-1].Name, phase)}
	}
	return nil
}

// faultsOfThePlan finds the faults that never came and those that did nothing. Of
// links that were not disturbed the requests tell too: they went on as before.
func (x *Inquiry) faultsOfThePlan() {
	have := map[string]history.FaultWindow{}
	for _, f := range x.Faults {
		have[f.Fault.ID] = f
	}
	for _, e := range x.Expects {
		for _, id := range e.Expect().Faults {
			f, came := have[id]
			switch {
			case !came:
				s := x.suspect("fault-never-came", shown, 1, "fault %s was not injected", id)
				s.show(id, e.TS, nil, x.mistake(e, "the plan has %s, and nothing in the history injects it", strings.Join(e.Expect().Faults, ", ")))
			case !f.Proven:
				x.unproven(f)
			}
		}
	}
}

func (x *Inquiry) unproven(f history.FaultWindow) {
	notes := x.FaultEvents(f.Fault.ID)
	id, w := "fault-did-not-bite", shown
	kind := history.KindOfFault(f.Fault.Name)
	done, undecided := x.traffic(f)
	switch {
	case kind.Links && done > 0 && undecided*100 <= done:
		id, w = "links-not-cut", written
		x.suspect(id, w, 1, "while %s was said to be in force %s were answered at once and %d were not",
			f.Fault.ID, phrase.Plural(done, "operation"), undecided)
	case kind.Still && done > 0:
		id, w = "process-undisturbed", written
		x.suspect(id, w, 1, "while %s was said to be in force %s of %s began and ended",
			f.Fault.ID, phrase.Plural(done, "operation"), strings.Join(f.Fault.Targets, ", "))
	}
	s := x.suspect(id, w, 1, "%s (%s): %s", f.Fault.ID, f.Fault.Name, past.Evidence(f))
	var chain []Step
	for _, e := range notes {
		role := RoleBefore
		if e.Fault().Action == history.ActionEvidence {
			role = RoleMistake
		}
		chain = append(chain, x.step(role, e, "%s %s: %s", e.Fault().ID, e.Fault().Action, phrase.OrNone(e.Fault().Text)))
	}
	s.show(f.Fault.ID, f.From, f.Fault.Targets, chain...)
}

// traffic counts the operations of those at whom a fault was aimed, of all clients if that
// is no worker, that were wholly within its window, by whether their outcome was known at
// once.
func (x *Inquiry) traffic(f history.FaultWindow) (done, undecided int) {
	aimed := past.WorkersIn(f.Fault.Targets)
	to := f.To
	if until, ok := f.Until(); ok {
		to = until
	}
	for o := range past.Each(x.Ops) {
		if o.Invoke.Proc == history.Harness || o.End == nil || o.Invoke.TS < f.From || o.End.TS > to {
			continue
		}
		if len(aimed) > 0 && !slices.Contains(aimed, history.Worker(o.Invoke.Proc)) {
			continue
		}
		if o.Outcome == history.Unknown || len(o.End.Sends) > 1 {
			undecided++
		} else {
			done++
		}
	}
	return done, undecided
}
