package checker

import (
	"context"
	"fmt"
	"slices"

	"fencepost/harness/record/history"
)

func init() {
	register(check{
		id:    "P10",
		title: "the sink refuses only what it must",
		by:    "the ledger",
		run:   checkRefusals,
		whole: true,
		rules: []rule{
			{find: (*inquiry).refusedTokens},
		},
		mechanisms: []mechanism{
			{id: "sink-refuses-equal", accounts: ofEffects,
				statement: "the sink refuses a token that is equal to the highest seen: a holder is refused its own write"},
			{id: "sink-refuses-wrongly", accounts: ofEffects,
				statement: "the sink refuses with a reason that its ledger does not show"},
		},
	})
}

// checkRefusals is P10: every stale names a higher token that the sink had
// really seen, every conflict a key that it had really applied. What was accepted
// counts as checked too: refused, it would have been a violation.
func checkRefusals(_ context.Context, a *judgement, p *Property) {
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
