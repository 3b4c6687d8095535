package checker

import (
	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// sinkMutations change the sink's ledger and answers.
var sinkMutations = []mutation{
	{"ledger takes tokens out of order", "P3", companions{
		"P4": "the sink's answers named the numbers that the entries had",
	}, func(e *edit) bool {
		h := e.middle()
		if h == nil {
			return false
		}
		l := e.ledger(h.effect.inv.Key)
		for i := 1; i < len(l); i++ {
			if l[i].Ledger().Kind == history.LedgerRaise && l[i-1].Ledger().Kind == history.LedgerAccept {
				l[i].Ledger().Seq, l[i-1].Ledger().Seq = l[i-1].Ledger().Seq, l[i].Ledger().Seq
				return true
			}
		}
		return false
	}},
	{"token of another lock accepted", "P3", nil, func(e *edit) bool {
		h := e.middle()
		if h == nil {
			return false
		}
		e.accept(h).Ledger().Issuer = "another"
		return true
	}},
	{"effect applied twice", "P4", nil, func(e *edit) bool {
		h := e.middle()
		if h == nil {
			return false
		}
		l := e.ledger(h.effect.inv.Key)
		last, final := l[len(l)-1], e.final(h.effect.inv.Key)
		again := *last
		entry := *last.Ledger()
		entry.Seq++
		entry.Kind, entry.EffectKey, entry.Value = history.LedgerAccept, h.effect.inv.EffectKey, ptr(*final.Value+1)
		again.OwnDetails().Ledger = &entry
		final.Value, final.Seq = ptr(*final.Value+1), entry.Seq
		e.insert(again)
		return true
	}},
	{"acknowledged effect missing from the ledger", "P4", nil, func(e *edit) bool {
		h := e.middle()
		if h == nil {
			return false
		}
		gone := *e.accept(h)
		e.drop(func(ev *history.Event) bool {
			return ev.Op == history.NoteLedger && ev.Key == gone.Key && ev.Ledger().Seq == gone.Ledger().Seq
		})
		return true
	}},
	{"applied effect recorded as failed", "P4", nil, func(e *edit) bool {
		h := e.middle()
		if h == nil {
			return false
		}
		end := h.effect.end
		end.Type, end.Result, end.Error = history.Fail, "", "unavailable"
		return true
	}},
	{"lost update", "P4", nil, func(e *edit) bool {
		h := e.middle()
		if h == nil {
			return false
		}
		v := *h.effect.inv.Value - 1
		h.effect.inv.Value, e.accept(h).Ledger().Value = &v, &v
		return true
	}},
	{"final value is not the number of effects", "P4", nil, func(e *edit) bool {
		h := e.middle()
		if h == nil {
			return false
		}
		f := e.final(h.effect.inv.Key)
		f.Value = ptr(*f.Value - 1)
		return true
	}},
	{"sink wrote another value than asked", "P4", nil, func(e *edit) bool {
		h := e.middle()
		if h == nil {
			return false
		}
		h.effect.inv.Value = ptr(*h.effect.inv.Value + 5)
		return true
	}},
	{"client reads an old value", "P4", nil, func(e *edit) bool {
		h := e.middle()
		if h == nil || *h.get.end.Value == 0 {
			return false
		}
		h.get.end.Value = ptr(*h.get.end.Value - 1)
		return true
	}},
	{"refused without a higher token", "P10", companions{
		"P4": "Porcupine finds no state of the sink that gives this answer",
	}, func(e *edit) bool {
		for _, p := range e.some(history.OpEffect, history.Fail) {
			if p.end.Result == past.ResultStale {
				p.end.Seen = p.inv.Token
				return true
			}
		}
		return false
	}},
	{"refused by a token that nobody raised", "P10", companions{
		"P4": "Porcupine finds no state of the sink that gives this answer",
	}, func(e *edit) bool {
		for _, p := range e.some(history.OpEffect, history.Fail) {
			if p.end.Result == past.ResultStale {
				p.end.Seen += 10_000
				return true
			}
		}
		return false
	}},
	{"refused by a token raised only later", "P10", companions{
		"P4": "Porcupine finds no state of the sink that gives this answer",
	}, func(e *edit) bool {
		for _, p := range e.some(history.OpEffect, history.Fail) {
			if f := e.final(p.inv.Key); p.end.Result == past.ResultStale && f.Seen > p.end.Seen+3 {
				p.end.Seen = f.Seen
				return true
			}
		}
		return false
	}},
	{"conflict without an effect of that key", "P10", nil, func(e *edit) bool {
		for _, p := range e.some(history.OpEffect, history.Fail) {
			if p.end.Result == past.ResultStale {
				p.end.Result = past.ResultConflict
				return true
			}
		}
		return false
	}},
}
