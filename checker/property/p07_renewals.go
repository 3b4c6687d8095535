package property

import (
	"fmt"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// extension is a call by which a holder was told that its lease is renewed.
type extension struct {
	*past.Op
	row   *past.Row
	grant *past.Grant
	wrong string // why the lease is not renewed; "": it is
}

// extensions are those that can be judged.
func (a *Judgement) extensions() (all []extension) {
	for _, l := range a.Rows {
		for _, c := range l.Extends {
			if c.Outcome != history.OK {
				continue
			}
			if g := l.Find(c.Invoke.Token, c.Invoke.Proc); g != nil && g.OwnedBy(c.Invoke.Proc) && !g.ClockBeyond {
				all = append(all, extension{c, l, g, notRenewed(g, c)})
			}
		}
	}
	return all
}

// checkExtends is the part of P7 about who renews by hand: what it is told it counts on.
func (a *Judgement) checkExtends(p *Property) {
	for _, e := range a.extensions() {
		p.Checked++
		if e.wrong != "" {
			p.add(e.row.Name, append(windowOf(e.grant, e.Invoke), e.End), "%s was told that its lease on %s, token %d, is renewed, %s",
				e.Invoke.Proc, e.row.Name, e.grant.Token, e.wrong)
		}
	}
}

// notRenewed says why a lease is not renewed by a call that says so; "": it is. The call needs a renewal
// that was answered while it lasted and before the deadline of the time, of a lease that was not over.
func notRenewed(g *past.Grant, c *past.Op) string {
	if end, by := g.Until(); by != nil && end < c.Invoke.TS {
		return fmt.Sprintf("%s after its %s", phrase.MS(c.Invoke.TS-end), by.Op)
	}
	late := ""
	for i, r := range g.Renews { // by their ends
		switch {
		case r.End.TS < c.Invoke.TS || r.End.TS > c.End.TS:
		case i < g.InTime:
			return ""
		default:
			late = fmt.Sprintf("by one that was answered %s after its deadline", phrase.MS(r.End.TS-g.Deadline))
		}
	}
	if late == "" {
		late = "and no renewal of it was answered meanwhile"
	}
	return late
}

// renewalsInVain: renewals that were reported to their holder and were none.
func (x *Inquiry) renewalsInVain() {
	if !x.failed("P7") {
		return
	}
	for _, e := range x.extensions() {
		if e.wrong == "" {
			continue
		}
		s := x.found("renewal-only-told", shown, "%s was told that it renewed %s, %s", e.Invoke.Proc, e.row.Name, e.wrong)
		s.showAt(e.row.Name, e.End, x.granted(RoleBefore, e.grant), x.before(e.Invoke, "%s renews its lease by hand", e.Invoke.Proc),
			x.mistake(e.End, "it is told that it did, %s", e.wrong))
	}
}
