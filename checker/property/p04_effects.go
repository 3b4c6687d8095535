package property

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:    "P4",
		title: "every effect is applied at most once, none is lost",
		by:    "ledger, answers as recorded and as the links carried them, values; Porcupine; the steps of completed jobs",
		run:   checkEffects,
		soFar: effectsSoFar,
		part:  "applied twice, lost updates",
		rules: []rule{
			{find: (*Inquiry).missingRaises},
			{find: (*Inquiry).madeUpAnswers},
			{find: (*Inquiry).forgedEntries},
			{find: (*Inquiry).lostEffects},
			{find: (*Inquiry).repeatedEffects},
		},
		mechanisms: []mechanism{
			{id: "ledger-emptied", Accounts: []string{"P3", "P4", "P6", "P10", "P13"},
				Statement: "a resource of the sink was emptied while it was in use: what it had seen and accepted is forgotten"},
			{id: "ledger-forged", Accounts: ofEffects,
				Statement: "the sink's ledger shows another token than the one that came with an effect"},
			{id: "answer-made-up", Accounts: []string{"P4", "P10", "P14"},
				Statement: "a worker records an answer of the sink that the sink never gave it"},
			{id: "raise-not-done", Accounts: ofEffects,
				Statement: "a holder reads what it acts on before the sink knows its token: the one before can still write"},
			{id: "acknowledged-before-done", Accounts: []string{"P4"},
				Statement: "an effect is acknowledged before it is done, and lost with its process"},
			{id: "resend-is-another-effect", Accounts: []string{"P4"},
				Statement: "a request that is sent again is another effect: its idempotency key does not cover resends"},
			{id: "effects-without-key", Accounts: []string{"P4"},
				Statement: "effects carry no idempotency key: what an earlier run did is done again",
				Apart:     "a repetition that is answered as a duplicate"},
			{id: "key-of-the-attempt", Accounts: []string{"P4"},
				Statement: "the idempotency key contains the attempt: what an earlier one did is done again",
				Apart:     "an effect that is applied twice under one token"},
		},
	})
}

// checkEffects is P4: ledger, recorded answers and values agree, and each key
// was applied at most once.
func checkEffects(ctx context.Context, a *Judgement, p *Property) {
	for _, s := range a.Sinks {
		p.Checked += len(s.Effects)
		checkOnce(s, p)
		for _, o := range s.Effects {
			checkAnswer(s, o, p)
		}
		checkDecided(s, p, a.Lost == 0)
		checkValues(s, p)
		checkFinal(s, p)
	}
	a.reportLies(p)
	a.checkSteps(p)
	p.Detail = "ledger, answers and values agree"
	if a.Witness.Reads[history.WitnessAnswers] {
		p.Detail = "ledger, values and answers, as the links carried them, agree"
	}
	a.searchSinks(ctx, p)
}

func checkOnce(s *past.Sink, p *Property) {
	for _, key := range slices.Sorted(maps.Keys(s.Accepts)) {
		is := s.Accepts[key]
		if len(is) < 2 {
			continue
		}
		var events []*history.Event
		for _, i := range is {
			events = append(events, s.Ledger[i].Event)
		}
		p.add(s.Name, append(events, past.FirstEvents(s.Ledger[is[0]].By)...), "effect %s was applied %d times (ledger entries %d and %d)", key, len(is), s.Ledger[is[0]].Seq, s.Ledger[is[1]].Seq)
	}
}

// checkAnswer compares what the sink answered with what it did.
func checkAnswer(s *past.Sink, o *past.Op, p *Property) {
	if !s.WasRead() {
		return // P14
	}
	key := o.Invoke.EffectKey
	i := s.EntryOf(o)
	if i < 0 {
		if o.Outcome == history.OK {
			p.add(s.Name, append(past.Events(o), neighbour(s, o.End.Seq)), "effect %s was answered %s (entry %d), but the ledger of %s does not contain it: an acknowledged effect is lost", key, o.End.Result, o.End.Seq, s.Name)
		}
		return
	}
	e := &s.Ledger[i]
	switch {
	case o.Outcome == history.Fail && len(e.By) == 1:
		p.add(s.Name, append(past.Events(o), e.Event), "effect %s was reported as failed (%s), but the ledger of %s shows it as applied (entry %d)", key, why(o.End), s.Name, e.Seq)
	case e.Token != o.Invoke.Token && len(e.By) == 1, o.Invoke.Value != nil && e.Value != nil && *e.Value != *o.Invoke.Value && len(e.By) == 1:
		p.add(s.Name, append(past.Events(o), e.Event), "effect %s was sent with token %d and value %s, but entry %d of the ledger has token %d and value %s", key, o.Invoke.Token, phrase.Number(o.Invoke.Value), e.Seq, e.Token, phrase.Number(e.Value))
	case o.Outcome == history.OK && o.End.Result == past.ResultApplied && o.End.Seq != 0 && !hasSeq(s, key, o.End.Seq):
		p.add(s.Name, append(past.Events(o), e.Event), "effect %s was answered applied as entry %d, but the ledger has it as entry %d", key, o.End.Seq, e.Seq)
	}
}

