package checker

import (
	"slices"

	"fencepost/harness/record/history"
)

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
