package checker

import (
	"slices"

	"fencepost/harness/record/history"
)

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
		if c.inv.Proc != harness && c.inv.TS < g.To && (c.end == nil || c.end.TS > g.From) {
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
