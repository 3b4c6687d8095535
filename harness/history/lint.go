package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Remark is something that a well-formed history lacks or has wrong, which a check of the
// run would hold against it.
type Remark struct {
	File string
	Line int // 0: of the file as a whole
	Text string
	// More of the same kind in this file.
	More int
}

func (r Remark) String() string {
	at := r.File
	if r.Line > 0 {
		at = fmt.Sprintf("%s:%d", r.File, r.Line)
	}
	if r.More > 0 {
		return fmt.Sprintf("%s: %s (and %d more)", at, r.Text, r.More)
	}
	return fmt.Sprintf("%s: %s", at, r.Text)
}

// Lint looks for what authors of writers get wrong, in each file of h. It needs neither a
// whole run nor a seal; what the reader refuses never gets here.
func Lint(h *History) []Remark {
	files := map[string]*lint{}
	for _, head := range h.Headers {
		files[head.Proc] = &lint{head: head, seen: map[string]int{}, ends: map[int64]bool{}, attempts: map[string]*Event{}, effects: map[string]int{}}
	}
	for i := range h.Events {
		if f := files[Life(h.Events[i].Proc)]; f != nil {
			f.event(&h.Events[i])
		}
	}
	var out []Remark
	for _, proc := range slices.Sorted(maps.Keys(files)) {
		out = append(out, files[proc].end()...)
	}
	return out
}

// lint is one life's.
type lint struct {
	head    Header
	file    string
	remarks []Remark
	seen    map[string]int // kind of remark -> its place in remarks

	invokes  []*Event
	ends     map[int64]bool
	exited   bool // or crashed
	crashed  bool
	attempts map[string]*Event // by what set it first
	effects  map[string]int    // effect key -> line
	released bool
}

// kinds of remarks are their formats: one of each is shown with a line.
func (l *lint) add(e *Event, format string, args ...any) {
	if at, again := l.seen[format]; again {
		l.remarks[at].More++
		return
	}
	l.seen[format] = len(l.remarks)
	r := Remark{File: l.file, Text: fmt.Sprintf(format, args...)}
	if e != nil {
		r.Line = e.Line
	}
	l.remarks = append(l.remarks, r)
}

// longest is longer than any run.
const longest = 7 * 24 * time.Hour

func (l *lint) event(e *Event) {
	if e.Type == Note && (e.Op == NoteCrash || e.Op == NoteClock) { // the harness's, about the life
		l.exited = l.exited || e.Op == NoteCrash
		l.crashed = l.crashed || e.Op == NoteCrash
		return
	}
	l.file = e.File
	if d := e.TS - l.head.TS; l.head.TS > 0 && (d < 0 || d > int64(longest)) {
		l.add(e, "ts %d is not within a week after the header's %d: times are ns on CLOCK_MONOTONIC, not on a wall clock", e.TS, l.head.TS)
	}
	switch e.Type {
	case Invoke:
		l.invoke(e)
	case Note:
		l.note(e)
	default:
		l.result(e)
	}
}

func (l *lint) invoke(e *Event) {
	l.invokes = append(l.invokes, e)
	if e.Proc == l.head.Proc && e.Proc != Harness {
		l.add(e, "proc %q is no client of the life: %s/c1", e.Proc, l.head.Proc)
	}
	switch e.Op {
	case OpAcquire, OpRelease:
		// The very same change may be asked for again, after an outcome that is not known.
		if at := l.attempts[e.To.Attempt]; at == nil {
			l.attempts[e.To.Attempt] = e
		} else if *at.From != *e.From || *at.To != *e.To {
			l.add(e, "%s sets attempt %q, which line %d sets already: each acquire and release has a fresh one", e.Op, e.To.Attempt, at.Line)
		}
		if e.Op == OpAcquire && (e.To.Holder != e.Proc || e.To.TTLMS <= 0) {
			l.add(e, "acquire sets holder %q and ttl_ms %d: the holder is the proc, %s, and the ttl is positive", e.To.Holder, e.To.TTLMS, e.Proc)
		}
	case OpEffect:
		if at := l.effects[e.EffectKey]; at != 0 {
			l.add(e, "effect_key %q is that of line %d: each grant's is its own, and copies of one request are one operation", e.EffectKey, at)
		}
		l.effects[e.EffectKey] = e.Line
		l.decided(e)
	}
}

func (l *lint) decided(e *Event) {
	if e.DecidedAt > e.TS {
		l.add(e, "%s was decided at %d, after it was recorded", e.Op, e.DecidedAt)
	}
}

func (l *lint) note(e *Event) {
	switch e.Op {
	case NoteStart:
		l.decided(e)
	case NoteExit:
		l.exited = true
	}
}

func (l *lint) result(e *Event) {
	l.ends[e.ID] = true
	switch {
	case e.Op == OpRelease && e.Type == OK:
		l.released = true
	case (e.Op == OpAcquire || e.Op == OpRenew) && e.Type == OK && len(e.Sends) == 0:
		l.add(e, "%s is ok without sends: its lease is then counted from the invoke, which is earlier", e.Op)
	case (e.Op == OpRaise || e.Op == OpEffect) && e.Type == OK && e.Seq == 0:
		l.add(e, "%s is ok without the seq that the sink answered", e.Op)
	}
}

// end looks at what only the whole file shows.
func (l *lint) end() []Remark {
	if l.head.Proc == Harness {
		return l.remarks
	}
	l.file = cmp.Or(l.file, l.head.Proc)
	if len(l.invokes) == 0 {
		l.add(nil, "no operation: a worker that records none makes the run INVALID")
		return l.remarks
	}
	slices.SortStableFunc(l.invokes, func(a, b *Event) int { return cmp.Compare(a.ID, b.ID) })
	last, open := int64(0), 0
	for _, e := range l.invokes {
		if e.ID != last+1 && !l.crashed { // one that is killed may have drawn an id and no more
			l.add(e, "id %d follows id %d: ids are 1, 2, 3 … over all clients of a life; a gap is a lost event", e.ID, last)
		}
		last = e.ID
		if l.exited && !l.crashed && !l.ends[e.ID] {
			if open++; open == 1 {
				l.add(e, "%s (id %d) has no end, and the life ended in order: an operation ends with ok, fail or unknown", e.Op, e.ID)
			}
		}
	}
	if !l.exited {
		l.add(nil, "no exit note: unless the harness killed the life, the record may have been cut off")
	}
	if !l.released {
		l.add(nil, "no release is ok: no cycle was completed")
	}
	return l.remarks
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
