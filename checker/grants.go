package checker

import (
	"sort"

	"fencepost/harness/record/history"
)

// grant is one acquisition of a lock or shard, from the CAS that made it to its end.
type grant struct {
	log   *rowLog
	acq   *cas
	call  *op   // the client's lock call that handed it out, or nil
	fence int64 // what the CAS wrote
	token int64 // what was handed out; the fence without a call
	// confirmed is the first instant at which an answer told the holder that
	// the grant is in the row; Forever if none did.
	confirmed int64
	answer    *history.Event // that answer, or the call's if that came before; nil: there is none
	renews    []*cas         // of this attempt, acknowledged, by end
	release   *cas           // the first release that was invoked, or nil
	lost      *history.Event
	// deadline is the holder's own, as derived from the recorded sends: never
	// earlier than the one that the holder computed. margin was subtracted.
	deadline, margin int64
	lateSends        int
	// clockBeyond: a fault made the holder's clock wrong by more than the declared
	// bound; overtaken: such a one took the lock over. See clocks.go.
	clockBeyond, overtaken bool
}

// from is when the holder's right to act begins: when it was told.
func (g *grant) from() int64 {
	t := g.confirmed
	if g.call != nil {
		t = min(t, g.call.end.TS)
	}
	return t
}

// until is when the right ends, with the event that ended it (nil: deadline).
func (g *grant) until() (int64, *history.Event) {
	t, by := g.deadline, (*history.Event)(nil)
	if g.release != nil && g.release.inv.TS < t {
		t, by = g.release.inv.TS, g.release.inv
	}
	if g.lost != nil && g.lost.TS < t {
		t, by = g.lost.TS, g.lost
	}
	return t, by
}

// made says whether the store really made the grant; when its lock's record is
// not whole, it may have.
func (g *grant) made() bool {
	f := g.log.fate(g.acq.w)
	return f == applied || f == open && g.acq.outcome != history.Fail
}

// buildGrants collects the acquisitions that took effect, were answered applied
// or were handed out, and what became of them.
func (a *past) buildGrants(l *rowLog) {
	l.byToken = map[int64][]*grant{}
	l.byAttempt = map[string]*grant{}
	handed := l.matchCalls()
	for _, c := range l.cas {
		if !isGrant(c.kind()) {
			continue
		}
		call := handed[c]
		if call == nil && c.outcome != history.OK && (c.w.pos < 0 || c.w.main() != c) {
			continue
		}
		if call != nil && call.end.Token != c.to.Fence && a.lost > 0 {
			call = nil // the acquire that it belongs to may be among what was lost
		}
		g := &grant{log: l, acq: c, call: call, fence: c.to.Fence, token: c.to.Fence, confirmed: history.Forever}
		if call != nil && call.end.Token != 0 {
			g.token = call.end.Token
		}
		l.grants = append(l.grants, g)
		l.byToken[g.token] = append(l.byToken[g.token], g)
		if g.fence != g.token {
			l.byToken[g.fence] = append(l.byToken[g.fence], g)
		}
		if old := l.byAttempt[c.to.Attempt]; old == nil || c.outcome == history.OK {
			l.byAttempt[c.to.Attempt] = g
		}
	}
	l.attach()
	for _, g := range l.grants {
		a.deadline(g)
	}
	l.excuseOvertaken()
}

// matchCalls finds, for each lock call that handed out a token, the acquire in it.
func (l *rowLog) matchCalls() map[*cas]*op {
	byProc := map[string][]*cas{}
	for _, c := range l.cas {
		if c.kind() == history.OpAcquire {
			byProc[c.inv.Proc] = append(byProc[c.inv.Proc], c)
		}
	}
	rank := func(c *cas) int {
		switch {
		case c.outcome == history.OK:
			return 3
		case c.w.pos >= 0:
			return 2
		case c.outcome == history.Unknown:
			return 1
		}
		return 0
	}
	out := map[*cas]*op{}
	for _, call := range l.calls {
		if call.outcome != history.OK {
			continue
		}
		cs := byProc[call.inv.Proc] // in order of invocation
		i := sort.Search(len(cs), func(i int) bool { return cs[i].inv.TS >= call.inv.TS })
		var best *cas
		for ; i < len(cs) && cs[i].inv.TS <= call.end.TS; i++ {
			if best == nil || rank(cs[i]) >= rank(best) {
				best = cs[i]
			}
		}
		if best != nil {
			out[best] = call
		} else {
			l.orphans = append(l.orphans, call)
		}
	}
	return out
}

