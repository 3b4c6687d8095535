package property

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// Progress is what was got done while faults of one name were in force.
type Progress struct {
	Fault string `json:"fault"` // as the scenario names it
	// Cycles are the successes between inject and heal, MinCycles the least.
	Cycles    int `json:"cycles"`
	MinCycles int `json:"min_cycles"`
	// GapMS is the longest time for which a lock or shard, Key, was asked for without a
	// success; "": all of them together. MostMS is what is allowed.
	GapMS  float64 `json:"gap_ms"`
	MostMS float64 `json:"most_ms"`
	Key    string  `json:"key,omitempty"`
}

// checkProgress is the part of P11 that the scenario asks for: those who can reach a
// quorum get things done while a fault is in force.
func (a *Judgement) checkProgress(p *Property) {
	a.progress = nil
	for _, e := range a.Expects {
		for _, want := range e.Expect().Progress {
			if windows := a.injections(want.Fault); len(windows) > 0 && want.Check() == nil {
				p.Checked++
				a.judgeProgress(e, want, windows, p)
			}
		}
	}
}

// injections are those of a fault by its name or id, or all.
func (a *Judgement) injections(fault string) []history.FaultWindow {
	return slices.DeleteFunc(slices.Clone(a.Faults), func(f history.FaultWindow) bool {
		return fault != history.AnyFault && f.Fault.ID != fault && f.Fault.Name != fault
	})
}

// windowsHull is from the first inject to the last heal. Between two injections nothing is in
// force, which is no excuse.
func windowsHull(windows []history.FaultWindow) (from, to int64) {
	from = windows[0].From
	for _, w := range windows {
		from, to = min(from, w.From), max(to, w.To)
	}
	return from, to
}

func (a *Judgement) judgeProgress(e *history.Event, want history.Progress, windows []history.FaultWindow, p *Property) {
	from, to := windowsHull(windows)
	out := Progress{Fault: want.Fault, MinCycles: want.MinCycles, MostMS: float64(want.LongestGapMS), Cycles: a.cyclesIn(want, windows)}
	ds := a.Demands()
	for i := range ds {
		g := ds[i].Longest(from, to)
		if g.Demand == nil {
			continue
		}
		if took := float64(g.Length()) / 1e6; took > out.GapMS || out.Key == "" && took == out.GapMS {
			out.GapMS, out.Key = took, g.Demand.Key
		}
		if g.Length() > want.LongestGapMS*1e6 {
			a.stalled(e, want, windows, g, p)
		}
	}
	a.idleClients(e, want, windows, p)
	if out.Cycles < want.MinCycles && a.timeFor(want, windows) {
		p.add(want.Fault, append(faultEdges(a, windows), e),
			"while %s was in force, for %s in all, %s of %s succeeded although a quorum could be reached: at least %d are demanded",
			want.Fault, phrase.MS(inForce(windows)), phrase.Plural(out.Cycles, a.CycleNoun()),
			groupText(history.Success{Group: want.Group}), want.MinCycles)
	}
	a.progress = append(a.progress, out)
}

// cyclesIn counts the successes in the windows of those who are meant.
func (a *Judgement) cyclesIn(want history.Progress, windows []history.FaultWindow) int {
	var in []successWindow
	for _, w := range windows {
		in = append(in, successWindow{from: w.From, to: w.To, inside: true,
			member: members(history.Success{Group: want.Group}, past.WorkersIn(w.Fault.Targets))})
	}
	_, n := a.succeeded(in)
	return n
}

func inForce(windows []history.FaultWindow) (total int64) {
	for _, w := range windows {
		total += w.To - w.From
	}
	return total
}

// timeFor says whether a system that keeps the gap bound must have come to the cycles
// demanded: each lock or shard once in each whole gap of a window, but for those that end with a
// grant that was lost. A success between two windows is one too, so short windows do not add up. In
// less time the run tested too little.
func (a *Judgement) timeFor(want history.Progress, windows []history.FaultWindow) bool {
	rows, lost := int64(max(len(a.Demands())-1, 1)), 0
	from, to := windowsHull(windows)
	for _, d := range a.Demands() {
		n := 0
		for _, at := range d.Regained {
			if at >= from && at <= to {
				n++
			}
		}
		lost = max(lost, n)
	}
	rounds := (int64(want.MinCycles)+rows-1)/rows + int64(lost)
	open := []history.Span{}
	for _, w := range windows {
		open = append(open, history.Span{From: w.From, To: w.To})
	}
	for _, s := range past.Without(past.Merge(open, 0), a.WithoutQuorum) {
		rounds -= (s.To - s.From) / (want.LongestGapMS * 1e6)
	}
	return rounds <= 0
}

