package past

import (
	"sort"

	"fencepost/harness/record/history"
)

// Grant is one acquisition of a lock or shard, from the CAS that made it to its end.
type Grant struct {
	Row     *Row
	Acquire *CAS
	Call    *Op   // the client's lock call that handed it out, or nil
	Fence   int64 // what the CAS wrote
	Token   int64 // what was handed out; the fence without a call
	// Confirmed is the first instant at which an answer told the holder that
	// the grant is in the row; Forever if none did.
	Confirmed int64
	Answer    *history.Event // that answer, or the call's if that came before; nil: there is none
	Renews    []*CAS         // of this attempt, acknowledged, by end
	InTime    int            // how many of them, the first ones, were answered before the deadline of the time
	Release   *CAS           // the first release that was invoked, or nil
	Lost      *history.Event
	// Deadline is the holder's own, as derived from the recorded sends: never
	// earlier than the one that the holder computed. margin was subtracted.
	Deadline, Margin int64
	LateSends        int
	// ClockBeyond: a fault made the holder's clock wrong by more than the declared bound. Overtaken is
	// when such a one took the lock over, 0 if none did. See clocks.go.
	ClockBeyond bool
	Overtaken   int64
}

// From is when the holder's right to act begins: when it was told.
func (g *Grant) From() int64 {
	t := g.Confirmed
	if g.Call != nil {
		t = min(t, g.Call.End.TS)
	}
	return t
}

// Until is when the right ends, with the event that ended it (nil: deadline).
func (g *Grant) Until() (int64, *history.Event) {
	t, by := g.Deadline, (*history.Event)(nil)
	if g.Release != nil && g.Release.Invoke.TS < t {
		t, by = g.Release.Invoke.TS, g.Release.Invoke
	}
	if g.Lost != nil && g.Lost.TS < t {
		t, by = g.Lost.TS, g.Lost
	}
	return t, by
}

// TookEffect says whether the store really made the grant; when its lock's record is
// not whole, it may have.
func (g *Grant) TookEffect() bool {
	f := g.Row.Fate(g.Acquire.Write)
	return f == Applied || f == Open && g.Acquire.Outcome != history.Fail
}

// buildGrants collects the acquisitions that took effect, were answered applied
// or were handed out, and what became of them.
func (a *Past) buildGrants(l *Row) {
	l.ByToken = map[int64][]*Grant{}
	l.ByAttempt = map[string]*Grant{}
	handed := l.matchCalls()
	for _, c := range l.CAS {
		if !IsGrant(c.Kind()) {
			continue
		}
		call := handed[c]
		if call == nil && c.Outcome != history.OK && (c.Write.Pos < 0 || c.Write.Main() != c) {
			continue
		}
		if call != nil && call.End.Token != c.To.Fence && a.Lost > 0 && !a.soFar {
			call = nil // the acquire that it belongs to may be among what was lost; a record that still grows only lacks its end
		}
		g := &Grant{Row: l, Acquire: c, Call: call, Fence: c.To.Fence, Token: c.To.Fence, Confirmed: history.Forever}
		if call != nil && call.End.Token != 0 {
			g.Token = call.End.Token
		}
		l.Grants = append(l.Grants, g)
		l.ByToken[g.Token] = append(l.ByToken[g.Token], g)
		if g.Fence != g.Token {
			l.ByToken[g.Fence] = append(l.ByToken[g.Fence], g)
		}
		if old := l.ByAttempt[c.To.Attempt]; old == nil || c.Outcome == history.OK {
			l.ByAttempt[c.To.Attempt] = g
		}
	}
	l.attach()
	for _, g := range l.Grants {
		a.deadline(g)
	}
	l.markOvertaken()
}

// matchCalls finds, for each lock call that handed out a token, the acquire in it.
func (l *Row) matchCalls() map[*CAS]*Op {
	byProc := map[string][]*CAS{}
	for _, c := range l.CAS {
		if c.Kind() == history.OpAcquire {
			byProc[c.Invoke.Proc] = append(byProc[c.Invoke.Proc], c)
		}
	}
	rank := func(c *CAS) int {
		switch {
		case c.Outcome == history.OK:
			return 3
		case c.Write.Pos >= 0:
			return 2
		case c.Outcome == history.Unknown:
			return 1
		}
		return 0
	}
	out := map[*CAS]*Op{}
	for _, call := range l.Calls {
		if call.Outcome != history.OK {
			continue
		}
		cs := byProc[call.Invoke.Proc] // in order of invocation
		i := sort.Search(len(cs), func(i int) bool { return cs[i].Invoke.TS >= call.Invoke.TS })
		var best *CAS
		for ; i < len(cs) && cs[i].Invoke.TS <= call.End.TS; i++ {
			if best == nil || rank(cs[i]) >= rank(best) {
				best = cs[i]
			}
		}
		if best != nil {
			out[best] = call
		} else {
			l.Orphans = append(l.Orphans, call)
		}
	}
	return out
}

