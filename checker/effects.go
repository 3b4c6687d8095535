package checker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"

	"fencepost/harness/record/history"
)

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
				p.add(s.name, events, "the sink took token %d of %s (%s, entry %d) after it had seen token %d (entry %d)", e.Token, s.name, e.Kind, e.Seq, top.Token, top.Seq)
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

// checkRefusals is P10: every stale names a higher token that the sink had
// really seen, every conflict a key that it had really applied. What was accepted
// counts as checked too: refused, it would have been a violation.
func checkRefusals(_ context.Context, a *analysis, p *Property) {
	refused := 0
	for _, s := range a.sinks {
		if !s.read() {
			continue // P14
		}
		for _, o := range append(slices.Clone(s.raises), s.effects...) {
			if o.end == nil || o.end.Result == "" {
				continue
			}
			p.Checked++
			switch o.end.Result {
			case resultStale:
				refused++
				s.checkStale(o, p)
			case resultConflict:
				refused++
				if len(s.accepts[o.inv.EffectKey]) == 0 {
					p.add(s.name, both(o), "effect %s was refused as a conflict, but no effect with its key was ever applied", o.inv.EffectKey)
				}
			}
		}
	}
	a.reportLies(p)
	p.Detail = fmt.Sprintf("%s of the sink, of which %s, against its ledger", plural(p.Checked, "answer"), were(refused, "refusal"))
	if a.told.reads[history.WitnessAnswers] {
		p.Detail += " and the links"
	}
}

func (s *sinkLog) checkStale(o *op, p *Property) {
	token, seen := o.inv.Token, o.end.Seen
	if seen <= token {
		p.add(s.name, both(o), "%s with token %d was refused as stale although the sink had seen no higher token than %d", o.inv.Op, token, seen)
		return
	}
	var found *entry // the first that shows it
	for _, i := range s.tokens[grantRef{o.inv.Issuer, seen}] {
		e := &s.ledger[i]
		for _, cause := range e.by {
			if cause.inv.TS <= o.end.TS && e.At <= o.end.TS {
				return
			}
		}
		if found == nil {
			found = e
		}
	}
	switch {
	case found == nil:
		p.add(s.name, both(o), "%s with token %d was refused as stale because of token %d, which the ledger does not show", o.inv.Op, token, seen)
	case found.At > o.end.TS:
		p.add(s.name, append(both(o), found.ev), "%s with token %d was refused as stale because of token %d, which the sink took only %s later", o.inv.Op, token, seen, ms(found.At-o.end.TS))
	case len(found.by) > 0:
		p.add(s.name, append(both(o), first(found.by)...), "%s with token %d was refused as stale because of token %d, which was sent only %s later", o.inv.Op, token, seen, ms(found.by[0].inv.TS-o.end.TS))
	}
}
