package checker

import (
	"slices"
	"strings"

	"pgregory.net/rapid"

	"fencepost/checker/past"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// companions are the properties that may fail beside the one that is broken,
// each with the reason why the same defect breaks it.
type companions map[string]string

// mutation makes a legal history illegal in one way. do returns false if the
// history has nothing to change.
type mutation struct {
	name string
	want string // the property that must fail
	also companions
	do   func(*edit) bool
}

// porcupineOnly are seen by no linear-time check.
var porcupineOnly = []string{"client reads an old value"}

// lockMutations change what was done to the lock rows and by whom.
var lockMutations = []mutation{
	{"token handed out twice", "P1", nil, func(e *edit) bool {
		cs := e.cycles()
		for i := len(cs) - 1; i > 0; i-- {
			for j := range i {
				if cs[j].acquire.inv.Key == cs[i].acquire.inv.Key {
					cs[i].call.end.Token = cs[j].call.end.Token
					return true
				}
			}
		}
		return false
	}},
	{"tokens from per-worker blocks", "P1", companions{"P4": "the ledger still shows the tokens that the row gave"},
		func(e *edit) bool {
			block := func(proc string, token int64) int64 {
				return token + 1000*int64(len(history.Worker(proc))+int(history.Worker(proc)[1]-'0')%3)
			}
			for i := range e.h.Events {
				if ev := &e.h.Events[i]; ev.Token != 0 {
					ev.Token = block(ev.Proc, ev.Token)
				}
			}
			return true
		}},
	{"refused acquire recorded as applied", "P2", companions{
		"P1": "its fence was granted to the winner too",
		"P8": "both are entitled until their deadlines",
	},
		first(history.OpAcquire, history.Fail, func(_ *edit, p pair) bool {
			return p.end.Row != nil && p.end.Row.Attempt != p.inv.To.Attempt
		}, func(e *edit, p pair) {
			p.end.Type, p.end.Row = history.OK, nil
		})},
	{"applied acquire recorded as refused", "P2", companions{"P6": "its holder shows a token that no answer gave it"},
		inCycle(func(e *edit, h *held) { h.acquire.end.Type, h.acquire.end.Error = history.Fail, "unavailable" })},
	{"applied release recorded as refused", "P2", nil, inCycle(func(e *edit, h *held) {
		h.release.end.Type, h.release.end.Error = history.Fail, "unavailable"
	})},
	{"acknowledged release is lost", "P2", nil, inCycle(func(e *edit, h *held) {
		// Whoever came next found the row as if it had not been released.
		for _, p := range e.ops {
			if p.inv.From != nil && *p.inv.From == *h.release.inv.To {
				p.inv.From = ptr(*h.release.inv.From)
			}
		}
	})},
	{"one write acknowledged twice", "P2", nil, inCycle(func(e *edit, h *held) {
		inv, end := *h.release.inv, *h.release.end
		inv.ID = e.nextID(inv.Proc)
		end.ID = inv.ID
		// Beside the first, not after it: the lock may have passed on before that was answered.
		end.TS, end.Sends = end.TS+1, nil
		e.insert(inv, end)
	})},
	{"unknown recorded as applied", "P2", companions{
		"P1": "its fence was granted to another too",
		"P8": "both are entitled until their deadlines",
		"P9": "a renewal or release of a lease that had passed on",
	}, func(e *edit) bool {
		a := past.New(e.h, false)
		for _, l := range a.Rows {
			for _, c := range l.CAS {
				if c.Outcome == history.Unknown && c.End != nil && l.Fate(c.Write) == past.Never {
					c.End.Type = history.OK
					return true
				}
			}
		}
		return false
	}},
	{"stale SERIAL read", "P2", nil, func(e *edit) bool {
		h := e.middle()
		for _, p := range e.some(history.OpRead, history.OK) {
			if h != nil && p.inv.Key == h.release.inv.Key {
				p.end.Row = h.release.inv.To
				return true
			}
		}
		return false
	}},
	{"SERIAL read of a row that never was", "P2", nil, first(history.OpRead, history.OK, nil, func(e *edit, p pair) {
		row := *p.end.Row
		row.Beat += 7
		p.end.Row = &row
	})},
	{"write took effect before its invocation", "P2", companions{
		"P1":  "the lock call that it was part of is matched with another acquire",
		"P6":  "its token is handed out and shown before it was asked for",
		"P7":  "as P1: decided under a grant that was not its own",
		"P8":  "as P1: two grants seem to be handed out by one call",
		"P11": "the row seems to stand still until it was asked for",
	}, inCycle(func(e *edit, h *held) {
		shift(h.acquire, h.release.end.TS-h.acquire.inv.TS+1_000_000)
		e.index()
	})},
	{"row mixed from two versions", "P2", nil, inCycle(func(e *edit, h *held) {
		for _, p := range e.ops {
			if p.inv.From != nil && *p.inv.From == *h.release.inv.To {
				mixed := *p.inv.From
				mixed.Beat += 3
				p.inv.From = &mixed
			}
		}
	})},
	{"rejection shows an old row", "P2", nil, inCycleIf(func(e *edit, h *held) bool {
		for _, p := range e.some(history.OpAcquire, history.Fail) {
			if p.end.Row != nil && p.inv.Key == h.acquire.inv.Key && p.inv.TS > h.release.end.TS && p.inv.From != nil {
				p.end.Row = ptr(*h.acquire.inv.To)
				return true
			}
		}
		return false
	})},
	{"effect under a token never granted", "P6", nil, inCycle(func(e *edit, h *held) { h.start.Token += 5000 })},
	{"work under another client's token", "P6", nil, inCycle(func(e *edit, h *held) {
		h.start.Proc = strings.Split(h.start.Proc, "/")[0] + "/c9"
	})},
	{"token handed out by a call that acquired nothing", "P6", companions{"P1": "tokens that are handed out later are lower"},
		firstIf(history.OpLock, history.Fail, func(e *edit, p pair) bool {
			acquired := func(q pair) bool {
				return q.inv.Op == history.OpAcquire && q.inv.Proc == p.inv.Proc && q.inv.TS >= p.inv.TS && q.inv.TS <= p.end.TS
			}
			if slices.ContainsFunc(e.ops, acquired) {
				return false
			}
			p.end.Type, p.end.Token = history.OK, 77_777
			return true
		})},
	{"acquire that was never confirmed", "P6", nil, inCycle(func(e *edit, h *held) {
		h.acquire.end.Type, h.acquire.end.Error = history.Unknown, "timeout"
	})},
	{"effect decided after the deadline", "P7", nil, inCycle(func(e *edit, h *held) {
		h.effect.inv.DecidedAt = h.acquire.inv.TS + 20_000_000_000
	})},
	{"effect decided before the grant was known", "P7", nil, inCycle(func(e *edit, h *held) {
		h.effect.inv.DecidedAt = h.acquire.end.TS - 1
	})},
	{"work started before the grant was asked for", "P7", nil, inCycle(func(e *edit, h *held) {
		h.start.DecidedAt = h.acquire.inv.TS - 1
	})},
	{"work started after the release", "P7", nil, inCycle(func(e *edit, h *held) { h.start.DecidedAt = h.release.inv.TS + 1 })},
	{"two leases at once", "P8", nil, func(e *edit) bool {
		// A ttl that the row did not have: the holder trusts for longer than
		// the one who took over had to wait.
		a := past.New(e.h, false)
		for _, l := range a.Rows {
			for i, w := range l.Chain {
				c := w.Main()
				if i > 0 && c.Invoke.Takeover && c.Outcome == history.OK {
					old := l.Chain[i-1]
					if g := l.ByAttempt[old.To.Attempt]; g != nil && g.Release == nil && g.Lost == nil && g.Acquire.Outcome == history.OK {
						e.revise(func(v history.Version) bool { return v.Attempt == old.To.Attempt }, func(v *history.Version) { v.TTLMS *= 10 })
						return true
					}
				}
			}
		}
		return false
	}},
	{"released by another client", "P9", companions{"P8": "the holder itself never released, so it stays entitled"},
		inCycle(func(e *edit, h *held) {
			other := strings.Split(h.release.inv.Proc, "/")[0] + "/c9"
			h.release.inv.Proc, h.release.end.Proc = other, other
		})},
	{"release that keeps the holder", "P9", nil, inCycle(func(e *edit, h *held) {
		old := *h.release.inv.To
		e.revise(func(v history.Version) bool { return v == old }, func(v *history.Version) { v.Holder = h.release.inv.Proc })
	})},
}

// checkExplained: a violation has a message, events in order and their place.
func checkExplained(t rapid.TB, r *Result) {
	t.Helper()
	for _, p := range r.Properties {
		for _, v := range p.Violations {
			if v.Message == "" || len(v.Events) == 0 && p.Status == StatusFail || len(v.Events) > property.MaxWindow {
				t.Errorf("%s: %q with %d events", p.ID, v.Message, len(v.Events))
			}
			for i, ref := range v.Events {
				if ref.File == "" || ref.Line == 0 || i > 0 && ref.Event.TS < v.Events[i-1].Event.TS {
					t.Errorf("%s: event %d of %q: %s:%d, ts %d", p.ID, i, v.Message, ref.File, ref.Line, ref.Event.TS)
				}
			}
		}
	}
}

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

// recordMutations take something out of the record or of the run itself: the
// run is then INVALID (P14), and nothing fails.
var recordMutations = []mutation{
	{"invocation and end of a main-line operation lost", "P14", nil, inCycleIf(func(e *edit, h *held) bool {
		if !e.exited(h.call.inv.Proc) {
			return false
		}
		e.dropOp([]pair{h.raise, h.get, h.effect, h.call}[e.draw(4)])
		return true
	})},
	{"operation on a lock row lost", "P14", nil, inCycleIf(func(e *edit, h *held) bool {
		if !e.exited(h.call.inv.Proc) {
			return false
		}
		e.dropOp([]pair{h.acquire, h.release}[e.draw(2)])
		return true
	})},
	{"end of a main-line operation lost", "P14", nil, inCycle(func(e *edit, h *held) {
		e.dropEvent(*[]pair{h.raise, h.get, h.effect, h.call}[e.draw(4)].end)
	})},
	{"raise missing from the ledger", "P14", companions{"P10": "what it made stale was refused for no reason"}, func(e *edit) bool {
		var raises []*history.Event
		for _, n := range e.notes(history.NoteLedger) {
			if n.Ledger().Kind == history.LedgerRaise {
				raises = append(raises, n)
			}
		}
		if len(raises) == 0 {
			return false
		}
		e.dropEvent(*raises[e.draw(len(raises))])
		return true
	}},
	{"end of a process life missing", "P14", nil, func(e *edit) bool {
		ends := append(e.notes(history.NoteExit), e.notes(history.NoteCrash)...)
		if len(ends) == 0 {
			return false
		}
		e.dropEvent(*ends[e.draw(len(ends))])
		return true
	}},
	{"fault without evidence", "P14", nil, func(e *edit) bool {
		for _, n := range e.notes(history.NoteFault) {
			if n.Fault().Action == history.ActionEvidence {
				e.dropEvent(*n)
				return true
			}
		}
		return false
	}},
	{"no expectation", "P14", nil, func(e *edit) bool {
		ns := e.notes(history.NoteExpect)
		if len(ns) == 0 {
			return false
		}
		e.dropEvent(*ns[0])
		return true
	}},
	{"send before the invocation was recorded", "P14", nil, inCycle(func(e *edit, h *held) {
		h.release.end.Sends = []int64{h.release.inv.TS - 1}
	})},
}

// exited says that proc's life ended in order; of one that was killed, numbers
// may be missing at its end.
func (e *edit) exited(proc string) bool {
	return slices.ContainsFunc(e.notes(history.NoteExit), func(n *history.Event) bool { return n.Proc == history.Life(proc) })
}

// dropEvent drops one event.
func (e *edit) dropEvent(gone history.Event) {
	e.drop(func(ev *history.Event) bool { return ev.File == gone.File && ev.Line == gone.Line })
}
