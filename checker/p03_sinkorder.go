package checker

import (
	"context"
	"slices"
	"sort"

	"fencepost/harness/record/history"
)

func init() {
	register(check{
		id:    "P3",
		title: "the sink accepts no token lower than one it has seen",
		by:    "the sink's ledger; whose the tokens are",
		run:   checkSinkOrder,
		soFar: checkSinkOrder,
		rules: []rule{
			{find: (*inquiry).acceptedTokens},
		},
		mechanisms: []mechanism{
			{id: "sink-checks-no-token", accounts: ofEffects,
				statement: "the sink does not compare tokens",
				apart:     "any effect that is refused as stale"},
			{id: "sink-checks-what-was-read", accounts: ofEffects,
				statement: "the sink compares a token with what its holder's process had read before",
				apart:     "one that is accepted after its own process had read a higher token"},
			{id: "sink-remembers-per-process", accounts: ofEffects,
				statement: "the sink compares a token only with those that the same process sent",
				apart:     "one that is accepted after its own process had sent a higher token"},
			{id: "sink-forgets-tokens", accounts: ofEffects,
				statement: "the sink accepts a token lower than one it has seen, now and then"},
		},
	})
}

// checkSinkOrder is P3, by the ledger alone.
func checkSinkOrder(_ context.Context, a *analysis, p *Property) {
	for _, s := range a.sinks {
		p.Checked += len(s.ledger)
		var top *entry
		for i := range s.ledger {
			e := &s.ledger[i]
			if top == nil {
				top = e
				continue
			}
			events := append(append([]*history.Event{top.ev, e.ev}, first(top.by)...), first(e.by)...)
			switch {
			case e.Issuer != top.Issuer:
				p.add(s.name, events, "ledger entry %d of %s is a token of %s; the resource belongs to %s, and tokens of two issuers cannot be compared", e.Seq, s.name, e.Issuer, top.Issuer)
				continue
			case e.Token < top.Token:
				p.add(s.name, events, "the sink %s token %d after %d on %s (entries %d and %d of its ledger)", accepted[e.Kind], e.Token, top.Token, s.name, e.Seq, top.Seq)
				continue
			}
			if e.Token > top.Token {
				top = e
			}
		}
	}
	p.Detail = "by the sink's ledger"
	if !a.promised("P6") {
		a.checkTraced(p)
	}
}

// accepted are the words for what the sink did with a token.
var accepted = map[string]string{history.LedgerAccept: "accepted", history.LedgerRaise: "was raised to"}

// checkTraced: a token of nobody's fences nobody. Where P6 does not judge whose a token is,
// the client that shows it must have been handed it by a call of its own.
func (a *analysis) checkTraced(p *Property) {
	p.Detail += ", of tokens that lock calls handed out, as P6 is not promised"
	for _, s := range a.sinks {
		for _, o := range slices.Concat(s.raises, s.effects) {
			l := a.row[o.inv.Issuer]
			if o.inv.Proc == harness || l != nil && (l.shard || l.handed(o.inv)) {
				continue
			}
			p.add(s.name, both(o), "%s by %s shows token %d of %s, which no lock call had handed to it", o.inv.Op, o.inv.Proc, o.inv.Token, o.inv.Issuer)
		}
	}
}

// handed says whether a client had been handed the token that it shows.
func (l *rowLog) handed(e *history.Event) bool {
	if g := l.find(e.Token, e.Proc); g != nil && g.mine(e.Proc) && (g.made() || g.call != nil) && g.from() <= e.TS {
		return true
	}
	// In the order of their invocations, and of one client one after the other.
	i := sort.Search(len(l.orphans), func(i int) bool { return l.orphans[i].inv.TS > e.TS })
	for i--; i >= 0; i-- {
		if c := l.orphans[i]; c.inv.Proc == e.Proc {
			return c.end.Token == e.Token && c.end.TS <= e.TS
		}
	}
	return false
}

// first is the events of the first operation.
func first(ops []*op) []*history.Event {
	if len(ops) == 0 {
		return nil
	}
	return both(ops[0])
}

// inversion is an accepted effect whose token is lower than one that the sink had seen.
type inversion struct {
	s   *sinkLog
	e   *entry
	top *entry
	o   *op // that made it; nil if nobody recorded it
}

