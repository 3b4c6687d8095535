package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// lint is one life's record as it is gone through.
type lint struct {
	head    Header
	file    string
	remarks []Remark
	seen    map[string]int // format of a remark -> its place in remarks
	doubt   bool

	invokes []*Event
	clients map[string]bool
	open    map[int64]*Event  // operations without an end so far
	line    map[string]*Event // by client, the last operation of its main line
	acquire map[string]*Event // by client, its last acquire
	crossed []crossing
	granted []crossing // acquires without an end whose lock call was answered

	exited, crashed     bool
	last                int64 // TS of its last event
	jobs                bool
	released, completed int
	attempts, effects   map[string]*Event // by attempt or key, what set it first
}

// crossing is an operation that had no end when the client went on to the next.
type crossing struct{ before, next *Event }

func newLint(head Header) *lint {
	return &lint{
		head: head, seen: map[string]int{}, clients: map[string]bool{}, open: map[int64]*Event{}, line: map[string]*Event{},
		acquire: map[string]*Event{}, attempts: map[string]*Event{}, effects: map[string]*Event{},
	}
}

// name is what the file is called in remarks.
func (l *lint) name() string { return cmp.Or(l.file, l.head.Proc) }

// add remarks something, shown by the first of its events: one of each format, the others
// are counted.
func (l *lint) add(kind RemarkKind, events []*Event, format string, args ...any) {
	if at, again := l.seen[format]; again {
		l.remarks[at].More++
		return
	}
	l.seen[format] = len(l.remarks)
	r := Remark{Kind: kind, Life: l.head.Proc, File: l.name(), Text: fmt.Sprintf(format, args...), Events: events}
	if len(events) > 0 {
		r.Line = events[0].Line
	}
	l.remarks = append(l.remarks, r)
}

// longest is longer than any run.
const longest = 7 * 24 * time.Hour

func (l *lint) event(e *Event) {
	if e.Op == NoteCrash || e.Op == NoteClock { // the harness's, about the life
		l.crashed = l.crashed || e.Op == NoteCrash
		return
	}
	l.file, l.last = e.File, max(l.last, e.TS)
	if d := e.TS - l.head.TS; l.head.TS > 0 && (d < 0 || d > int64(longest)) {
		l.add(Wrong, []*Event{e},
			"ts %d is not within a week after the header's %d: times are ns on CLOCK_MONOTONIC, not on a wall clock", e.TS, l.head.TS)
	}
	if e.DecidedAt > e.TS {
		l.add(Wrong, []*Event{e}, "%s was decided at %d, after it was recorded", e.Op, e.DecidedAt)
	}
	switch {
	case e.Type == Invoke:
		l.invoke(e)
	case e.Type != Note:
		l.result(e)
	case e.Op == NoteExit:
		l.exited = true
	case e.Op == NoteStart:
		l.jobs = l.jobs || e.Issuer != ""
	}
}

func (l *lint) invoke(e *Event) {
	l.invokes = append(l.invokes, e)
	l.open[e.ID] = e
	l.jobs = l.jobs || e.Op == OpEnqueue || e.Op == OpTake
	if l.head.Proc == Harness {
		return // it seals many resources at once
	}
	l.clients[e.Proc] = true
	if e.Proc == l.head.Proc {
		l.add(Wrong, []*Event{e}, "proc %q is no client of the life: %s/c1", e.Proc, l.head.Proc)
	}
	if formOf[e.Op].main {
		if p := l.line[e.Proc]; p != nil && l.open[p.ID] == p {
			l.crossed = append(l.crossed, crossing{p, e})
		}
		l.line[e.Proc] = e
	}
	switch e.Op {
	case OpAcquire:
		l.acquire[e.Proc] = e
		l.fresh(e)
		if e.To.Holder != e.Proc || e.To.TTLMS <= 0 {
			l.add(Wrong, []*Event{e},
				"acquire sets holder %q and ttl_ms %d: the holder is the proc, %s, and the ttl is positive", e.To.Holder, e.To.TTLMS, e.Proc)
		}
	case OpRelease:
		if !e.To.Absent { // see vanishing
			l.fresh(e)
		}
	case OpEffect:
		if at := l.effects[e.EffectKey]; at == nil {
			l.effects[e.EffectKey] = e
		} else if !l.jobs && !l.repeats() { // runs of a job share their keys
			l.add(Wrong, []*Event{e, at},
				"effect_key %q is that of line %d: each grant's is its own, and copies of one request are one operation",
				e.EffectKey, at.Line)
		}
	}
}

// repeats: the system hands out jobs rather than locks, by what it promises: neither deadlines nor
// exclusion, so that it may run a job again.
func (l *lint) repeats() bool {
	p := l.head.Promises
	return len(p) > 0 && !slices.Contains(p, "P7") && !slices.Contains(p, "P8")
}

// fresh: acquires and releases set attempts that nothing has set before. The very same
// change may be asked for again, after an outcome that is not known.
func (l *lint) fresh(e *Event) {
	at := l.attempts[e.To.Attempt]
	if at == nil {
		l.attempts[e.To.Attempt] = e
	} else if !l.jobs && (*at.From != *e.From || *at.To != *e.To) { // a job's lock has its token there
		l.add(Wrong, []*Event{e, at},
			"%s sets attempt %q, which line %d sets already: each acquire and release has a fresh one", e.Op, e.To.Attempt, at.Line)
	}
}

func (l *lint) result(e *Event) {
	inv := l.open[e.ID]
	if inv == nil {
		return
	}
	delete(l.open, e.ID)
	at := inv.TS
	for _, s := range e.Sends {
		if s < at || s > e.TS {
			l.add(Late, []*Event{inv, e},
				"%s by %s, id %d, has a send outside of its recorded interval: invocations must be recorded before the request leaves",
				e.Op, e.Proc, e.ID)
			break
		}
		at = s
	}
	if e.Type != OK {
		return
	}
	switch e.Op {
	case OpRelease:
		l.released++
	case OpLock:
		if a := l.acquire[e.Proc]; a != nil && a.Key == e.Key && a.TS >= inv.TS && l.open[a.ID] == a {
			l.granted = append(l.granted, crossing{a, e})
		}
	case OpAcquire, OpRenew, OpTake, OpTick:
		if len(e.Sends) == 0 {
			l.add(Wrong, []*Event{e}, "%s is ok without sends: its lease is then counted from the invoke, which is earlier", e.Op)
		}
	case OpRaise, OpEffect:
		if e.Seq == 0 && e.Result == "applied" {
			l.add(Wrong, []*Event{e}, "%s was applied without the seq that the sink answered", e.Op)
		}
	}
	if slices.ContainsFunc(inv.Changes(), func(c Change) bool { return c.Do == DoComplete }) {
		l.completed++
	}
}
