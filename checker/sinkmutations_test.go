package checker

import (
	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// sinkMutations change the sink's ledger and answers.
var sinkMutations = []mutation{
	{"ledger takes tokens out of order", "P3", companions{"P4": "the sink's answers named the numbers that the entries had"},
		inCycleIf(func(e *edit, h *held) bool {
			l := e.ledger(h.effect.inv.Key)
			for i := 1; i < len(l); i++ {
				if l[i].Ledger().Kind == history.LedgerRaise && l[i-1].Ledger().Kind == history.LedgerAccept {
					l[i].Ledger().Seq, l[i-1].Ledger().Seq = l[i-1].Ledger().Seq, l[i].Ledger().Seq
					return true
				}
			}
			return false
		})},
	{"token of another lock accepted", "P3", nil, inCycle(func(e *edit, h *held) { e.accept(h).Ledger().Issuer = "another" })},
	{"effect applied twice", "P4", nil, inCycle(func(e *edit, h *held) {
		l := e.ledger(h.effect.inv.Key)
		last, final := l[len(l)-1], e.final(h.effect.inv.Key)
		again := *last
		entry := *last.Ledger()
		entry.Seq++
		entry.Kind, entry.EffectKey, entry.Value = history.LedgerAccept, h.effect.inv.EffectKey, ptr(*final.Value+1)
		again.OwnDetails().Ledger = &entry
		final.Value, final.Seq = ptr(*final.Value+1), entry.Seq
		e.insert(again)
	})},
	{"acknowledged effect missing from the ledger", "P4", nil, inCycle(func(e *edit, h *held) {
		gone := *e.accept(h)
		e.drop(func(ev *history.Event) bool {
			return ev.Op == history.NoteLedger && ev.Key == gone.Key && ev.Ledger().Seq == gone.Ledger().Seq
		})
	})},
	{"applied effect recorded as failed", "P4", nil, inCycle(func(e *edit, h *held) {
		end := h.effect.end
		end.Type, end.Result, end.Error = history.Fail, "", "unavailable"
	})},
	{"lost update", "P4", nil, inCycle(func(e *edit, h *held) {
		v := *h.effect.inv.Value - 1
		h.effect.inv.Value, e.accept(h).Ledger().Value = &v, &v
	})},
	{"final value is not the number of effects", "P4", nil, inCycle(func(e *edit, h *held) {
		f := e.final(h.effect.inv.Key)
		f.Value = ptr(*f.Value - 1)
	})},
	{"sink wrote another value than asked", "P4", nil, inCycle(func(e *edit, h *held) {
		h.effect.inv.Value = ptr(*h.effect.inv.Value + 5)
	})},
	{"client reads an old value", "P4", nil, inCycleIf(func(e *edit, h *held) bool {
		if *h.get.end.Value == 0 {
			return false
		}
		h.get.end.Value = ptr(*h.get.end.Value - 1)
		return true
	})},
	{"refused without a higher token", "P10", companions{"P4": "Porcupine finds no state of the sink that gives this answer"},
		first(history.OpEffect, history.Fail, stale, func(e *edit, p pair) {
			p.end.Seen = p.inv.Token
		})},
	{"refused by a token that nobody raised", "P10", companions{"P4": "Porcupine finds no state of the sink that gives this answer"},
		first(history.OpEffect, history.Fail, stale, func(e *edit, p pair) {
			p.end.Seen += 10_000
		})},
	{"refused by a token raised only later", "P10", companions{"P4": "Porcupine finds no state of the sink that gives this answer"},
		first(history.OpEffect, history.Fail, func(e *edit, p pair) bool {
			return stale(e, p) && e.final(p.inv.Key).Seen > p.end.Seen+3
		}, func(e *edit, p pair) {
			p.end.Seen = e.final(p.inv.Key).Seen
		})},
	{"conflict without an effect of that key", "P10", nil,
		first(history.OpEffect, history.Fail, stale, func(e *edit, p pair) {
			p.end.Result = past.ResultConflict
		})},
}
