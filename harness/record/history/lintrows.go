package history

import "slices"

// vanishing remarks rows that go away: a release that deletes its row, or a lock that is
// taken from no row after it had one. All absent rows are equal, so that the chain of
// versions, by which P2 and what rests on it are judged, ends there.
func vanishing(h *History, lives map[string]*lint) {
	promised := slices.ContainsFunc(h.Headers, func(head Header) bool { return len(head.Promises) == 0 || slices.Contains(head.Promises, "P2") })
	if !promised {
		return
	}
	first := map[string]*Event{} // by lock, the acquire that was answered first
	type call struct {
		life string
		id   int64
	}
	asked := map[call]*Event{}
	for i := range h.Events {
		e := &h.Events[i]
		l, at := lives[Life(e.Proc)], call{Life(e.Proc), e.ID}
		switch {
		case l == nil || e.Type == Note:
		case e.Op == OpRelease && e.Type == Invoke && e.To.Absent:
			l.add(Wrong, []*Event{e}, "release of %s deletes its row"+keepRow, e.Key)
		case e.Op == OpAcquire && e.Type == Invoke:
			asked[at] = e
		case e.Op == OpAcquire && e.Type == OK && asked[at] != nil:
			inv := asked[at]
			switch was := first[e.Key]; {
			case was == nil:
				first[e.Key] = e
			case inv.From.Absent && was.TS < inv.TS:
				l.add(Wrong, []*Event{inv, was}, "acquire of %s finds no row, though it had one: rows expire or are deleted"+keepRow, e.Key)
			}
		}
	}
}

const keepRow = ", so that no chain of its versions can be judged: keep the row and empty its holder, or do not promise P2, P6, P9 and P11 (docs/own-system.md, Rows that vanish)"
