package checker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"fencepost/harness/record/history"
)

func init() {
	register(check{
		id:    "P4",
		title: "every effect is applied at most once, none is lost",
		by:    "ledger, answers as recorded and as the links carried them, values; Porcupine; the steps of completed jobs",
		run:   checkEffects,
		soFar: effectsSoFar,
		part:  "applied twice, lost updates",
		rules: []rule{
			{find: (*inquiry).missingRaises},
			{find: (*inquiry).madeUpAnswers},
			{find: (*inquiry).forgedEntries},
			{find: (*inquiry).lostEffects},
			{find: (*inquiry).repeatedEffects},
		},
		mechanisms: []mechanism{
			{id: "ledger-emptied", accounts: []string{"P3", "P4", "P6", "P10", "P13"},
				statement: "a resource of the sink was emptied while it was in use: what it had seen and accepted is forgotten"},
			{id: "ledger-forged", accounts: ofEffects,
				statement: "the sink's ledger shows another token than the one that came with an effect"},
			{id: "answer-made-up", accounts: []string{"P4", "P10", "P14"},
				statement: "a worker records an answer of the sink that the sink never gave it"},
			{id: "raise-not-done", accounts: ofEffects,
				statement: "a holder reads what it acts on before the sink knows its token: the one before can still write"},
			{id: "acknowledged-before-done", accounts: []string{"P4"},
				statement: "an effect is acknowledged before it is done, and lost with its process"},
			{id: "resend-is-another-effect", accounts: []string{"P4"},
				statement: "a request that is sent again is another effect: its idempotency key does not cover resends"},
			{id: "effects-without-key", accounts: []string{"P4"},
				statement: "effects carry no idempotency key: what an earlier run did is done again",
				apart:     "a repetition that is answered as a duplicate"},
			{id: "key-of-the-attempt", accounts: []string{"P4"},
				statement: "the idempotency key contains the attempt: what an earlier one did is done again",
				apart:     "an effect that is applied twice under one token"},
		},
	})
}

// checkEffects is P4: ledger, recorded answers and values agree, and each key
// was applied at most once.
func checkEffects(ctx context.Context, a *analysis, p *Property) {
	for _, s := range a.sinks {
		p.Checked += len(s.effects)
		s.checkOnce(p)
		for _, o := range s.effects {
			s.checkAnswer(o, p)
		}
		s.checkDecided(p, a.lost == 0)
		s.checkValues(p)
		s.checkFinal(p)
	}
	a.reportLies(p)
	a.checkSteps(p)
	p.Detail = "ledger, answers and values agree"
	if a.told.reads[history.WitnessAnswers] {
		p.Detail = "ledger, values and answers, as the links carried them, agree"
	}
	a.searchSinks(ctx, p)
}

func (s *sinkLog) checkOnce(p *Property) {
	for _, key := range slices.Sorted(maps.Keys(s.accepts)) {
		is := s.accepts[key]
		if len(is) < 2 {
			continue
		}
		var events []*history.Event
		for _, i := range is {
			events = append(events, s.ledger[i].ev)
		}
		p.add(s.name, append(events, first(s.ledger[is[0]].by)...), "effect %s was applied %d times (ledger entries %d and %d)", key, len(is), s.ledger[is[0]].Seq, s.ledger[is[1]].Seq)
	}
}

// checkAnswer compares what the sink answered with what it did.
func (s *sinkLog) checkAnswer(o *op, p *Property) {
	if !s.read() {
		return // P14
	}
	key := o.inv.EffectKey
	i := s.entryOf(o)
	if i < 0 {
		if o.outcome == history.OK {
			p.add(s.name, append(both(o), s.neighbour(o.end.Seq)), "effect %s was answered %s (entry %d), but the ledger of %s does not contain it: an acknowledged effect is lost", key, o.end.Result, o.end.Seq, s.name)
		}
		return
	}
	e := &s.ledger[i]
	switch {
	case o.outcome == history.Fail && len(e.by) == 1:
		p.add(s.name, append(both(o), e.ev), "effect %s was reported as failed (%s), but the ledger of %s shows it as applied (entry %d)", key, why(o.end), s.name, e.Seq)
	case e.Token != o.inv.Token && len(e.by) == 1, o.inv.Value != nil && e.Value != nil && *e.Value != *o.inv.Value && len(e.by) == 1:
		p.add(s.name, append(both(o), e.ev), "effect %s was sent with token %d and value %s, but entry %d of the ledger has token %d and value %s", key, o.inv.Token, num(o.inv.Value), e.Seq, e.Token, num(e.Value))
	case o.outcome == history.OK && o.end.Result == resultApplied && o.end.Seq != 0 && !s.hasSeq(key, o.end.Seq):
		p.add(s.name, append(both(o), e.ev), "effect %s was answered applied as entry %d, but the ledger has it as entry %d", key, o.end.Seq, e.Seq)
	}
}