func hasSeq(s *past.Sink, key string, seq int64) bool {
	for _, i := range s.Accepts[key] {
		if s.Ledger[i].Seq == seq {
			return true
		}
	}
	return false
}

// checkDecided compares when the sink decided, by its own clock, with when it was asked and
// when it answered.
func checkDecided(s *past.Sink, p *Property, whole bool) {
	var last *past.Entry
	for i := range s.Ledger {
		e := &s.Ledger[i]
		if e.At == 0 {
			continue
		}
		if last != nil && e.At < last.At {
			p.add(s.Name, []*history.Event{last.Event, e.Event}, "entry %d of the ledger of %s was decided %s before entry %d, which it follows", e.Seq, s.Name, phrase.MS(last.At-e.At), last.Seq)
		}
		last = e
		if len(e.By) == 0 || e.Kind == history.LedgerAccept && len(s.Accepts[e.EffectKey]) > 1 {
			continue // which call made which is not known
		}
		asked := e.By[0]
		for _, o := range e.By {
			if o.Invoke.TS < asked.Invoke.TS {
				asked = o
			}
			if o.Outcome == history.OK && o.Invoke.Token == e.Token && e.At > o.End.TS && (o.Invoke.Op == history.OpEffect) == (e.Kind == history.LedgerAccept) {
				p.add(s.Name, append(past.Events(o), e.Event), "%s%s was answered %s %s before the sink decided it (entry %d)", o.Invoke.Op, past.OfToken(o.Invoke), o.End.Result, phrase.MS(e.At-o.End.TS), e.Seq)
			}
		}
		if e.At < asked.Invoke.TS && whole { // a call that is lost may have asked before
			p.add(s.Name, append(past.Events(asked), e.Event), "the sink decided entry %d (%s of token %d%s) %s before anybody asked for it", e.Seq, e.Kind, e.Token, past.KeyText(e.EffectKey), phrase.MS(asked.Invoke.TS-e.At))
		}
	}
}

