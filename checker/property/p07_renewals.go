package property

import (
	"fmt"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// checkExtends is the part of P7 about who renews by hand: what it is told it counts on.
func (a *Judgement) checkExtends(p *Property) {
	for _, l := range a.Rows {
		for _, c := range l.Extends {
			g := extended(l, c)
			if g == nil {
				continue
			}
			p.Checked++
			if why := notRenewed(g, c); why != "" {
				p.add(l.Name, append(windowOf(g, c.Invoke), c.End), "%s was told that its lease on %s, token %d, is renewed, %s",
					c.Invoke.Proc, l.Name, g.Token, why)
			}
		}
	}
}

// extended is the grant that a call says it has renewed; nil: it says nothing of the kind, or of none
// that can be judged.
func extended(l *past.Row, c *past.Op) *past.Grant {
	if c.Outcome != history.OK {
		return nil
	}
	g := l.Find(c.Invoke.Token, c.Invoke.Proc)
	if g == nil || !g.OwnedBy(c.Invoke.Proc) || g.ClockBeyond {
		return nil
	}
	return g
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
	for _, l := range x.Rows {
		for _, c := range l.Extends {
			g := extended(l, c)
			if g == nil {
				continue
			}
			why := notRenewed(g, c)
			if why == "" {
				continue
			}
			s := x.found("renewal-only-told", shown, "%s was told that it renewed %s, %s", c.Invoke.Proc, l.Name, why)
			s.showAt(l.Name, c.End, x.granted(RoleBefore, g), x.before(c.Invoke, "%s renews its lease by hand", c.Invoke.Proc),
				x.mistake(c.End, "it is told that it did, %s", why))
		}
	}
}