func (x *inquiry) inversions() []inversion {
	var out []inversion
	for _, s := range x.a.sinks {
		var top *entry
		for i := range s.ledger {
			e := &s.ledger[i]
			switch {
			case top == nil || e.Issuer == top.Issuer && e.Token > top.Token:
				top = e
			case e.Issuer == top.Issuer && e.Token < top.Token && e.Kind == history.LedgerAccept:
				v := inversion{s: s, e: e, top: top}
				if len(e.by) > 0 {
					v.o = e.by[0]
				}
				out = append(out, v)
			}
		}
	}
	return out
}

// acceptedTokens: what the sink must be comparing with, if anything. Each theory is
// held against every effect that was accepted or refused.
func (x *inquiry) acceptedTokens() {
	vs := x.inversions()
	if len(vs) == 0 {
		return
	}
	none, read, sent := true, true, true
	refused := 0
	for _, s := range x.a.sinks {
		for _, o := range s.effects {
			if o.end == nil || o.end.Result != resultStale {
				continue
			}
			refused++
			none = false // it compares with something
			read = read && x.hadRead(s, o)
			sent = sent && x.hadSent(s, o)
		}
	}
	for _, v := range vs {
		if v.o == nil {
			continue
		}
		read = read && !x.hadRead(v.s, v.o)
		sent = sent && !x.hadSent(v.s, v.o)
	}
	theories := []struct {
		id   string
		left bool
	}{{"sink-checks-no-token", none}, {"sink-checks-what-was-read", read}, {"sink-remembers-per-process", sent}, {"sink-forgets-tokens", !none && !read && !sent}}
	for _, t := range theories {
		if !t.left {
			continue
		}
		v := vs[0]
		s := x.suspect(t.id, fits, len(vs), "%s accepted with a token lower than one in the ledger before it, such as %d after %d; %s refused as stale in the run", were(len(vs), "effect"), v.e.Token, v.top.Token, were(refused, "effect"))
		s.group = "what the sink compares with"
		x.showInversion(s, v)
	}
}

// hadRead says whether a process had read a higher token of the resource when it sent o.
func (x *inquiry) hadRead(s *sinkLog, o *op) bool {
	var last *op
	for _, g := range s.gets {
		if g.outcome == history.OK && history.Life(g.inv.Proc) == history.Life(o.inv.Proc) && g.end.TS < o.inv.TS && (last == nil || g.end.TS > last.end.TS) {
			last = g
		}
	}
	return last != nil && last.end.Seen > o.inv.Token
}

// hadSent says whether a process had sent a higher token to the resource before o.
func (x *inquiry) hadSent(s *sinkLog, o *op) bool {
	return slices.ContainsFunc(append(slices.Clone(s.raises), s.effects...), func(p *op) bool {
		return history.Life(p.inv.Proc) == history.Life(o.inv.Proc) && p.inv.Token > o.inv.Token && p.inv.TS < o.inv.TS
	})
}

func (x *inquiry) showInversion(s *suspect, v inversion) {
	if v.o == nil {
		s.show(v.s.name, v.e.ev.TS, nil, x.step(RoleMistake, v.e.ev, "entry %d of the ledger accepts token %d after token %d", v.e.Seq, v.e.Token, v.top.Token))
		return
	}
	var chain []Step
	if l := x.a.row[v.o.inv.Issuer]; l != nil && !l.shard {
		for _, c := range []struct {
			token int64
			proc  string
		}{{v.o.inv.Token, v.o.inv.Proc}, {v.top.Token, ""}} {
			if g := l.find(c.token, c.proc); g != nil {
				chain = append(chain, x.granted(RoleBefore, g))
			}
		}
	}
	if len(v.top.by) > 0 {
		t := v.top.by[0]
		chain = append(chain, x.step(RoleBefore, t.inv, "the sink sees token %d (%s by %s, entry %d)", v.top.Token, t.inv.Op, t.inv.Proc, v.top.Seq))
	}
	at, end := v.o.inv, v.o.end
	if end == nil {
		end = at
	}
	chain = append(chain, x.step(RoleBefore, at, "%s sends its effect under token %d", at.Proc, at.Token), x.step(RoleMistake, end, "the sink accepts it as entry %d", v.e.Seq))
	if before := v.s.before(v.e); before != nil && before.Value != nil && v.e.Value != nil && *v.e.Value != *before.Value+1 {
		chain = append(chain, x.step(RoleHarm, v.e.ev, "it writes %d over %d", *v.e.Value, *before.Value))
	}
	s.show(v.s.name, end.TS, []string{at.Proc}, chain...)
}