// stalled reports a gap that is too long.
func (a *Judgement) stalled(e *history.Event, want history.Progress, windows []history.FaultWindow, g past.Gap, p *Property) {
	p.add(g.Demand.Key, append(append(faultEdges(a, windows), witnesses(g)...), e),
		"no %s of %s succeeded for %s although it was asked for and a quorum could be reached, with %s in force "+
			"meanwhile: at most %s are allowed",
		a.SuccessNoun(), a.NameOf(g.Demand), phrase.MS(g.Length()), want.Fault, phrase.MS(want.LongestGapMS*1e6))
}

// witnesses are the successes around a gap and a call that waited in it.
func witnesses(g past.Gap) []*history.Event {
	var before, after *past.Op
	for _, o := range g.Demand.Done {
		if o.End.TS <= g.From {
			before = o
		} else if o.End.TS >= g.To && after == nil {
			after = o
		}
	}
	out := append(past.Events(before), past.Events(after)...)
	for _, c := range g.Demand.Calls {
		if c.Invoke.TS < g.To && (c.End == nil || c.End.TS > g.From) {
			return append(out, past.Events(c)...)
		}
	}
	return out
}

// faultEdges are the first inject and the last heal.
func faultEdges(a *Judgement, windows []history.FaultWindow) []*history.Event {
	first := a.FaultEvents(windows[0].Fault.ID)
	last := a.FaultEvents(windows[len(windows)-1].Fault.ID)
	if len(first) == 0 || len(last) == 0 {
		return nil
	}
	return []*history.Event{first[0], last[len(last)-1]}
}

// idleClients: a client of locks that asks for nothing makes no demand, and waiting by
// not asking is a way to stand still too.
func (a *Judgement) idleClients(e *history.Event, want history.Progress, windows []history.FaultWindow, p *Property) {
	if a.Jobs.Any() {
		return // the harness enqueues, whatever the answers
	}
	from, to := windowsHull(windows)
	for _, idle := range a.idle() {
		for _, g := range past.Without([]history.Span{idle.Span}, a.Silences(history.Life(idle.Name))) {
			if g.To-g.From > want.LongestGapMS*1e6 && g.From < to && g.To > from {
				p.add(idle.Name, append(append(faultEdges(a, windows), past.Events(idle.last)...), e),
					"%s asked for nothing for %s although a quorum could be reached, with %s in force meanwhile: at most %s are allowed",
					idle.Name, phrase.MS(g.To-g.From), want.Fault, phrase.MS(want.LongestGapMS*1e6))
			}
		}
	}
}

// idleSpan is a time in which a client of locks, Name, had no call under way.
type idleSpan struct {
	history.Span
	last *past.Op // before it
}

// idle are those of all clients: from the end of a cycle to the next call.
func (a *Judgement) idle() []idleSpan {
	last := map[string]*past.Op{} // what each client did last
	for _, l := range a.Rows {
		for _, c := range l.Calls {
			last[c.Invoke.Proc] = nil
		}
	}
	var out []idleSpan
	over := func(proc string, to int64) {
		o := last[proc]
		if o == nil || o.End == nil || o.End.TS >= to || o.Invoke.Op != history.OpRelease &&
			(o.Invoke.Op != history.OpLock || o.Outcome == history.OK) {
			return // it never asked, or has something under way
		}
		out = append(out, idleSpan{history.Span{Name: proc, From: o.End.TS, To: to}, o})
	}
	for i := range a.Ops { // by invocation
		o := &a.Ops[i]
		switch _, client := last[o.Invoke.Proc]; {
		case !client:
		case o.Invoke.Op == history.OpLock:
			over(o.Invoke.Proc, o.Invoke.TS)
			last[o.Invoke.Proc] = o
		case o.Invoke.Op == history.OpRelease || o.Invoke.Op == history.OpRaise || o.Invoke.Op == history.OpGet ||
			o.Invoke.Op == history.OpEffect:
			last[o.Invoke.Proc] = o
		}
	}
	stop := a.Stopped
	for _, proc := range slices.Sorted(maps.Keys(last)) {
		over(proc, min(stop, a.Died(history.Life(proc))))
	}
	return out
}