// attach files renewals, releases, confirmations and losses with their grants.
func (l *rowLog) attach() {
	confirm := func(g *grant, end *history.Event) {
		if g == nil || !g.mine(end.Proc) {
			return
		}
		g.confirmed = min(g.confirmed, end.TS)
		if g.answer == nil || end.TS < g.answer.TS {
			g.answer = end
		}
	}
	for _, g := range l.grants {
		if g.call != nil {
			g.answer = g.call.end
		}
	}
	for _, c := range l.cas {
		if c.end != nil {
			if c.outcome == history.OK && !isRelease(c.kind()) {
				confirm(l.under(c.to, c.inv.Proc), c.end)
			}
			if row, ok := observed(c.end); ok {
				confirm(l.byAttempt[row.Attempt], c.end)
			}
		}
		g := l.under(c.from, c.inv.Proc)
		if g == nil || !g.mine(c.inv.Proc) {
			continue
		}
		switch {
		case isRenewal(c.kind()) && c.outcome == history.OK:
			g.renews = append(g.renews, c)
		case isRelease(c.kind()) && g.release == nil:
			g.release = c
		}
	}
	for _, r := range l.reads {
		if row, ok := observed(r.end); ok {
			confirm(l.byAttempt[row.Attempt], r.end)
		}
	}
	for _, e := range l.marks {
		if e.Op == history.NoteLeaseLost {
			if g := l.find(l.fenceOf(e.Token), e.Proc); g != nil && (g.lost == nil || e.TS < g.lost.TS) {
				g.lost = e
			}
		}
	}
}

// find returns the grant that proc shows token of: its own if there is one.
func (l *rowLog) find(token int64, proc string) *grant {
	gs := l.byToken[token]
	for _, g := range gs {
		if g.mine(proc) && g.made() {
			return g
		}
	}
	for _, g := range gs {
		if g.mine(proc) {
			return g
		}
	}
	if len(gs) > 0 {
		return gs[0]
	}
	return nil
}

// deadline computes a grant's: the first send of the CAS that granted or last
// renewed, plus the ttl, minus the margin. A renewal counts if it was answered
// before the deadline of the time: a lapsed lease is never revived.
func (a *past) deadline(g *grant) {
	head := a.headerOf(history.Life(g.acq.inv.Proc))
	ttl := g.acq.ttl()
	g.margin = int64(2*head.DriftBound*float64(ttl)) + head.MarginBaseMS*1e6
	g.deadline = a.trustedUntil(g, anchor(&g.acq.op), ttl-g.margin)
	sort.SliceStable(g.renews, func(i, j int) bool { return g.renews[i].end.TS < g.renews[j].end.TS })
	for _, r := range g.renews {
		if r.end.TS <= g.deadline {
			g.deadline = max(g.deadline, a.trustedUntil(g, anchor(&r.op), ttl-g.margin))
		}
	}
	a.judgeClock(g)
}

// anchor is the first send of an operation, or its invocation if its end is
// lost: the process is dead then, and what it believed matters no more.
func anchor(o *op) int64 {
	if o.end != nil && len(o.end.Sends) > 0 {
		return o.end.Sends[0]
	}
	return o.inv.TS
}

// decision is a start or an effect with the grant that it cites.
type decision struct {
	event  *history.Event
	issuer string
	grant  *grant // nil: none has that token
}

// findDecisions collects what holders decided to do, in time order.
func (a *past) findDecisions() {
	n := 0
	for i := range a.h.Events {
		if decides(&a.h.Events[i]) {
			n++
		}
	}
	a.decisions = make([]decision, 0, n)
	for i := range a.h.Events {
		e := &a.h.Events[i]
		if !decides(e) {
			continue
		}
		lock := e.Issuer
		if lock == "" && e.Op == history.NoteStart {
			lock = e.Key
		}
		d := decision{event: e, issuer: lock}
		if l := a.row[lock]; l != nil {
			d.grant = l.find(l.fenceOf(e.Token), e.Proc)
		}
		if g := d.grant; g != nil && e.Op == history.OpEffect && e.TS > g.deadline && e.DecidedAt <= g.deadline {
			g.lateSends++
		}
		a.decisions = append(a.decisions, d)
	}
}

// decides says whether an event is what a holder had to decide about.
func decides(e *history.Event) bool {
	return e.Type == history.Note && e.Op == history.NoteStart || e.Type == history.Invoke && e.Op == history.OpEffect
}
