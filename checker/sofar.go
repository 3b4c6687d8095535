package checker

import (
	"context"

	"fencepost/harness/record/history"
)

// SoFar judges the history of a run that still goes on, consistent as
// [history.Tail] gives it, by what can be said before the end (soFar in the properties'
// rows), as far as the system promises it. It returns the properties with findings. None
// is a property that holds, and most findings can be made at the end only; but those made
// now are the end's too.
//
// These are the checks of the verdict, over the same analysis. Only the sink's ledger,
// which is read at the end, is replaced by the part of it that the sink's own answers
// show.
func SoFar(ctx context.Context, h *history.History, o Options) []Property {
	a := newJudgement(h, true, o)
	var out []Property
	for _, c := range checks {
		if c.soFar == nil {
			continue
		}
		c.run, c.whole = c.soFar, false
		if p := a.judge(ctx, c); p.Status == StatusFail {
			out = append(out, p)
		}
	}
	return out
}

// fromAnswers makes the part of the ledger that applied effects and raises show: each
// answer has its entry's number. A raise to a token that was the highest already
// makes no entry and is answered with the last one; it says what had been seen by
// then, which is true of that place too.
func (s *sinkLog) fromAnswers() {
	if len(s.ledger) > 0 {
		return // it was read
	}
	add := func(o *op, kind string) {
		if o.outcome != history.OK || o.end.Result != resultApplied || o.end.Seq == 0 {
			return
		}
		s.ledger = append(s.ledger, entry{ev: o.end, LedgerEntry: &history.LedgerEntry{
			Seq: o.end.Seq, Kind: kind, Issuer: o.inv.Issuer, Token: o.inv.Token, EffectKey: o.inv.EffectKey, Value: o.inv.Value,
		}})
	}
	for _, o := range s.raises {
		if o.end != nil && o.end.Seen == o.inv.Token {
			add(o, history.LedgerRaise)
		}
	}
	for _, o := range s.effects {
		add(o, history.LedgerAccept)
	}
}