// checkProgressShown is the part of P14 about progress: what is demanded must be able to
// fail. A fault that is over sooner than a gap may last shows nothing.
func (a *Judgement) checkProgressShown(e *history.Event, p *Property) {
	for _, want := range e.Expect().Progress {
		if err := want.Check(); err != nil {
			p.add(want.Fault, []*history.Event{e}, "the expect note is malformed: %v", err)
			continue
		}
		windows := a.injections(want.Fault)
		if len(windows) == 0 {
			p.add(want.Fault, []*history.Event{e}, "the scenario demands progress under fault %s, which was not injected", want.Fault)
			continue
		}
		if want.Fault != history.AnyFault {
			from, to := windowsHull(windows)
			longest := int64(0)
			for _, s := range a.QuorumReachable() {
				longest = max(longest, min(s.To, to)-max(s.From, from))
			}
			if longest <= want.LongestGapMS*1e6 {
				p.add(want.Fault, append(faultEdges(a, windows), e),
					"%s was in force for %s in which anybody could reach a quorum, and a gap may last %s: nothing could have been shown by it",
					want.Fault, phrase.MS(longest), phrase.MS(want.LongestGapMS*1e6))
			}
		}
		if n := a.cyclesIn(want, windows); n < want.MinCycles && !a.timeFor(want, windows) {
			p.add(want.Fault, append(faultEdges(a, windows), e), "while %s was in force %s succeeded, the scenario demands %d",
				want.Fault, phrase.Plural(n, a.CycleNoun()), want.MinCycles)
		}
	}
}

// ProgressText says what was got done, for people; "" without expectations.
func ProgressText(ps []Progress, work string) string {
	var texts []string
	for _, x := range ps {
		of := ""
		if x.Key != "" {
			of = " of " + x.Key
		}
		texts = append(texts,
			fmt.Sprintf("under %s %s, longest gap%s %.1f s of %.1f s", x.Fault, phrase.Plural(x.Cycles, work), of, x.GapMS/1e3, x.MostMS/1e3))
	}
	return strings.Join(slices.Compact(texts), "; ")
}

// missingTakeovers: a row that stood still under a silent holder, and nobody who waited
// sent as much as a request.
func (x *Inquiry) missingTakeovers() {
	if !x.failed("P11") {
		return
	}
	late := map[string]bool{}
	p := &Property{}
	x.checkStandstills(p)
	for _, v := range p.Violations {
		late[v.Key] = true
	}
	for _, l := range x.Rows {
		if !late[l.Name] || !l.Complete {
			continue
		}
		for _, s := range standstills(l) {
			limit := x.TakeoverBound(s.ttl)
			if s.to-s.from <= limit || s.w == nil && !s.held {
				continue
			}
			at := l.Versions[0] // no row
			if s.w != nil {
				at = s.w.To
			}
			tries := slices.ContainsFunc(l.CAS, func(c *past.CAS) bool {
				return past.IsGrant(c.Kind()) && c.From == at && c.Invoke.TS < s.from+limit
			})
			if tries {
				continue // they tried: it is the store that did not answer
			}
			sus := x.found("no-takeover", WeightFits, "%s stood still for %s and nobody sent a takeover for %s (ttl %s)",
				l.Name, phrase.MS(s.to-s.from), phrase.MS(s.next.Earliest()-s.from), phrase.MS(s.ttl))
			x.suspect("no-takeover", WeightFits, 0, "in the whole run there were %s", phrase.Plural(x.count().Takeovers, "takeover"))
			var chain []Step
			procs := []string{s.next.Main().Invoke.Proc}
			if s.w != nil {
				m := s.w.Main()
				procs = append(procs, m.Invoke.Proc)
				chain = append(chain, x.before(m.Invoke, "the last write of %s: %s by %s to %s", l.Name, m.Kind(), m.Invoke.Proc, l.Text(s.w.To)))
				for _, e := range x.Crashes {
					if history.Life(e.Proc) == history.Life(m.Invoke.Proc) && e.TS >= m.Invoke.TS && e.TS < s.to {
						chain = append(chain, x.before(e, "%s dies: %s", e.Proc, phrase.OrNone(e.Error)))
					}
				}
			}
			chain = append(chain, x.Instant(RoleMistake, s.from+limit, "by now it should have been taken over (ttl + ttl/8 + bound)"),
				x.harm(s.next.Main().Invoke, "the next to write it: %s by %s", s.next.Main().Kind(), s.next.Main().Invoke.Proc))
			sus.show(l.Name, s.from+limit, procs, chain...)
		}
	}
}