// attach files renewals, releases, confirmations and losses with their grants.
func (l *Row) attach() {
	confirm := func(g *Grant, end *history.Event) {
		if g == nil || !g.OwnedBy(end.Proc) {
			return
		}
		g.Confirmed = min(g.Confirmed, end.TS)
		if g.Answer == nil || end.TS < g.Answer.TS {
			g.Answer = end
		}
	}
	for _, g := range l.Grants {
		if g.Call != nil {
			g.Answer = g.Call.End
		}
	}
	for _, c := range l.CAS {
		if c.End != nil {
			if c.Outcome == history.OK && !IsRelease(c.Kind()) {
				confirm(l.GrantAt(c.To, c.Invoke.Proc), c.End)
			}
			if row, ok := shownRow(c.End); ok {
				confirm(l.ByAttempt[row.Attempt], c.End)
			}
		}
		g := l.GrantAt(c.From, c.Invoke.Proc)
		if g == nil || !g.OwnedBy(c.Invoke.Proc) {
			continue
		}
		switch {
		case IsRenewal(c.Kind()) && c.Outcome == history.OK:
			g.Renews = append(g.Renews, c)
		case IsRelease(c.Kind()) && g.Release == nil:
			g.Release = c
		}
	}
	for _, r := range l.Reads {
		if row, ok := shownRow(r.End); ok {
			confirm(l.ByAttempt[row.Attempt], r.End)
		}
	}
	for _, e := range l.Marks {
		if e.Op == history.NoteLeaseLost {
			if g := l.Find(l.fenceOf(e.Token), e.Proc); g != nil && g.OwnedBy(e.Proc) && (g.Lost == nil || e.TS < g.Lost.TS) {
				g.Lost = e
			}
		}
	}
}

// Find returns the grant that proc shows token of: its own if there is one.
func (l *Row) Find(token int64, proc string) *Grant {
	gs := l.ByToken[token]
	for _, g := range gs {
		if g.OwnedBy(proc) && g.TookEffect() {
			return g
		}
	}
	for _, g := range gs {
		if g.OwnedBy(proc) {
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
func (a *Past) deadline(g *Grant) {
	head := a.HeaderOf(history.Life(g.Acquire.Invoke.Proc))
	ttl := g.Acquire.TTL()
	g.Margin = int64(2*head.DriftBound*float64(ttl)) + head.MarginBaseMS*1e6
	g.Deadline = a.trustedUntil(g, FirstSend(&g.Acquire.Op), ttl-g.Margin)
	sort.SliceStable(g.Renews, func(i, j int) bool { return g.Renews[i].End.TS < g.Renews[j].End.TS })
	for _, r := range g.Renews {
		if r.End.TS <= g.Deadline {
			g.InTime++
			g.Deadline = max(g.Deadline, a.trustedUntil(g, FirstSend(&r.Op), ttl-g.Margin))
		}
	}
	a.judgeClock(g)
}

// FirstSend is the first send of an operation, or its invocation if its end is
// lost: the process is dead then, and what it believed matters no more.
func FirstSend(o *Op) int64 {
	if o.End != nil && len(o.End.Sends) > 0 {
		return o.End.Sends[0]
	}
	return o.Invoke.TS
}

// Decision is a start or an effect with the grant that it cites.
type Decision struct {
	Event  *history.Event
	Issuer string
	Grant  *Grant // nil: none has that token
}

// findDecisions collects what holders decided to do, in time order.
func (a *Past) findDecisions() {
	n := 0
	for i := range a.History.Events {
		if decides(&a.History.Events[i]) {
			n++
		}
	}
	a.Decisions = make([]Decision, 0, n)
	for e := range Each(a.History.Events) {
		if !decides(e) {
			continue
		}
		lock := e.Issuer
		if lock == "" && e.Op == history.NoteStart {
			lock = e.Key
		}
		d := Decision{Event: e, Issuer: lock}
		if l := a.RowOf[lock]; l != nil {
			d.Grant = l.Find(l.fenceOf(e.Token), e.Proc)
		}
		if g := d.Grant; g != nil && e.Op == history.OpEffect && e.TS > g.Deadline && e.DecidedAt <= g.Deadline {
			g.LateSends++
		}
		a.Decisions = append(a.Decisions, d)
	}
}

// decides says whether an event is what a holder had to decide about.
func decides(e *history.Event) bool {
	return e.Type == history.Note && e.Op == history.NoteStart || e.Type == history.Invoke && e.Op == history.OpEffect
}

// Takeover says whether w of the chain took the row from somebody who had not left it.
func (l *Row) Takeover(w *Write) bool {
	c := w.Main()
	if c.Kind() != history.OpTake {
		return c.Kind() == history.OpAcquire && c.Invoke.Takeover
	}
	return w.Pos > 0 && l.Chain[w.Pos-1].Held()
}
