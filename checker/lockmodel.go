package checker

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"

	"fencepost/harness/record/history"
)

// anyVersion is the state of a model that starts in the middle of a history.
var anyVersion *version

// lockStep is a CAS, a rejected CAS or a SERIAL read in the model of a lock
// row, whose state is a version.
type lockStep struct {
	row      *rowLog
	of       *op
	kind     lockKind
	from, to *version // read and reject: from is not used, to is the row seen
	// rows: its condition was not on the row alone; see jobs.rejected.
	rows bool
	// optional: outcome unknown. It is applied if its condition holds and left
	// out otherwise; as it may be placed last, no other case is needed.
	optional bool
}

type lockKind uint8

const (
	kindWrite lockKind = iota
	kindReject
	kindRead
)

func (s *lockStep) apply(state any) (bool, any) {
	if state == closed {
		return s.optional, state
	}
	v := state.(*version)
	switch {
	case s.optional && (s.kind != kindWrite || v != s.from):
		return true, state
	case s.kind == kindWrite:
		return v == s.from || v == anyVersion, s.to
	case s.kind == kindReject && s.to == s.from && !s.rows:
		return false, state // its condition held, and yet it was rejected
	}
	return v == s.to || v == anyVersion, s.to
}

func (s *lockStep) source() *op { return s.of }

func (s *lockStep) observes() bool { return s.kind != kindWrite }

func (s *lockStep) pending() step {
	c := *s
	c.optional = true
	return &c
}

func hashVersion(state any) uint64 {
	if v := state.(*version); v != anyVersion {
		return mix(uint64(v.number) + 1)
	}
	return 0
}

func (s *lockStep) String() string {
	proc := s.of.inv.Proc
	switch s.kind {
	case kindRead:
		return fmt.Sprintf("%s: read %s", proc, s.row.brief(s.to))
	case kindReject:
		return fmt.Sprintf("%s: %s rejected by %s", proc, s.of.inv.Op, s.row.brief(s.to))
	}
	mark := ""
	if s.of.outcome == history.Unknown {
		mark = " ?"
	}
	return fmt.Sprintf("%s: %s %s > %s%s", proc, s.of.inv.Op, s.row.brief(s.from), s.row.brief(s.to), mark)
}

// brief says a version in a few characters.
func (l *rowLog) brief(v *version) string {
	if v == anyVersion {
		return "any"
	}
	if v.Absent {
		return "no row"
	}
	holder := v.Holder
	switch {
	case l.shard:
		holder = short(v.Attempt)
	case holder == "":
		holder = "free"
	}
	return fmt.Sprintf("f%d.b%d %s", v.Fence, v.Beat, holder)
}

// partition makes the partition of a row. What the chain has settled is no longer
// unknown: it took effect before its successor, or never. bounded also ends a
// write that the coordinator itself gave up with that answer.
func (l *rowLog) partition(bounded, clean bool) *partition {
	return &partition{
		name: l.name, any: anyVersion, size: len(l.cas) + len(l.reads), clean: clean, decided: l.whole && !bounded, hash: hashVersion,
		show:     func(s any) string { return l.brief(s.(*version)) },
		segments: rowEncoder{l: l, bounded: bounded, size: segmentOps}.segments,
	}
}

// timeouts counts the writes that the bounded encoding ends earlier than the open one.
func (l *rowLog) timeouts() int {
	n := 0
	for _, w := range l.writes {
		if _, all := w.givenUp(); all && w.ok() == nil && w.possible() && l.fate(w) != never {
			n++
		}
	}
	return n
}

// rowEncoder makes the operations of a row's partition, in the order of the chain.
type rowEncoder struct {
	l       *rowLog
	bounded bool
	size    int // of a segment, in operations
	ops     []porcupine.Operation
	at      []*version // by operation: the row's version at its place
}