// stalls: a lock or shard that was asked for, a quorum, and nothing done for longer than
// the scenario allows. What was sent meanwhile tells them apart.
func (x *Inquiry) stalls() {
	if !x.failed("P11") {
		return
	}
	for _, e := range x.Expects {
		for _, want := range e.Expect().Progress {
			windows := x.injections(want.Fault)
			if len(windows) == 0 {
				continue
			}
			from, to := windowsHull(windows)
			for _, d := range x.Demands() {
				if g := d.Longest(from, to); g.Demand != nil && d.Key != "" && g.Length() > want.LongestGapMS*1e6 {
					x.stalled(want, g)
				}
			}
			for _, idle := range x.idle() {
				if idle.To-idle.From > want.LongestGapMS*1e6 && idle.From < to && idle.To > from {
					s := x.suspect("work-stops-in-fault", WeightFits, 1, "%s asked for nothing for %s, with %s in force meanwhile",
						idle.Name, phrase.MS(idle.To-idle.From), want.Fault)
					s.show(idle.Name, idle.From, []string{idle.Name},
						x.before(idle.last.End, "the last that %s did: %s of %s", idle.Name, idle.last.Invoke.Op, idle.last.Invoke.Key),
						x.Instant(RoleMistake, idle.From+want.LongestGapMS*1e6, "by now it should have asked again"),
						x.Instant(RoleHarm, idle.To, "until now it asked for nothing"))
				}
			}
		}
	}
}

func (x *Inquiry) stalled(want history.Progress, g past.Gap) {
	l := x.RowOf[g.Demand.Key]
	var sent []*past.Op // meanwhile
	for _, c := range l.CAS {
		if c.Invoke.Proc != history.Harness && c.Invoke.TS < g.To && (c.End == nil || c.End.TS > g.From) {
			sent = append(sent, &c.Op)
		}
	}
	bound := want.LongestGapMS * 1e6
	chain := []Step{
		x.Instant(RoleBefore, g.From, "from now on no %s of %s succeeds, though it is asked for", x.SuccessNoun(), l.Name),
		x.Instant(RoleMistake, g.From+bound, "by now one should have succeeded"),
		x.Instant(RoleHarm, g.To, "it took %s", phrase.MS(g.Length())),
	}
	var hung *past.Op
	ticks, claimed, idle := 0, g.From, int64(0) // batches that took effect, the last that claimed, the longest time between two
	for _, o := range sent {
		switch {
		case duringGap(o, g) > g.Length()/2:
			hung = o
		case past.IsRenewal(o.Invoke.Op) && o.Outcome == history.OK:
			ticks++
			if slices.ContainsFunc(o.Invoke.Changes(), func(c history.Change) bool { return c.Do == history.DoClaim }) {
				idle, claimed = max(idle, o.Invoke.TS-claimed), o.Invoke.TS
			}
		}
	}
	idle = max(idle, g.To-claimed)
	switch {
	case hung != nil:
		s := x.suspect("waits-for-one-node", WeightFits, 1,
			"a request for %s was under way for %s with %s in force, and other nodes could have answered it",
			l.Name, phrase.MS(duringGap(hung, g)), want.Fault)
		s.show(l.Name, g.From, []string{hung.Invoke.Proc}, append(chain,
			x.mistake(hung.Invoke, "%s by %s waits for its answer for %s", hung.Invoke.Op, hung.Invoke.Proc, phrase.MS(duringGap(hung, g))))...)
	case l.Shard && ticks > 0 && idle > g.Length()/2:
		x.suspect("claims-stop", WeightFits, 1, "%s of %s took effect in %s, and none claimed a job for %s of them",
			phrase.Plural(ticks, "tick"), l.Name, phrase.MS(g.Length()), phrase.MS(idle)).show(l.Name, g.From, nil, chain...)
	default:
		x.suspect("work-stops-in-fault", WeightFits, 1, "nothing came of %s for %s: %s were under way meanwhile, with %s in force",
			l.Name, phrase.MS(g.Length()), phrase.Plural(len(sent), "request"), want.Fault).show(l.Name, g.From, nil, chain...)
	}
}

// duringGap is for how long an operation was under way within a gap.
func duringGap(o *past.Op, g past.Gap) int64 {
	to := g.To
	if o.End != nil {
		to = min(to, o.End.TS)
	}
	return to - max(o.Invoke.TS, g.From)
}

// busyHost: nothing that is judged by time can be held against the system.
func (x *Inquiry) busyHost() {
	if why, note := x.Busy(); note != nil {
		s := x.suspect("host-too-busy", written, 1, "%s", why)
		s.show("", note.TS, nil, x.mistake(note, "%s", why))
	}
}
