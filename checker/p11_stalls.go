package checker

import (
	"slices"

	"fencepost/harness/record/history"
)

// missingTakeovers: a row that stood still under a silent holder, and nobody who waited
// sent as much as a request.
func (x *inquiry) missingTakeovers() {
	if !x.failed("P11") {
		return
	}
	late := map[string]bool{}
	p := &Property{}
	x.a.checkStands(p)
	for _, v := range p.Violations {
		late[v.Key] = true
	}
	n := 0
	for _, l := range x.a.rows {
		if !late[l.name] || !l.whole {
			continue
		}
		for _, s := range l.stands() {
			limit := x.a.within(s.ttl)
			if s.to-s.from <= limit || s.w == nil && !s.held {
				continue
			}
			at := l.versions[0] // no row
			if s.w != nil {
				at = s.w.to
			}
			tries := slices.ContainsFunc(l.cas, func(c *cas) bool {
				return isGrant(c.kind()) && c.from == at && c.inv.TS < s.from+limit
			})
			if tries {
				continue // they tried: it is the store that did not answer
			}
			n++
			sus := x.suspect("no-takeover", fits, n, "%s stood still for %s and nobody sent a takeover for %s (ttl %s)", l.name, ms(s.to-s.from), ms(s.next.call()-s.from), ms(s.ttl))
			x.suspect("no-takeover", fits, n, "in the whole run there were %s", plural(x.a.count().Takeovers, "takeover"))
			var chain []Step
			procs := []string{s.next.main().inv.Proc}
			if s.w != nil {
				m := s.w.main()
				procs = append(procs, m.inv.Proc)
				chain = append(chain, x.step(RoleBefore, m.inv, "the last write of %s: %s by %s to %s", l.name, m.kind(), m.inv.Proc, l.text(s.w.to)))
				for _, e := range x.a.crashes {
					if history.Life(e.Proc) == history.Life(m.inv.Proc) && e.TS >= m.inv.TS && e.TS < s.to {
						chain = append(chain, x.step(RoleBefore, e, "%s dies: %s", e.Proc, orNone(e.Error)))
					}
				}
			}
			chain = append(chain, x.instant(RoleMistake, s.from+limit, "by now it should have been taken over (ttl + ttl/8 + bound)"), x.step(RoleHarm, s.next.main().inv, "the next to write it: %s by %s", s.next.main().kind(), s.next.main().inv.Proc))
			sus.show(l.name, s.from+limit, procs, chain...)
		}
	}
}

// stalls: a lock or shard that was asked for, a quorum, and nothing done for longer than
// the scenario allows. What was sent meanwhile tells them apart.
func (x *inquiry) stalls() {
	if !x.failed("P11") {
		return
	}
	for _, e := range x.a.expects {
		for _, want := range e.Expect().Progress {
			windows := x.a.injections(want.Fault)
			if len(windows) == 0 {
				continue
			}
			from, to := hull(windows)
			for _, d := range x.a.demands() {
				if g := d.longest(from, to); g.d != nil && d.key != "" && g.length() > want.LongestGapMS*1e6 {
					x.stalled(want, g)
				}
			}
			for _, idle := range x.a.idle() {
				if idle.To-idle.From > want.LongestGapMS*1e6 && idle.From < to && idle.To > from {
					s := x.suspect("work-stops-in-fault", fits, 1, "%s asked for nothing for %s, with %s in force meanwhile", idle.Name, ms(idle.To-idle.From), want.Fault)
					s.show(idle.Name, idle.From, []string{idle.Name}, x.step(RoleBefore, idle.last.end, "the last that %s did: %s of %s", idle.Name, idle.last.inv.Op, idle.last.inv.Key),
						x.instant(RoleMistake, idle.From+want.LongestGapMS*1e6, "by now it should have asked again"), x.instant(RoleHarm, idle.To, "until now it asked for nothing"))
				}
			}
		}
	}
}

func (x *inquiry) stalled(want history.Progress, g gap) {
	l := x.a.row[g.d.key]
	var sent []*op // meanwhile
	for _, c := range l.cas {
		if c.inv.Proc != history.Harness && c.inv.TS < g.To && (c.end == nil || c.end.TS > g.From) {
			sent = append(sent, &c.op)
		}
	}
	bound := want.LongestGapMS * 1e6
	chain := []Step{
		x.instant(RoleBefore, g.From, "from now on no %s of %s succeeds, though it is asked for", x.a.work(), l.name),
		x.instant(RoleMistake, g.From+bound, "by now one should have succeeded"),
		x.instant(RoleHarm, g.To, "it took %s", ms(g.length())),
	}
	var hung *op
	ticks, claimed, idle := 0, g.From, int64(0) // batches that took effect, the last that claimed, the longest time between two
	for _, o := range sent {
		switch {
		case o.duringGap(g) > g.length()/2:
			hung = o
		case isRenewal(o.inv.Op) && o.outcome == history.OK:
			ticks++
			if slices.ContainsFunc(o.inv.Changes(), func(c history.Change) bool { return c.Do == history.DoClaim }) {
				idle, claimed = max(idle, o.inv.TS-claimed), o.inv.TS
			}
		}
	}
	idle = max(idle, g.To-claimed)
	switch {
	case hung != nil:
		s := x.suspect("waits-for-one-node", fits, 1, "a request for %s was under way for %s with %s in force, and other nodes could have answered it", l.name, ms(hung.duringGap(g)), want.Fault)
		s.show(l.name, g.From, []string{hung.inv.Proc}, append(chain, x.step(RoleMistake, hung.inv, "%s by %s waits for its answer for %s", hung.inv.Op, hung.inv.Proc, ms(hung.duringGap(g))))...)
	case l.shard && ticks > 0 && idle > g.length()/2:
		x.suspect("claims-stop", fits, 1, "%s of %s took effect in %s, and none claimed a job for %s of them", plural(ticks, "tick"), l.name, ms(g.length()), ms(idle)).show(l.name, g.From, nil, chain...)
	default:
		x.suspect("work-stops-in-fault", fits, 1, "nothing came of %s for %s: %s were under way meanwhile, with %s in force", l.name, ms(g.length()), plural(len(sent), "request"), want.Fault).show(l.name, g.From, nil, chain...)
	}
}

// duringGap is for how long an operation was under way within a gap.
func (o *op) duringGap(g gap) int64 {
	to := g.To
	if o.end != nil {
		to = min(to, o.end.TS)
	}
	return to - max(o.inv.TS, g.From)
}

// busyHost: nothing that is judged by time can be held against the system.
func (x *inquiry) busyHost() {
	if why, note := x.a.busy(); note != nil {
		s := x.suspect("host-too-busy", written, 1, "%s", why)
		s.show("", note.TS, nil, x.step(RoleMistake, note, "%s", why))
	}
}
