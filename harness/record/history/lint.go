package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Remark is something that a well-formed history lacks or has wrong. A run with one is
// INVALID (P14): it cannot be told what it shows.
type Remark struct {
	Kind RemarkKind
	Life string // whose record it is about; "": the run's
	File string
	Line int // 0: of the file as a whole
	Text string
	More int // of the same kind in this file
	// Events show the first of them.
	Events []*Event
}

// RemarkKind says what follows from a remark.
type RemarkKind int

// Kinds of remarks.
const (
	Wrong RemarkKind = iota // the writer is at fault: what it says means something else than it takes it to mean
	Lost                    // the record lacks events: what they would explain cannot be held against anybody
	Late                    // a call was recorded after its request had left: no order in time can be relied on
)

func (r Remark) String() string {
	at := r.File
	if r.Line > 0 {
		at = fmt.Sprintf("%s:%d", r.File, r.Line)
	}
	return fmt.Sprintf("%s: %s", at, r.Message())
}

// Message is the remark without its place.
func (r Remark) Message() string {
	if r.More > 0 {
		return fmt.Sprintf("%s (and %d more)", r.Text, r.More)
	}
	return r.Text
}

// Findings are what Lint finds.
type Findings struct {
	Remarks []Remark
	// Doubt: numbers are missing that the death of their process explains: it may have
	// drawn them without having recorded anything.
	Doubt bool
}

// Lint holds each file of h against the rules for writers, as far as a file by itself can
// break them: the very rules of P14, which demands in addition what only a whole run has.
// What the reader refuses never gets here.
func Lint(h *History) Findings {
	lives := map[string]*lint{}
	for _, head := range h.Headers {
		lives[head.Proc] = newLint(head)
	}
	for i := range h.Events {
		e := &h.Events[i]
		if l := lives[Life(e.Proc)]; l != nil {
			l.event(e)
		}
	}
	vanishing(h, lives)
	var out Findings
	idle := map[string]*lint{} // of workers that have recorded nothing in any life
	var busy []string
	operations, jobs, released, completed := 0, false, 0, 0
	for _, name := range slices.Sorted(maps.Keys(lives)) {
		l := lives[name]
		l.end()
		out.Remarks, out.Doubt = append(out.Remarks, l.remarks...), out.Doubt || l.doubt
		if idle[Worker(name)] = l; len(l.invokes) > 0 || name == Harness {
			busy = append(busy, Worker(name))
		}
		operations, jobs, released, completed = operations+len(l.invokes), jobs || l.jobs, released+l.released, completed+l.completed
	}
	for _, w := range busy {
		delete(idle, w)
	}
	for _, w := range slices.Sorted(maps.Keys(idle)) {
		out.Remarks = append(out.Remarks, Remark{Life: idle[w].head.Proc, File: idle[w].name(), Text: fmt.Sprintf(
			"worker %s has recorded no operation", w)})
	}
	switch {
	case jobs && completed == 0:
		out.Remarks = append(out.Remarks, Remark{File: "the run", Text: fmt.Sprintf("no job was completed (%d operations)", operations)})
	case !jobs && released == 0:
		out.Remarks = append(out.Remarks, Remark{File: "the run", Text: fmt.Sprintf(
			"no lock cycle was completed: no release is ok (%d operations)", operations)})
	}
	return out
}

// Tally counts a life's operations by kind and outcome, in words.
func Tally(h *History, proc string) string {
	ops := map[Op]map[Type]int{}
	for _, o := range h.Operations() {
		if Life(o.Invoke.Proc) != proc {
			continue
		}
		if ops[o.Invoke.Op] == nil {
			ops[o.Invoke.Op] = map[Type]int{}
		}
		ops[o.Invoke.Op][o.Outcome]++
	}
	var words []string
	for _, op := range slices.Sorted(maps.Keys(ops)) {
		var of []string
		for _, t := range []Type{OK, Fail, Unknown} {
			if n := ops[op][t]; n > 0 {
				of = append(of, fmt.Sprintf("%d %s", n, t))
			}
		}
		words = append(words, fmt.Sprintf("%s %s", op, strings.Join(of, " + ")))
	}
	return strings.Join(words, ", ")
}

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
		l.add(Lost, nil,
			"the record of %s has lost events: it ends neither with an exit note nor with the harness's crash note, so it may "+
				"have been cut off", l.head.Proc)
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
		l.add(Lost, at,
			"the record of %s has lost events: %s missing among %d operations, the first before id %d: ids are 1, 2, 3 … over "+
				"all clients of a life", l.head.Proc, idsAre(missing), len(byID), at[0].ID)
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
			l.add(Wrong, []*Event{c.before, c.next},
				"%s (id %d) of %s had not ended when it began %s (id %d): a client does one thing after the other",
				c.before.Op, c.before.ID, c.before.Proc, c.next.Op, c.next.ID)
			continue
		}
		l.add(Lost, []*Event{c.before, c.next},
			"the record of %s has lost events: %s (id %d) is without an end although its client went on",
			l.head.Proc, c.before.Op, c.before.ID)
		delete(l.open, c.before.ID)
	}
	for _, c := range l.granted {
		if l.open[c.before.ID] != nil {
			l.add(Lost, []*Event{c.before, c.next},
				"the record of %s has lost events: an acquire of %s (id %d) has no end although its lock call was answered",
				l.head.Proc, c.before.Key, c.before.ID)
			delete(l.open, c.before.ID)
		}
	}
	if !l.exited || l.crashed {
		return
	}
	for _, e := range l.invokes {
		if l.open[e.ID] == e {
			l.add(Lost, []*Event{e},
				"the record of %s has lost events: %s (id %d) has no end, and the life ended in order: an operation ends with ok, "+
					"fail or unknown", l.head.Proc, e.Op, e.ID)
		}
	}
}

// vanishing remarks rows that go away: a release that deletes its row, or a lock that is
// taken from no row after it had one. All absent rows are equal, so that the chain of
// versions, by which P2 and what rests on it are judged, ends there.
func vanishing(h *History, lives map[string]*lint) {
	promises := func(head Header) bool { return len(head.Promises) == 0 || slices.Contains(head.Promises, "P2") }
	if !slices.ContainsFunc(h.Headers, promises) {
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

const keepRow = ", so that no chain of its versions can be judged: keep the row and empty its holder, " +
	"or do not promise P2, P6, P9 and P11 (docs/own-system.md, Rows that vanish)"
