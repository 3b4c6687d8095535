package property

import (
	"fmt"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// session is a lock client of a process life, by its number.
type session struct {
	life string
	n    int
}

// closing is the end of a lock client, with what it was asked for and handed out.
type closing struct {
	*past.Op
	calls  []*past.Op
	grants []*past.Grant
	ttl    int64 // the longest
}

// closings are those of all lock clients that were closed in favour of another one.
func (a *Judgement) closings() []*closing {
	at := map[session]*closing{}
	var out []*closing
	for _, o := range a.Closes {
		c := &closing{Op: o}
		at[session{history.Life(o.Invoke.Proc), o.Invoke.Session()}] = c
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil
	}
	of := func(call *past.Op) *closing {
		return at[session{history.Life(call.Invoke.Proc), call.Invoke.Session()}]
	}
	for _, l := range a.Rows {
		for _, o := range l.Calls {
			if c := of(o); c != nil {
				c.calls, c.ttl = append(c.calls, o), max(c.ttl, o.Invoke.TTLMS()*1e6)
			}
		}
		for _, g := range l.Grants {
			if g.Call == nil {
				continue
			}
			if c := of(g.Call); c != nil {
				c.grants = append(c.grants, g)
			}
		}
	}
	return out
}

// misdeed is what a lock client does that is closed.
type misdeed struct {
	mechanism, key, text string
	events               []*history.Event
	mistake              *history.Event
}

// misdeeds hold a lock client that was closed against what its Close promises.
func (a *Judgement) misdeeds(c *closing) (out []misdeed) {
	life, bound := history.Life(c.Invoke.Proc), a.RequestBound(c.ttl)
	add := func(mechanism, key string, events []*history.Event, mistake *history.Event, format string, args ...any) {
		out = append(out, misdeed{mechanism, key, fmt.Sprintf(format, args...), append(past.Events(c.Op), events...), mistake})
	}
	if c.End != nil {
		if took := a.waitedFor(c.Op); took > c.Invoke.LimitMS()*1e6+bound {
			add("client-not-closed", "", nil, c.End, "lock client %d of %s was closed with a limit of %d ms, which took %s",
				c.Invoke.Session(), life, c.Invoke.LimitMS(), phrase.MS(took))
		}
	}
	for _, o := range c.calls {
		if o.End == nil || o.End.TS < c.Invoke.TS {
			continue
		}
		since := past.Op{Invoke: later(o.Invoke, c.Invoke), End: o.End}
		switch waited := a.waitedFor(&since); {
		case c.End != nil && o.Outcome == history.OK && o.Invoke.TS > c.End.TS:
			add("client-not-closed", o.Invoke.Key, past.Events(o), o.End, "%s was granted %s by lock client %d of %s, which had been closed before it asked",
				o.Invoke.Proc, o.Invoke.Key, c.Invoke.Session(), life)
		case waited > bound:
			add("client-not-closed", o.Invoke.Key, past.Events(o), o.End, "%s waited for %s for %s after its lock client, %d of %s, was closed",
				o.Invoke.Proc, o.Invoke.Key, phrase.MS(waited), c.Invoke.Session(), life)
		}
	}
	for _, g := range c.grants {
		if by := outlives(g, c.Op); by != "" {
			add("lease-outlives-client", g.Row.Name, past.Events(&g.Acquire.Op), c.End,
				"lock client %d of %s was closed (%s), and the lease of %s on %s, token %d, was not over: %s",
				c.Invoke.Session(), life, c.Outcome, g.Acquire.Invoke.Proc, g.Row.Name, g.Token, by)
		}
	}
	return out
}

func later(e, f *history.Event) *history.Event {
	if f.TS > e.TS {
		return f
	}
	return e
}

// outlives says what shows that a lease was not over when its lock client was closed; "": nothing. After
// the call nothing is sent for it. If the call is ok, it was released, lost or lapsed by then.
func outlives(g *past.Grant, c *past.Op) string {
	if c.End == nil {
		return ""
	}
	for _, r := range g.Renews {
		if r.Invoke.TS > c.End.TS {
			return "it was renewed " + phrase.MS(r.Invoke.TS-c.End.TS) + " later"
		}
	}
	if g.Release != nil && g.Release.Invoke.TS > c.End.TS {
		return "it was released " + phrase.MS(g.Release.Invoke.TS-c.End.TS) + " later"
	}
	if end, _ := g.Until(); c.Outcome == history.OK && end > c.End.TS {
		return "its holder's right lasted " + phrase.MS(end-c.End.TS) + " longer"
	}
	return ""
}

// checkCloses is the part of P11 about lock clients that are closed while they are used: what they have
// handed out does not outlive them, and nobody waits for what they no longer give.
func (a *Judgement) checkCloses(p *Property) {
	cs := a.closings()
	for _, c := range cs {
		for _, m := range a.misdeeds(c) {
			p.add(m.key, m.events, "%s", m.text)
		}
	}
	if len(cs) > 0 {
		p.Detail += fmt.Sprintf("; %s closed while in use", phrase.PluralWas(len(cs), "lock client"))
	}
}

// closedInVain: lock clients that are not closed when they say so.
func (x *Inquiry) closedInVain() {
	if !x.failed("P11") {
		return
	}
	for _, c := range x.closings() {
		for _, m := range x.misdeeds(c) {
			s := x.found(m.mechanism, shown, "%s", m.text)
			s.showAt(m.key, m.mistake, x.before(c.Invoke, "%s closes lock client %d of its process", c.Invoke.Proc, c.Invoke.Session()),
				x.mistake(m.mistake, "%s", m.text))
		}
	}
}
