package property

import (
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// missingTakeovers: a row that stood still under a silent holder, and nobody who waited
// sent as much as a request.
func (x *Inquiry) missingTakeovers() {
	if !x.failed("P11") {
		return
	}
	late := map[string]bool{}
	p := &Property{}
	x.checkStands(p)
	for _, v := range p.Violations {
		late[v.Key] = true
	}
	n := 0
	for _, l := range x.Rows {
		if !late[l.Name] || !l.Whole {
			continue
		}
		for _, s := range stands(l) {
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
			n++
			sus := x.suspect("no-takeover", Fits, n, "%s stood still for %s and nobody sent a takeover for %s (ttl %s)", l.Name, phrase.MS(s.to-s.from), phrase.MS(s.next.Earliest()-s.from), phrase.MS(s.ttl))
			x.suspect("no-takeover", Fits, n, "in the whole run there were %s", phrase.Plural(x.count().Takeovers, "takeover"))
			var chain []Step
			procs := []string{s.next.Main().Invoke.Proc}
			if s.w != nil {
				m := s.w.Main()
				procs = append(procs, m.Invoke.Proc)
				chain = append(chain, x.step(RoleBefore, m.Invoke, "the last write of %s: %s by %s to %s", l.Name, m.Kind(), m.Invoke.Proc, l.Text(s.w.To)))
				for _, e := range x.Crashes {
					if history.Life(e.Proc) == history.Life(m.Invoke.Proc) && e.TS >= m.Invoke.TS && e.TS < s.to {
						chain = append(chain, x.step(RoleBefore, e, "%s dies: %s", e.Proc, phrase.OrNone(e.Error)))
					}
				}
			}
			chain = append(chain, x.Instant(RoleMistake, s.from+limit, "by now it should have been taken over (ttl + ttl/8 + bound)"), x.step(RoleHarm, s.next.Main().Invoke, "the next to write it: %s by %s", s.next.Main().Kind(), s.next.Main().Invoke.Proc))
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
			from, to := hull(windows)
			for _, d := range x.Demands() {
				if g := d.Longest(from, to); g.Demand != nil && d.Key != "" && g.Length() > want.LongestGapMS*1e6 {
					x.stalled(want, g)
				}
			}
			for _, idle := range x.idle() {
				if idle.To-idle.From > want.LongestGapMS*1e6 && idle.From < to && idle.To > from {
					s := x.suspect("work-stops-in-fault", Fits, 1, "%s asked for nothing for %s, with %s in force meanwhile", idle.Name, phrase.MS(idle.To-idle.From), want.Fault)
					s.show(idle.Name, idle.From, []string{idle.Name}, x.step(RoleBefore, idle.last.End, "the last that %s did: %s of %s", idle.Name, idle.last.Invoke.Op, idle.last.Invoke.Key),
						x.Instant(RoleMistake, idle.From+want.LongestGapMS*1e6, "by now it should have asked again"), x.Instant(RoleHarm, idle.To, "until now it asked for nothing"))
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
		x.Instant(RoleBefore, g.From, "from now on no %s of %s succeeds, though it is asked for", x.Work(), l.Name),
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
		s := x.suspect("waits-for-one-node", Fits, 1, "a request for %s was under way for %s with %s in force, and other nodes could have answered it", l.Name, phrase.MS(duringGap(hung, g)), want.Fault)
		s.show(l.Name, g.From, []string{hung.Invoke.Proc}, append(chain, x.step(RoleMistake, hung.Invoke, "%s by %s waits for its answer for %s", hung.Invoke.Op, hung.Invoke.Proc, phrase.MS(duringGap(hung, g))))...)
	case l.Shard && ticks > 0 && idle > g.Length()/2:
		x.suspect("claims-stop", Fits, 1, "%s of %s took effect in %s, and none claimed a job for %s of them", phrase.Plural(ticks, "tick"), l.Name, phrase.MS(g.Length()), phrase.MS(idle)).show(l.Name, g.From, nil, chain...)
	default:
		x.suspect("work-stops-in-fault", Fits, 1, "nothing came of %s for %s: %s were under way meanwhile, with %s in force", l.Name, phrase.MS(g.Length()), phrase.Plural(len(sent), "request"), want.Fault).show(l.Name, g.From, nil, chain...)
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
		s.show("", note.TS, nil, x.step(RoleMistake, note, "%s", why))
	}
}
