package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// graceAtDeath: a killed process may have drawn an id without having recorded
// the invocation; it then died at once, by the measure of this time.
const graceAtDeath = int64(100 * time.Millisecond)

// end looks at what only the whole file shows.
func (l *lint) end() {
	if len(l.invokes) == 0 {
		return
	}
	l.ids()
	l.ends()
	if !l.exited && !l.crashed && l.head.Proc != Harness {
		l.add(Lost, nil, "the record of %s has lost events: it ends neither with an exit note nor with the harness's crash note, so it may have been cut off", l.head.Proc)
	}
}

// ids: a recorder numbers its operations 1, 2, 3 …, so a missing number is a lost
// invocation.
func (l *lint) ids() {
	byID := slices.Clone(l.invokes)
	slices.SortStableFunc(byID, func(a, b *Event) int { return cmp.Compare(a.ID, b.ID) })
	missing, excused := 0, 0
	var at []*Event // around the first
	prev := &Event{}
	for _, e := range byID {
		switch n := int(e.ID - prev.ID - 1); {
		case n < 0:
			l.add(Lost, []*Event{e, prev}, "the record of %s has lost events: id %d is used twice", l.head.Proc, e.ID)
		case n > 0 && !l.exited && e.TS >= l.last-graceAtDeath && excused+n <= 2*len(l.clients):
			excused += n
		case n > 0:
			if missing == 0 {
				at = []*Event{e}
				if prev.ID > 0 {
					at = append(at, prev)
				}
			}
			missing += n
		}
		prev = e
	}
	l.doubt = excused > 0
	if missing > 0 {
		l.add(Lost, at, "the record of %s has lost events: %s missing among %d operations, the first before id %d: ids are 1, 2, 3 … over all clients of a life", l.head.Proc, idsAre(missing), len(byID), at[0].ID)
	}
}

func idsAre(n int) string {
	if n == 1 {
		return "1 id is"
	}
	return fmt.Sprintf("%d ids are", n)
}

// ends: a client records an end for each operation, if only an unknown one, unless its
// process is killed. Its main line does one thing after the other; beside it renewals, and what is
// left of acquires and releases that were given up, may still be under way.
func (l *lint) ends() {
	for _, c := range l.crossed {
		if l.open[c.before.ID] == nil {
			l.add(Wrong, []*Event{c.before, c.next}, "%s (id %d) of %s had not ended when it began %s (id %d): a client does one thing after the other", c.before.Op, c.before.ID, c.before.Proc, c.next.Op, c.next.ID)
			continue
		}
		l.add(Lost, []*Event{c.before, c.next}, "the record of %s has lost events: %s (id %d) is without an end although its client went on", l.head.Proc, c.before.Op, c.before.ID)
		delete(l.open, c.before.ID)
	}
	for _, c := range l.granted {
		if l.open[c.before.ID] != nil {
			l.add(Lost, []*Event{c.before, c.next}, "the record of %s has lost events: an acquire of %s (id %d) has no end although its lock call was answered", l.head.Proc, c.before.Key, c.before.ID)
			delete(l.open, c.before.ID)
		}
	}
	if !l.exited || l.crashed {
		return
	}
	for _, e := range l.invokes {
		if l.open[e.ID] == e {
			l.add(Lost, []*Event{e}, "the record of %s has lost events: %s (id %d) has no end, and the life ended in order: an operation ends with ok, fail or unknown", l.head.Proc, e.Op, e.ID)
		}
	}
}
