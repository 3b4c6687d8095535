package checker

import (
	"cmp"
	"slices"

	"fencepost/harness/record/history"
)

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

// refusedTokens: effects refused because of a token that is no higher, or of nothing that
// the ledger shows.
func (x *inquiry) refusedTokens() {
	equal, odd := 0, 0
	for _, s := range x.a.sinks {
		if !s.read() {
			continue
		}
		for _, o := range append(slices.Clone(s.raises), s.effects...) {
			p := &Property{}
			if o.end != nil && o.end.Result == resultStale {
				s.checkStale(o, p)
			}
			if p.Count == 0 {
				continue
			}
			if o.end.Seen == o.inv.Token {
				equal++
				sus := x.suspect("sink-refuses-equal", shown, equal, "%s with token %d was refused because token %d had been seen", o.inv.Op, o.inv.Token, o.end.Seen)
				var chain []Step
				if i, ok := s.raised[grantRef{o.inv.Issuer, o.inv.Token}]; ok && len(s.ledger[i].by) > 0 {
					r := s.ledger[i].by[0]
					chain = append(chain, x.step(RoleBefore, r.inv, "%s raises the token to its own, %d", r.inv.Proc, r.inv.Token))
				}
				sus.show(s.name, o.end.TS, []string{o.inv.Proc}, append(chain, x.step(RoleMistake, o.end, "its %s is refused as stale: token %d, seen %d", o.inv.Op, o.inv.Token, o.end.Seen))...)
				continue
			}
			odd++
			sus := x.suspect("sink-refuses-wrongly", fits, odd, "%s", p.Violations[0].Message)
			sus.show(s.name, o.end.TS, []string{o.inv.Proc}, x.step(RoleMistake, o.end, "%s", p.Violations[0].Message))
		}
	}
}

// madeUpAnswers are those that no link carried.
func (x *inquiry) madeUpAnswers() {
	for i := range x.a.lies {
		l := &x.a.lies[i]
		s := x.suspect("answer-made-up", shown, i+1, "%s", l.message)
		chain := []Step{x.step(RoleMistake, l.op.end, "%s records that its %s was answered %s", l.op.inv.Proc, l.op.inv.Op, answerText(l.op.end))}
		for _, e := range l.events[2:] {
			chain = append(chain, x.step(RoleBefore, e, "its link carries another answer: %s", answerText(e)))
		}
		s.show(l.resource, l.op.end.TS, []string{l.op.inv.Proc}, chain...)
	}
}

// forgedEntries are those that show another token than their effect was sent with.
func (x *inquiry) forgedEntries() {
	n := 0
	for _, s := range x.a.sinks {
		for i := range s.ledger {
			e := &s.ledger[i]
			if e.Kind != history.LedgerAccept || len(e.by) != 1 || e.by[0].inv.Token == e.Token {
				continue
			}
			n++
			o := e.by[0]
			sus := x.suspect("ledger-forged", shown, n, "effect %s was sent with token %d, and entry %d of the ledger has token %d", e.EffectKey, o.inv.Token, e.Seq, e.Token)
			sus.show(s.name, e.ev.TS, []string{o.inv.Proc}, x.step(RoleBefore, o.inv, "%s sends its effect under token %d", o.inv.Proc, o.inv.Token),
				x.step(RoleMistake, e.ev, "the ledger says that it came with token %d (entry %d)", e.Token, e.Seq))
		}
	}
}

// missingRaises: effects that were accepted under a token that nobody had raised before
// the state was read, though the sink said so if it was asked.
func (x *inquiry) missingRaises() {
	told, silent := 0, 0
	for _, s := range x.a.sinks {
		if !s.read() || s.hole != "" {
			continue
		}
		for i := range s.ledger {
			e := &s.ledger[i]
			if _, raised := s.raised[grantRef{e.Issuer, e.Token}]; e.Kind != history.LedgerAccept || raised || len(e.by) == 0 {
				continue
			}
			o := e.by[0]
			var raise *op
			for _, r := range s.raises {
				if r.inv.Token == e.Token && r.inv.Proc == o.inv.Proc && r.outcome == history.OK {
					raise = r
				}
			}
			if raise != nil {
				told++
			} else {
				silent++
			}
			x.showUnraised(s, o, raise, e, told+silent)
		}
	}
}

func (x *inquiry) showUnraised(s *sinkLog, o, raise *op, e *entry, n int) {
	what := "nobody sent a raise of it"
	if raise != nil {
		what = "its raise was answered and is not in the ledger"
	}
	prev := s.before(e)
	if prev == nil || prev.Value == nil || e.Value == nil || *e.Value == *prev.Value+1 || len(prev.by) == 0 {
		return // it did no harm
	}
	sus := x.suspect("raise-not-done", shown, n, "the first that the ledger has of a token is an effect: token %d of %s, entry %d; %s", e.Token, s.name, e.Seq, what)
	chain := []Step{}
	if raise != nil {
		chain = append(chain, x.step(RoleBefore, raise.end, "%s is told that token %d is raised, and the ledger has no such entry", raise.inv.Proc, e.Token))
	}
	for _, g := range s.gets {
		if g.inv.Proc == o.inv.Proc && g.outcome == history.OK && g.end.TS < o.inv.TS && g.end.Value != nil && *g.end.Value+1 == *e.Value {
			chain = append(chain, x.step(RoleMistake, g.end, "%s reads %d to act on", g.inv.Proc, *g.end.Value))
		}
	}
	p := prev.by[0]
	chain = append(chain, x.step(RoleBefore, p.inv, "%s, with the %s token %d, writes %d", p.inv.Proc, against(prev.Token, e.Token), prev.Token, *prev.Value), x.step(RoleHarm, o.inv, "%s writes %d over it", o.inv.Proc, *e.Value))
	sus.show(s.name, o.inv.TS, []string{o.inv.Proc, p.inv.Proc}, chain...)
}

// against says how a token compares with another.
func against(token, other int64) string {
	return [...]string{"lower", "same", "higher"}[1+cmp.Compare(token, other)]
}

// before is the accepted effect before an entry, or nil.
func (s *sinkLog) before(e *entry) *entry {
	var prev *entry
	for i := range s.ledger {
		if x := &s.ledger[i]; x.Kind == history.LedgerAccept && x.Seq < e.Seq {
			prev = x
		}
	}
	return prev
}
