package property

import (
	"context"
	"fmt"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:             "P10",
		title:          "the sink refuses only what it must",
		by:             "the ledger",
		run:            checkRefusals,
		completeRecord: true,
		rules:          []rule{{find: (*Inquiry).refusedTokens}},
		accounts:       ofEffects,
		mechanisms: []mechanism{
			{id: "sink-refuses-equal",
				Statement: "the sink refuses a token that is equal to the highest seen: a holder is refused its own write"},
			{id: "sink-refuses-wrongly", Statement: "the sink refuses with a reason that its ledger does not show"},
		},
	})
}

// checkRefusals is P10: every stale names a higher token that the sink had
// really seen, every conflict a key that it had really applied. What was accepted
// counts as checked too: refused, it would have been a violation.
func checkRefusals(_ context.Context, a *Judgement, p *Property) {
	refused := 0
	for _, s := range a.Sinks {
		if !s.WasRead() {
			continue // P14
		}
		for _, o := range s.Calls() {
			if o.End == nil || o.End.Result == "" {
				continue
			}
			p.Checked++
			switch o.End.Result {
			case past.ResultStale:
				refused++
				checkStale(s, o, p)
			case past.ResultConflict:
				refused++
				if len(s.Accepts[o.Invoke.EffectKey]) == 0 {
					p.add(s.Name, past.Events(o), "effect %s was refused as a conflict, but no effect with its key was ever applied", o.Invoke.EffectKey)
				}
			}
		}
	}
	a.reportLies(p)
	p.Detail = fmt.Sprintf("%s of the sink, of which %s, against its ledger",
		phrase.Plural(p.Checked, "answer"), phrase.PluralWas(refused, "refusal"))
	if a.Witness.Reads[history.WitnessAnswers] {
		p.Detail += " and the links"
	}
}

func checkStale(s *past.Sink, o *past.Op, p *Property) {
	token, seen := o.Invoke.Token, o.End.Seen
	if seen <= token {
		p.add(s.Name, past.Events(o), "%s with token %d was refused as stale although the sink had seen no higher token than %d",
			o.Invoke.Op, token, seen)
		return
	}
	var found *past.Entry // the first that shows it
	for _, i := range s.Tokens[past.GrantRef{Issuer: o.Invoke.Issuer, Token: seen}] {
		e := &s.Ledger[i]
		for _, cause := range e.By {
			if cause.Invoke.TS <= o.End.TS && e.At <= o.End.TS {
				return
			}
		}
		if found == nil {
			found = e
		}
	}
	switch {
	case found == nil:
		p.add(s.Name, past.Events(o), "%s with token %d was refused as stale because of token %d, which the ledger does not show",
			o.Invoke.Op, token, seen)
	case found.At > o.End.TS:
		p.add(s.Name, append(past.Events(o), found.Event),
			"%s with token %d was refused as stale because of token %d, which the sink took only %s later",
			o.Invoke.Op, token, seen, phrase.MS(found.At-o.End.TS))
	case len(found.By) > 0:
		p.add(s.Name, append(past.Events(o), past.FirstEvents(found.By)...),
			"%s with token %d was refused as stale because of token %d, which was sent only %s later",
			o.Invoke.Op, token, seen, phrase.MS(found.By[0].Invoke.TS-o.End.TS))
	}
}

// refusedTokens: effects refused because of a token that is no higher, or of nothing that
// the ledger shows.
func (x *Inquiry) refusedTokens() {
	for _, s := range x.Sinks {
		if !s.WasRead() {
			continue
		}
		for _, o := range s.Calls() {
			p := &Property{}
			if o.End != nil && o.End.Result == past.ResultStale {
				checkStale(s, o, p)
			}
			if p.Count == 0 {
				continue
			}
			if o.End.Seen == o.Invoke.Token {
				sus := x.found("sink-refuses-equal", shown, "%s with token %d was refused because token %d had been seen",
					o.Invoke.Op, o.Invoke.Token, o.End.Seen)
				var chain []Step
				if i, ok := s.Raised[past.GrantRef{Issuer: o.Invoke.Issuer, Token: o.Invoke.Token}]; ok && len(s.Ledger[i].By) > 0 {
					r := s.Ledger[i].By[0]
					chain = append(chain, x.before(r.Invoke, "%s raises the token to its own, %d", r.Invoke.Proc, r.Invoke.Token))
				}
				sus.show(s.Name, o.End.TS, []string{o.Invoke.Proc},
					append(chain, x.mistake(o.End, "its %s is refused as stale: token %d, seen %d", o.Invoke.Op, o.Invoke.Token, o.End.Seen))...)
				continue
			}
			sus := x.found("sink-refuses-wrongly", WeightFits, "%s", p.Violations[0].Message)
			sus.show(s.Name, o.End.TS, []string{o.Invoke.Proc}, x.mistake(o.End, "%s", p.Violations[0].Message))
		}
	}
}
