package linear

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// anyVersion is the state of a model that starts in the middle of a history.
var anyVersion *past.Version

// lockStep is a CAS, a rejected CAS or a SERIAL read in the model of a lock
// row, whose state is a version.
type lockStep struct {
	row      *past.Row
	of       *past.Op
	kind     lockKind
	from, to *past.Version // read and reject: from is not used, to is the row seen
	// rows: its condition was not on the row alone; see [past.CAS.Enqueues].
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
	v := state.(*past.Version)
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

func (s *lockStep) source() *past.Op { return s.of }

func (s *lockStep) observes() bool { return s.kind != kindWrite }

func (s *lockStep) pending() step {
	c := *s
	c.optional = true
	return &c
}

func hashVersion(state any) uint64 {
	if v := state.(*past.Version); v != anyVersion {
		return hashInt(uint64(v.Number) + 1)
	}
	return 0
}

func (s *lockStep) String() string {
	proc := s.of.Invoke.Proc
	switch s.kind {
	case kindRead:
		return fmt.Sprintf("%s: read %s", proc, shortVersion(s.row, s.to))
	case kindReject:
		return fmt.Sprintf("%s: %s rejected by %s", proc, s.of.Invoke.Op, shortVersion(s.row, s.to))
	}
	mark := ""
	if s.of.Outcome == history.Unknown {
		mark = " ?"
	}
	return fmt.Sprintf("%s: %s %s > %s%s", proc, s.of.Invoke.Op, shortVersion(s.row, s.from), shortVersion(s.row, s.to), mark)
}

// shortVersion says a version in a few characters.
func shortVersion(l *past.Row, v *past.Version) string {
	if v == anyVersion {
		return "any"
	}
	if v.Absent {
		return "no row"
	}
	holder := v.Holder
	switch {
	case l.Shard:
		holder = past.ShortID(v.Attempt)
	case holder == "":
		holder = "free"
	}
	return fmt.Sprintf("f%d.b%d %s", v.Fence, v.Beat, holder)
}

// OfRow makes the partition of a row. What the chain has settled is no longer
// unknown: it took effect before its successor, or never. bounded also ends a
// write that the coordinator itself gave up with that answer.
func OfRow(l *past.Row, bounded, clean bool) *Partition {
	return &Partition{
		Name: l.Name, any: anyVersion, Size: len(l.CAS) + len(l.Reads), clean: clean, Decided: l.Complete && !bounded, hash: hashVersion,
		show:     func(s any) string { return shortVersion(l, s.(*past.Version)) },
		Segments: RowEncoder{Row: l, Bounded: bounded, Size: SegmentOps}.Segments,
	}
}

// Timeouts counts the writes that the bounded encoding ends earlier than the open one.
func Timeouts(l *past.Row) int {
	n := 0
	for _, w := range l.Writes {
		if _, all := timedOut(w); all && w.OK() == nil && w.Possible() && l.Fate(w) != past.Never {
			n++
		}
	}
	return n
}

// RowEncoder makes the operations of a row's partition, in the order of the chain.
type RowEncoder struct {
	Row     *past.Row
	Bounded bool
	Size    int // of a segment, in operations
	ops     []porcupine.Operation
	at      []*past.Version // by operation: the row's version at its place
}

// Segments are the row's history cut at places of the chain, or as a whole if the chain
// is not whole. See docs/decisions/0012-segments.md.
func (e RowEncoder) Segments(yield func(segment) bool) {
	e.encode()
	if !e.Row.Complete {
		e.Size = max(1, len(e.ops))
	}
	ends := firstEnds(e.ops, e.Size)
	init := e.Row.Versions[0]
	for from := 0; from < len(e.ops); from += e.Size {
		to := min(from+e.Size, len(e.ops))
		ops := append(make([]porcupine.Operation, 0, to-from+1), e.ops[from:to]...)
		byCall(ops)
		if to < len(e.ops) {
			next := ends[to/e.Size]
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

func (e *RowEncoder) encode() {
	most := len(e.Row.CAS) + len(e.Row.Reads)
	e.ops, e.at = make([]porcupine.Operation, 0, most), make([]*past.Version, 0, most)
	absent := e.Row.Versions[0]
	for _, v := range e.Row.Versions {
		if v.Place == past.NotInChain {
			e.encodeOthers(v, absent) // wherever: nothing explains what is about it
		}
	}
	e.encodeOthers(absent, absent)
	for _, w := range e.Row.Chain {
		e.encodeWrite(w, w.To)
		if w.To.Place == int32(w.Pos) {
			e.encodeOthers(w.To, w.To)
		}
	}
}

// encodeOthers adds what is about a version beside the chain's write that sets it: the
// answers that showed it, and what names it and is not in the chain.
func (e *RowEncoder) encodeOthers(v, at *past.Version) {
	for _, w := range v.UsedBy {
		if w.Pos < 0 {
			e.encodeWrite(w, at)
		}
	}
	for _, o := range v.Shown {
		s := &lockStep{row: e.Row, of: o.Op, kind: kindRead, to: v}
		if o.CAS != nil {
			s.kind, s.from, s.rows = kindReject, o.CAS.From, o.CAS.Enqueues()
		}
		e.add(s, o.Invoke.TS, o.End.TS, at)
	}
}

func (e *RowEncoder) encodeWrite(w *past.Write, at *past.Version) {
	fate, ok := e.Row.Fate(w), w.OK()
	if !w.Possible() || fate == past.Never && ok == nil {
		return
	}
	s := &lockStep{row: e.Row, of: &w.Main().Op, from: w.From, to: w.To, optional: fate == past.Open && ok == nil}
	ret := w.Answered()
	if ok == nil {
		if fate == past.Applied {
			ret = w.Latest
		}
		if until, all := timedOut(w); all && e.Bounded {
			ret = min(ret, until)
		}
	}
	e.add(s, w.Earliest(), ret, at)
	// Each further acknowledgement is a write of its own, and cannot be placed.
	if acks := w.Acknowledged(); len(acks) > 1 {
		for _, o := range acks[1:] {
			e.add(&lockStep{row: e.Row, of: o, from: s.from, to: s.to}, o.Invoke.TS, o.End.TS, at)
		}
	}
}

func (e *RowEncoder) add(s *lockStep, call, ret int64, at *past.Version) {
	e.ops, e.at = append(e.ops, operation(s, call, ret)), append(e.at, at)
}

// timedOut says whether every unknown member was ended by its coordinator's own
// timeout, and when the last was.
func timedOut(w *past.Write) (until int64, all bool) {
	all = true
	for _, c := range w.Ops {
		if c.Outcome != history.Unknown {
			continue
		}
		if c.End == nil || !c.End.ServerTimeout {
			return 0, false
		}
		until = max(until, c.End.TS)
	}
	return until, all
}
