package property

import (
	"context"
	"slices"
	"sort"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:       "P3",
		title:    "the sink accepts no token lower than one it has seen",
		by:       "the sink's ledger; whose the tokens are",
		run:      checkSinkOrder,
		soFar:    checkSinkOrder,
		rules:    []rule{{needs: "P3", find: (*Inquiry).acceptedTokens}},
		accounts: ofEffects,
		mechanisms: []mechanism{
			{id: "sink-checks-no-token", Statement: "the sink does not compare tokens", Apart: "any effect that is refused as stale"},
			{id: "sink-checks-what-was-read", Statement: "the sink compares a token with what its holder's process had read before",
				Apart: "one that is accepted after its own process had read a higher token"},
			{id: "sink-remembers-per-process", Statement: "the sink compares a token only with those that the same process sent",
				Apart: "one that is accepted after its own process had sent a higher token"},
			{id: "sink-forgets-tokens", Statement: "the sink accepts a token lower than one it has seen, now and then"},
		},
	})
}

// checkSinkOrder is P3, by the ledger alone.
func checkSinkOrder(_ context.Context, a *Judgement, p *Property) {
	for _, s := range a.Sinks {
		p.Checked += len(s.Ledger)
		for _, v := range inversions(s) {
			e, top := v.e, v.top
			events := append(append([]*history.Event{top.Event, e.Event}, past.FirstEvents(top.By)...), past.FirstEvents(e.By)...)
			if e.Issuer != top.Issuer {
				p.add(s.Name, events,
					"ledger entry %d of %s is a token of %s; the resource belongs to %s, and tokens of two issuers cannot be compared",
					e.Seq, s.Name, e.Issuer, top.Issuer)
				continue
			}
			p.add(s.Name, events, "the sink %s token %d after %d on %s (entries %d and %d of its ledger)",
				acceptedWords[e.Kind], e.Token, top.Token, s.Name, e.Seq, top.Seq)
		}
	}
	p.Detail = "by the sink's ledger"
	if !a.Promised("P6") {
		a.checkTraced(p)
	}
}

// acceptedWords are the words for what the sink did with a token.
var acceptedWords = map[string]string{history.LedgerAccept: "accepted", history.LedgerRaise: "was raised to", history.LedgerSeal: "was sealed below"}

// checkTraced: a token of nobody's fences nobody. Where P6 does not judge whose a token is,
// the client that shows it must have been handed it by a call of its own.
func (a *Judgement) checkTraced(p *Property) {
	p.Detail += ", of tokens that lock calls handed out, as P6 is not promised"
	for _, s := range a.Sinks {
		for _, o := range s.Calls() {
			l := a.RowOf[o.Invoke.Issuer]
			if o.Invoke.Proc == history.Harness || l != nil && (l.Shard || wasHanded(l, o.Invoke)) {
				continue
			}
			p.add(s.Name, past.Events(o), "%s by %s shows token %d of %s, which no lock call had handed to it",
				o.Invoke.Op, o.Invoke.Proc, o.Invoke.Token, o.Invoke.Issuer)
		}
	}
}

// wasHanded says whether a client had been handed the token that it shows.
func wasHanded(l *past.Row, e *history.Event) bool {
	if g := l.Find(e.Token, e.Proc); g != nil && g.OwnedBy(e.Proc) && (g.TookEffect() || g.Call != nil) && g.From() <= e.TS {
		return true
	}
	// In the order of their invocations, and of one client one after the other.
	i := sort.Search(len(l.Orphans), func(i int) bool { return l.Orphans[i].Invoke.TS > e.TS })
	for i--; i >= 0; i-- {
		if c := l.Orphans[i]; c.Invoke.Proc == e.Proc {
			return c.End.Token == e.Token && c.End.TS <= e.TS
		}
	}
	return false
}

// inversion is an entry of a ledger whose token is lower than one that the sink had seen, or
// another issuer's.
type inversion struct {
	s   *past.Sink
	e   *past.Entry
	top *past.Entry
	o   *past.Op // that made it; nil if nobody recorded it
}

