package property

import (
	"fmt"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// clockSlack is how much sooner than its limit a call may be recorded as over.
const clockSlack = int64(1e6)

// checkLockCalls is the part of P11 about those who do not wait for ever: a call ends at its limit and
// not before it, one that must not wait does not, and nobody renews what was granted to a call
// that is over.
func (a *Judgement) checkLockCalls(p *Property) {
	abandoned := 0
	for _, l := range a.Rows {
		for _, c := range l.Calls {
			a.checkLimit(l, c, p)
		}
		for g, call := range a.abandoned(l) {
			abandoned++
			if r := renewedAfter(l, g, call); r != nil {
				p.add(l.Name, append(past.Events(call, &g.Acquire.Op), past.Events(&r.Op)...),
					"%s renewed %s under token %d %s after its call had ended without it: nobody holds that lease, and it is kept from others",
					r.Invoke.Proc, l.Name, g.Token, phrase.MS(r.Invoke.TS-call.End.TS))
			}
		}
	}
	if abandoned > 0 {
		p.Detail += fmt.Sprintf("; %s granted to calls that were over: released, or left to lapse", phrase.PluralWas(abandoned, "lease"))
	}
}

// checkLimit holds a call against what it asked for.
func (a *Judgement) checkLimit(l *past.Row, c *past.Op, p *Property) {
	limit, try := c.Invoke.LimitMS()*1e6, c.Invoke.Try()
	if c.End == nil || limit == 0 && !try {
		return
	}
	life := history.Life(c.Invoke.Proc)
	took := c.End.TS - c.Invoke.TS
	head := a.HeaderOf(life)
	least := limit - int64(2*head.DriftBound*float64(limit)) - clockSlack
	if c.End.Result == history.ResultTimeout && took < least && len(a.Clocks[life]) == 0 {
		p.add(l.Name, past.Events(c), "%s gave up waiting for %s after %s, though it may wait for %s",
			c.Invoke.Proc, l.Name, phrase.MS(took), phrase.MS(limit))
	}
	waited := a.waitedFor(c)
	bound := a.RequestBound(c.Invoke.TTLMS() * 1e6)
	switch {
	case try && waited > bound:
		p.add(l.Name, past.Events(c), "%s must not wait for %s (TryAcquire), and waited for %s: at most %s are allowed for its requests",
			c.Invoke.Proc, l.Name, phrase.MS(waited), phrase.MS(bound))
	case !try && waited > limit+bound:
		p.add(l.Name, past.Events(c), "%s waited for %s for %s: its limit was %s", c.Invoke.Proc, l.Name, phrase.MS(waited), phrase.MS(limit))
	}
}

// waitedFor is how long a call took, without the times in which its process could not be
// expected to do anything.
func (a *Judgement) waitedFor(c *past.Op) (total int64) {
	call := []history.Span{{From: c.Invoke.TS, To: c.End.TS}}
	for _, s := range past.Without(call, a.Silences(history.Life(c.Invoke.Proc))) {
		total += s.To - s.From
	}
	return total
}

// abandoned are the grants of a lock that were handed to nobody, each with the client's call
// that had asked for it, or the last one before: it is over.
func (a *Judgement) abandoned(l *past.Row) map[*past.Grant]*past.Op {
	out := map[*past.Grant]*past.Op{}
	if l.Shard || len(l.Calls) == 0 {
		return out
	}
	for _, g := range l.Grants {
		if g.Call != nil || !g.TookEffect() {
			continue
		}
		var last *past.Op
		for _, c := range l.Calls { // in the order of invocation
			if c.Invoke.TS > g.Acquire.Invoke.TS {
				break
			}
			if c.Invoke.Proc == g.Acquire.Invoke.Proc {
				last = c
			}
		}
		if last != nil && last.End != nil {
			out[g] = last
		}
	}
	return out
}

// renewedAfter is the first renewal of a grant that took effect and began when the call was over.
func renewedAfter(l *past.Row, g *past.Grant, call *past.Op) *past.CAS {
	for _, r := range g.Renews {
		if r.Invoke.TS > call.End.TS {
			return r
		}
	}
	return nil
}

// callsInVain: calls that do not end when they should, and leases that outlive them.
func (x *Inquiry) callsInVain() {
	if !x.failed("P11") {
		return
	}
	for _, l := range x.Rows {
		for _, c := range l.Calls {
			p := &Property{}
			x.checkLimit(l, c, p)
			if p.Count == 0 {
				continue
			}
			id := "waits-beyond-limit"
			if c.End.Result == history.ResultTimeout && c.End.TS-c.Invoke.TS < c.Invoke.LimitMS()*1e6 {
				id = "gives-up-early"
			}
			s := x.found(id, shown, "%s", p.Violations[0].Message)
			s.showAt(l.Name, c.End, x.before(c.Invoke, "%s asks for %s", c.Invoke.Proc, l.Name),
				x.mistake(c.End, "its call ends %s later: %s", phrase.MS(c.End.TS-c.Invoke.TS), phrase.OrNone(c.End.Error)))
		}
		for g, call := range x.abandoned(l) {
			r := renewedAfter(l, g, call)
			if r == nil {
				continue
			}
			s := x.found("abandoned-lease-renewed", shown, "%s is renewed by %s under token %d, %s after the call that asked for it had ended: %s",
				l.Name, r.Invoke.Proc, g.Token, phrase.MS(r.Invoke.TS-call.End.TS), phrase.OrNone(call.End.Error))
			s.showAt(l.Name, r.Invoke, x.before(call.End, "the call of %s for %s ends without it: %s", call.Invoke.Proc, l.Name,
				phrase.OrNone(call.End.Error)), x.granted(RoleBefore, g), x.mistake(r.Invoke, "%s renews it, and nobody holds it", r.Invoke.Proc))
		}
	}
}