func (s *sinkLog) hasSeq(key string, seq int64) bool {
	for _, i := range s.accepts[key] {
		if s.ledger[i].Seq == seq {
			return true
		}
	}
	return false
}

// checkDecided compares when the sink decided, by its own clock, with when it was asked and
// when it answered.
func (s *sinkLog) checkDecided(p *Property, whole bool) {
	var last *entry
	for i := range s.ledger {
		e := &s.ledger[i]
		if e.At == 0 {
			continue
		}
		if last != nil && e.At < last.At {
			p.add(s.name, []*history.Event{last.ev, e.ev}, "entry %d of the ledger of %s was decided %s before entry %d, which it follows", e.Seq, s.name, ms(last.At-e.At), last.Seq)
		}
		last = e
		if len(e.by) == 0 || e.Kind == history.LedgerAccept && len(s.accepts[e.EffectKey]) > 1 {
			continue // which call made which is not known
		}
		asked := e.by[0]
		for _, o := range e.by {
			if o.inv.TS < asked.inv.TS {
				asked = o
			}
			if o.outcome == history.OK && o.inv.Token == e.Token && e.At > o.end.TS && (o.inv.Op == history.OpEffect) == (e.Kind == history.LedgerAccept) {
				p.add(s.name, append(both(o), e.ev), "%s%s was answered %s %s before the sink decided it (entry %d)", o.inv.Op, ofToken(o.inv), o.end.Result, ms(e.At-o.end.TS), e.Seq)
			}
		}
		if e.At < asked.inv.TS && whole { // a call that is lost may have asked before
			p.add(s.name, append(both(asked), e.ev), "the sink decided entry %d (%s of token %d%s) %s before anybody asked for it", e.Seq, e.Kind, e.Token, keyText(e.EffectKey), ms(asked.inv.TS-e.At))
		}
	}
}

// neighbour is the ledger note at or after seq, to show what stands there instead.
func (s *sinkLog) neighbour(seq int64) *history.Event {
	for i := range s.ledger {
		if s.ledger[i].Seq >= seq {
			return s.ledger[i].ev
		}
	}
	return nil
}

func why(e *history.Event) string {
	if e.Result != "" {
		return e.Result
	}
	return e.Error
}

func num(v *int64) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprint(*v)
}

// checkValues: every effect wrote the value that the one before had left, plus
// one. Otherwise its holder acted on a state that was no longer current.
func (s *sinkLog) checkValues(p *Property) {
	prev, seq, gap := int64(0), int64(0), false
	var last *entry
	for i := range s.ledger {
		e := &s.ledger[i]
		gap = gap || e.Seq != seq+1
		seq = e.Seq
		if e.Kind != history.LedgerAccept || e.Value == nil {
			continue
		}
		if !gap && *e.Value != prev+1 {
			events := append([]*history.Event{e.ev}, first(e.by)...)
			if last != nil {
				events = append(append(events, last.ev), first(last.by)...)
			}
			p.add(s.name, events, "lost update: effect %s (entry %d, token %d) wrote %d over %d, so it had read an older value", e.EffectKey, e.Seq, e.Token, *e.Value, prev)
		}
		prev, last, gap = *e.Value, e, false
	}
}

// checkFinal compares the final value with the number of applied effects.
func (s *sinkLog) checkFinal(p *Property) {
	if s.final == nil || s.hole != "" {
		return
	}
	n := int64(0)
	var last *history.Event
	for i := range s.ledger {
		if s.ledger[i].Kind == history.LedgerAccept {
			n, last = n+1, s.ledger[i].ev
		}
	}
	if v := *s.final.end.Value; v != n {
		p.add(s.name, append(both(s.final), last), "the final value of %s is %d after %d applied effects", s.name, v, n)
	}
}

// effectsSoFar is what of P4 a part of the ledger can show.
func effectsSoFar(_ context.Context, a *analysis, p *Property) {
	for _, s := range a.sinks {
		s.checkOnce(p)
		s.checkValues(p)
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