// neighbour is the ledger note at or after seq, to show what stands there instead.
func neighbour(s *past.Sink, seq int64) *history.Event {
	for i := range s.Ledger {
		if s.Ledger[i].Seq >= seq {
			return s.Ledger[i].Event
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

// checkValues: every effect wrote the value that the one before had left, plus
// one. Otherwise its holder acted on a state that was no longer current.
func checkValues(s *past.Sink, p *Property) {
	prev, seq, gap := int64(0), int64(0), false
	var last *past.Entry
	for i := range s.Ledger {
		e := &s.Ledger[i]
		gap = gap || e.Seq != seq+1
		seq = e.Seq
		if e.Kind != history.LedgerAccept || e.Value == nil {
			continue
		}
		if !gap && *e.Value != prev+1 {
			events := append([]*history.Event{e.Event}, past.FirstEvents(e.By)...)
			if last != nil {
				events = append(append(events, last.Event), past.FirstEvents(last.By)...)
			}
			p.add(s.Name, events, "lost update: effect %s (entry %d, token %d) wrote %d over %d, so it had read an older value", e.EffectKey, e.Seq, e.Token, *e.Value, prev)
		}
		prev, last, gap = *e.Value, e, false
	}
}

// checkFinal compares the final value with the number of applied effects.
func checkFinal(s *past.Sink, p *Property) {
	if s.Final == nil || s.Hole != "" {
		return
	}
	n := int64(0)
	var last *history.Event
	for i := range s.Ledger {
		if s.Ledger[i].Kind == history.LedgerAccept {
			n, last = n+1, s.Ledger[i].Event
		}
	}
	if v := *s.Final.End.Value; v != n {
		p.add(s.Name, append(past.Events(s.Final), last), "the final value of %s is %d after %d applied effects", s.Name, v, n)
	}
}

// effectsSoFar is what of P4 a part of the ledger can show.
func effectsSoFar(_ context.Context, a *Judgement, p *Property) {
	for _, s := range a.Sinks {
		checkOnce(s, p)
		checkValues(s, p)
	}
}

// madeUpAnswers are those that no link carried.
func (x *Inquiry) madeUpAnswers() {
	for i := range x.Lies {
		l := &x.Lies[i]
		s := x.suspect("answer-made-up", shown, i+1, "%s", l.Message)
		chain := []Step{x.step(RoleMistake, l.Op.End, "%s records that its %s was answered %s", l.Op.Invoke.Proc, l.Op.Invoke.Op, past.AnswerText(l.Op.End))}
		for _, e := range l.Events[2:] {
			chain = append(chain, x.step(RoleBefore, e, "its link carries another answer: %s", past.AnswerText(e)))
		}
		s.show(l.Resource, l.Op.End.TS, []string{l.Op.Invoke.Proc}, chain...)
	}
}

// forgedEntries are those that show another token than their effect was sent with.
func (x *Inquiry) forgedEntries() {
	n := 0
	for _, s := range x.Sinks {
		for i := range s.Ledger {
			e := &s.Ledger[i]
			if e.Kind != history.LedgerAccept || len(e.By) != 1 || e.By[0].Invoke.Token == e.Token {
				continue
			}
			n++
			o := e.By[0]
			sus := x.suspect("ledger-forged", shown, n, "effect %s was sent with token %d, and entry %d of the ledger has token %d", e.EffectKey, o.Invoke.Token, e.Seq, e.Token)
			sus.show(s.Name, e.Event.TS, []string{o.Invoke.Proc}, x.step(RoleBefore, o.Invoke, "%s sends its effect under token %d", o.Invoke.Proc, o.Invoke.Token),
				x.step(RoleMistake, e.Event, "the ledger says that it came with token %d (entry %d)", e.Token, e.Seq))
		}
	}
}

// missingRaises: effects that were accepted under a token that nobody had raised before
// the state was read, though the sink said so if it was asked.
func (x *Inquiry) missingRaises() {
	told, silent := 0, 0
	for _, s := range x.Sinks {
		if !s.WasRead() || s.Hole != "" {
			continue
		}
		for i := range s.Ledger {
			e := &s.Ledger[i]
			if _, raised := s.Raised[past.GrantRef{Issuer: e.Issuer, Token: e.Token}]; e.Kind != history.LedgerAccept || raised || len(e.By) == 0 {
				continue
			}
			o := e.By[0]
			var raise *past.Op
			for _, r := range s.Raises {
				if r.Invoke.Token == e.Token && r.Invoke.Proc == o.Invoke.Proc && r.Outcome == history.OK {
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

func (x *Inquiry) showUnraised(s *past.Sink, o, raise *past.Op, e *past.Entry, n int) {
	what := "nobody sent a raise of it"
	if raise != nil {
		what = "its raise was answered and is not in the ledger"
	}
	prev := s.EntryBefore(e)
	if prev == nil || prev.Value == nil || e.Value == nil || *e.Value == *prev.Value+1 || len(prev.By) == 0 {
		return // it did no harm
	}
	sus := x.suspect("raise-not-done", shown, n, "the first that the ledger has of a token is an effect: token %d of %s, entry %d; %s", e.Token, s.Name, e.Seq, what)
	chain := []Step{}
	if raise != nil {
		chain = append(chain, x.step(RoleBefore, raise.End, "%s is told that token %d is raised, and the ledger has no such entry", raise.Invoke.Proc, e.Token))
	}
	for _, g := range s.Gets {
		if g.Invoke.Proc == o.Invoke.Proc && g.Outcome == history.OK && g.End.TS < o.Invoke.TS && g.End.Value != nil && *g.End.Value+1 == *e.Value {
			chain = append(chain, x.step(RoleMistake, g.End, "%s reads %d to act on", g.Invoke.Proc, *g.End.Value))
		}
	}
	p := prev.By[0]
	chain = append(chain, x.step(RoleBefore, p.Invoke, "%s, with the %s token %d, writes %d", p.Invoke.Proc, against(prev.Token, e.Token), prev.Token, *prev.Value), x.step(RoleHarm, o.Invoke, "%s writes %d over it", o.Invoke.Proc, *e.Value))
	sus.show(s.Name, o.Invoke.TS, []string{o.Invoke.Proc, p.Invoke.Proc}, chain...)
}

// against says how a token compares with another.
func against(token, other int64) string {
	return [...]string{"lower", "same", "higher"}[1+cmp.Compare(token, other)]
}