func inversions(s *past.Sink) (out []inversion) {
	var top *past.Entry
	for e := range past.Each(s.Ledger) {
		switch {
		case top == nil || e.Issuer == top.Issuer && e.Token > top.Token:
			top = e
		case e.Issuer != top.Issuer || e.Token < top.Token:
			out = append(out, inversion{s: s, e: e, top: top, o: e.Sender()})
		}
	}
	return out
}

// acceptedTokens: what the sink must be comparing with, if anything. Each theory is
// held against every effect that was accepted or refused.
func (x *Inquiry) acceptedTokens() {
	var vs []inversion
	for _, s := range x.Sinks {
		vs = append(vs, slices.DeleteFunc(inversions(s), func(v inversion) bool {
			return v.e.Issuer != v.top.Issuer || v.e.Kind != history.LedgerAccept
		})...)
	}
	if len(vs) == 0 {
		return
	}
	none, read, sent := true, true, true
	refused := 0
	for _, s := range x.Sinks {
		for _, o := range s.Effects {
			if o.End == nil || o.End.Result != past.ResultStale {
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
	}{
		{"sink-checks-no-token", none}, {"sink-checks-what-was-read", read}, {"sink-remembers-per-process", sent},
		{"sink-forgets-tokens", !none && !read && !sent},
	}
	for _, t := range theories {
		if !t.left {
			continue
		}
		v := vs[0]
		s := x.suspect(t.id, WeightFits, len(vs),
			"%s accepted with a token lower than one in the ledger before it, such as %d after %d; %s refused as stale in the run",
			phrase.PluralWas(len(vs), "effect"), v.e.Token, v.top.Token, phrase.PluralWas(refused, "effect"))
		s.Group = "what the sink compares with"
		x.showInversion(s, v)
	}
}

// hadRead says whether a process had read a higher token of the resource when it sent o.
func (x *Inquiry) hadRead(s *past.Sink, o *past.Op) bool {
	var last *past.Op
	for _, g := range s.Gets {
		if g.Outcome == history.OK && history.Life(g.Invoke.Proc) == history.Life(o.Invoke.Proc) && g.End.TS < o.Invoke.TS &&
			(last == nil || g.End.TS > last.End.TS) {
			last = g
		}
	}
	return last != nil && last.End.Seen > o.Invoke.Token
}

// hadSent says whether a process had sent a higher token to the resource before o.
func (x *Inquiry) hadSent(s *past.Sink, o *past.Op) bool {
	return slices.ContainsFunc(s.Calls(), func(p *past.Op) bool {
		return history.Life(p.Invoke.Proc) == history.Life(o.Invoke.Proc) && p.Invoke.Token > o.Invoke.Token && p.Invoke.TS < o.Invoke.TS
	})
}

func (x *Inquiry) showInversion(s *Suspect, v inversion) {
	if v.o == nil {
		s.show(v.s.Name, v.e.Event.TS, nil,
			x.mistake(v.e.Event, "entry %d of the ledger accepts token %d after token %d", v.e.Seq, v.e.Token, v.top.Token))
		return
	}
	var chain []Step
	if l := x.RowOf[v.o.Invoke.Issuer]; l != nil && !l.Shard {
		for _, c := range []struct {
			token int64
			proc  string
		}{{v.o.Invoke.Token, v.o.Invoke.Proc}, {v.top.Token, ""}} {
			if g := l.Find(c.token, c.proc); g != nil {
				chain = append(chain, x.granted(RoleBefore, g))
			}
		}
	}
	if t := v.top.Sender(); t != nil {
		chain = append(chain,
			x.before(t.Invoke, "the sink sees token %d (%s by %s, entry %d)", v.top.Token, t.Invoke.Op, t.Invoke.Proc, v.top.Seq))
	}
	at, end := v.o.Invoke, v.o.End
	if end == nil {
		end = at
	}
	chain = append(chain, x.before(at, "%s sends its effect under token %d", at.Proc, at.Token),
		x.mistake(end, "the sink accepts it as entry %d", v.e.Seq))
	if before := v.s.EntryBefore(v.e); before != nil && before.Value != nil && v.e.Value != nil && *v.e.Value != *before.Value+1 {
		chain = append(chain, x.harm(v.e.Event, "it writes %d over %d", *v.e.Value, *before.Value))
	}
	s.show(v.s.Name, end.TS, []string{at.Proc}, chain...)
}
