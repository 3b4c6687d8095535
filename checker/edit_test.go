package checker

import (
	"slices"
	"sort"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// edit changes a legal history. Finders return nil or nothing if the history
// has no such event; the mutation then does not apply to it.
type edit struct {
	h   *history.History
	ops []pair
	// draw picks one of n places.
	draw func(n int) int
}

// pair is an operation's events; end is nil without one.
type pair struct{ inv, end *history.Event }

func newEdit(h *history.History) *edit {
	e := &edit{h: h, draw: func(n int) int { return n / 2 }}
	e.index()
	return e
}

// index joins the events again, after a change of their number or order.
func (e *edit) index() {
	sort.SliceStable(e.h.Events, func(i, j int) bool { return e.h.Events[i].TS < e.h.Events[j].TS })
	e.ops = nil
	type ref struct {
		Life string
		Id   int64
	}
	at := map[ref]int{}
	for i := range e.h.Events {
		ev := &e.h.Events[i]
		k := ref{Life: history.Life(ev.Proc), Id: ev.ID}
		switch ev.Type {
		case history.Invoke:
			at[k] = len(e.ops)
			e.ops = append(e.ops, pair{inv: ev})
		case history.OK, history.Fail, history.Unknown:
			e.ops[at[k]].end = ev
		}
	}
}

// all returns the operations of a kind with an outcome, in order of invocation.
func (e *edit) all(op history.Op, outcome history.Type) []pair {
	var out []pair
	for _, p := range e.ops {
		if p.inv.Op == op && p.end != nil && p.end.Type == outcome {
			out = append(out, p)
		}
	}
	return out
}

// some is all from a drawn place on, the ones before it last.
func (e *edit) some(op history.Op, outcome history.Type) []pair {
	ps := e.all(op, outcome)
	if len(ps) == 0 {
		return nil
	}
	i := e.draw(len(ps))
	return append(slices.Clone(ps[i:]), ps[:i]...)
}

func (e *edit) notes(op history.Op) []*history.Event {
	var out []*history.Event
	for i := range e.h.Events {
		if ev := &e.h.Events[i]; ev.Type == history.Note && ev.Op == op {
			out = append(out, ev)
		}
	}
	return out
}

// drop removes the events for which gone is true.
func (e *edit) drop(gone func(*history.Event) bool) {
	e.h.Events = slices.DeleteFunc(e.h.Events, func(ev history.Event) bool { return gone(&ev) })
	e.index()
}

func (e *edit) dropOp(p pair) {
	inv := *p.inv
	e.drop(func(ev *history.Event) bool {
		return ev.ID == inv.ID && ev.ID != 0 && history.Life(ev.Proc) == history.Life(inv.Proc)
	})
}

func (e *edit) insert(evs ...history.Event) {
	e.h.Events = append(e.h.Events, evs...)
	e.index()
}

// nextID is an id that proc's life has not used and that leaves no gap.
func (e *edit) nextID(proc string) int64 {
	n := int64(0)
	for _, p := range e.ops {
		if history.Life(p.inv.Proc) == history.Life(proc) {
			n = max(n, p.inv.ID)
		}
	}
	return n + 1
}

// grant is an acknowledged acquire with what its holder did under it.
type held struct {
	acquire, release, raise, get, effect, call pair
	start                                      *history.Event
}

// cycles returns the complete, undisturbed cycles: all was applied and released.
func (e *edit) cycles() []held {
	var out []held
	for _, a := range e.all(history.OpAcquire, history.OK) {
		h := held{acquire: a}
		proc, token, lock := a.inv.Proc, a.inv.To.Fence, a.inv.Key
		for _, p := range e.ops {
			if p.inv.Proc != proc || p.end == nil || p.end.Type != history.OK {
				continue
			}
			switch {
			case p.inv.Op == history.OpLock && p.inv.Key == lock && p.end.Token == token:
				h.call = p
			case p.inv.Op == history.OpRaise && p.inv.Issuer == lock && p.inv.Token == token:
				h.raise = p
			case p.inv.Op == history.OpEffect && p.inv.Issuer == lock && p.inv.Token == token:
				h.effect = p
			case p.inv.Op == history.OpRelease && p.inv.Key == lock && p.inv.From.Fence == token:
				h.release = p
			case p.inv.Op == history.OpGet && h.raise.inv != nil && h.get.inv == nil && p.inv.TS > h.raise.end.TS:
				h.get = p
			}
		}
		for _, n := range e.notes(history.NoteStart) {
			if n.Proc == proc && n.Key == lock && n.Token == token {
				h.start = n
			}
		}
		if h.call.inv != nil && h.raise.inv != nil && h.get.inv != nil && h.effect.inv != nil && h.release.inv != nil && h.start != nil &&
			h.effect.end.Result == past.ResultApplied && len(h.acquire.end.Sends) == 1 && len(h.release.end.Sends) == 1 {
			out = append(out, h)
		}
	}
	return out
}

// middle picks a cycle away from the ends of the run, so that it has neighbours.
func (e *edit) middle() *held {
	cs := e.cycles()
	if len(cs) < 8 {
		return nil
	}
	return &cs[len(cs)/4+e.draw(len(cs)/2)]
}

// inCycle changes a history in the middle.
func inCycle(change func(*edit, *held)) func(*edit) bool {
	return inCycleIf(func(e *edit, h *held) bool { change(e, h); return true })
}

// inCycleIf is inCycle with a change that may find nothing to change.
func inCycleIf(change func(*edit, *held) bool) func(*edit) bool {
	return func(e *edit) bool {
		h := e.middle()
		return h != nil && change(e, h)
	}
}

// first changes the first operation that fits, from a drawn one on; nil fits all.
func first(op history.Op, outcome history.Type, fits func(*edit, pair) bool, change func(*edit, pair)) func(*edit) bool {
	return firstIf(op, outcome, func(e *edit, p pair) bool {
		if fits != nil && !fits(e, p) {
			return false
		}
		change(e, p)
		return true
	})
}

// firstIf is first with a change that may find nothing to change.
func firstIf(op history.Op, outcome history.Type, change func(*edit, pair) bool) func(*edit) bool {
	return func(e *edit) bool {
		return slices.ContainsFunc(e.some(op, outcome), func(p pair) bool { return change(e, p) })
	}
}

// stale fits what the sink refused for its token.
func stale(_ *edit, p pair) bool { return p.end.Result == past.ResultStale }

// revise changes every showing of the row's versions that fit.
func (e *edit) revise(fits func(history.Version) bool, change func(*history.Version)) {
	for i := range e.h.Events {
		ev := &e.h.Events[i]
		for _, v := range []**history.Version{&ev.From, &ev.To, &ev.Row} {
			if *v != nil && fits(**v) {
				other := **v
				change(&other)
				*v = &other
			}
		}
	}
}

// ledger returns the ledger notes of a resource in order.
func (e *edit) ledger(res string) []*history.Event {
	var out []*history.Event
	for _, n := range e.notes(history.NoteLedger) {
		if n.Key == res {
			l := *n.Ledger() // the simulation's own stays as it is
			n.OwnDetails().Ledger = &l
			out = append(out, n)
		}
	}
	return out
}

// final is the harness's last read of a resource.
func (e *edit) final(res string) *history.Event {
	var last *history.Event
	for _, p := range e.all(history.OpGet, history.OK) {
		if p.inv.Proc == history.Harness && p.inv.Key == res {
			last = p.end
		}
	}
	return last
}

func (e *edit) accept(h *held) *history.Event {
	for _, n := range e.ledger(h.effect.inv.Key) {
		if n.Ledger().EffectKey == h.effect.inv.EffectKey {
			return n
		}
	}
	return nil
}

// shift moves an operation in time.
func shift(p pair, by int64) {
	p.inv.TS += by
	p.end.TS += by
	p.end.Sends = slices.Clone(p.end.Sends)
	for i := range p.end.Sends {
		p.end.Sends[i] += by
	}
}

func ptr[T any](v T) *T { return &v }