// segments are the row's history cut at places of the chain, or as a whole if the chain
// is not whole. See docs/decisions/0012-segments.md.
func (e rowEncoder) segments(yield func(segment) bool) {
	e.encode()
	if !e.l.whole {
		e.size = max(1, len(e.ops))
	}
	ends := firstEnds(e.ops, e.size)
	init := e.l.versions[0]
	for from := 0; from < len(e.ops); from += e.size {
		to := min(from+e.size, len(e.ops))
		ops := append(make([]porcupine.Operation, 0, to-from+1), e.ops[from:to]...)
		byCall(ops)
		if to < len(e.ops) {
			next := ends[to/e.size]
			ops = append(ops, operation(&closing{e.at[to-1], next.Input.(step).source()}, min(ops[0].Call, next.Return), next.Return))
			byCall(ops)
		}
		if !yield(segment{init, ops}) {
			return
		}
		init = e.at[to-1]
	}
}

// firstEnds are, at every size-th operation, of it and those that follow the one that
// ended first.
func firstEnds(ops []porcupine.Operation, size int) []porcupine.Operation {
	out := make([]porcupine.Operation, len(ops)/size+1)
	first := porcupine.Operation{Return: history.Forever}
	for i, o := range slices.Backward(ops) {
		if o.Return < first.Return {
			first = o
		}
		if i%size == 0 {
			out[i/size] = first
		}
	}
	return out
}

func (e *rowEncoder) encode() {
	most := len(e.l.cas) + len(e.l.reads)
	e.ops, e.at = make([]porcupine.Operation, 0, most), make([]*version, 0, most)
	absent := e.l.versions[0]
	for _, v := range e.l.versions {
		if v.place == notInChain {
			e.encodeOthers(v, absent) // wherever: nothing explains what is about it
		}
	}
	e.encodeOthers(absent, absent)
	for _, w := range e.l.chain {
		e.encodeWrite(w, w.to)
		if w.to.place == int32(w.pos) {
			e.encodeOthers(w.to, w.to)
		}
	}
}

// encodeOthers adds what is about a version beside the chain's write that sets it: the
// answers that showed it, and what names it and is not in the chain.
func (e *rowEncoder) encodeOthers(v, at *version) {
	for _, w := range v.usedBy {
		if w.pos < 0 {
			e.encodeWrite(w, at)
		}
	}
	for _, o := range v.shown {
		s := &lockStep{row: e.l, of: o.op, kind: kindRead, to: v}
		if o.cas != nil {
			s.kind, s.from, s.rows = kindReject, o.cas.from, o.cas.enqueues()
		}
		e.add(s, o.inv.TS, o.end.TS, at)
	}
}

func (e *rowEncoder) encodeWrite(w *write, at *version) {
	fate, ok := e.l.fate(w), w.ok()
	if !w.possible() || fate == never && ok == nil {
		return
	}
	s := &lockStep{row: e.l, of: &w.main().op, from: w.from, to: w.to, optional: fate == open && ok == nil}
	ret := w.ret()
	if ok == nil {
		if fate == applied {
			ret = w.by
		}
		if until, all := w.givenUp(); all && e.bounded {
			ret = min(ret, until)
		}
	}
	e.add(s, w.call(), ret, at)
	// Each further acknowledgement is a write of its own, and cannot be placed.
	first := true
	for _, c := range w.ops {
		if c.outcome != history.OK {
			continue
		}
		if !first {
			e.add(&lockStep{row: e.l, of: &c.op, from: s.from, to: s.to}, c.inv.TS, c.end.TS, at)
		}
		first = false
	}
}

func (e *rowEncoder) add(s *lockStep, call, ret int64, at *version) {
	e.ops, e.at = append(e.ops, operation(s, call, ret)), append(e.at, at)
}

// givenUp says whether every unknown member was ended by its coordinator's own
// timeout, and when the last was.
func (w *write) givenUp() (until int64, all bool) {
	all = true
	for _, c := range w.ops {
		if c.outcome != history.Unknown {
			continue
		}
		if c.end == nil || !c.end.ServerTimeout {
			return 0, false
		}
		until = max(until, c.end.TS)
	}
	return until, all
}
