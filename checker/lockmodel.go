package checker

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/anishathalye/porcupine"

	"fencepost/harness/history"
)

// anyVersion is the state of a model that starts in the middle of a history.
const anyVersion = int32(-1)

// lockStep is a CAS, a rejected CAS or a SERIAL read in the model of a lock
// row, whose state is the number of a version (0: no row).
type lockStep struct {
	table    *versions
	of       *op
	kind     lockKind
	from, to int32 // read and reject: from is not used, to is the row seen
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
	v := state.(int32)
	switch {
	case s.optional && s.kind != kindWrite:
		return true, v
	case s.optional:
		if v == s.from {
			return true, s.to
		}
		return true, v
	case s.kind == kindWrite:
		return v == s.from || v == anyVersion, s.to
	case s.kind == kindReject && s.to == s.from && !s.rows:
		return false, v // its condition held, and yet it was rejected
	}
	return v == s.to || v == anyVersion, s.to
}

func (s *lockStep) source() *op    { return s.of }
func (s *lockStep) observes() bool { return s.kind != kindWrite }

func (s *lockStep) pending() step {
	c := *s
	c.optional = true
	return &c
}

func hashVersion(state any) uint64 { return mix(uint64(state.(int32)) + 1) }

func (s *lockStep) String() string {
	proc := s.of.inv.Proc
	switch s.kind {
	case kindRead:
		return fmt.Sprintf("%s: read %s", proc, s.table.show(s.to))
	case kindReject:
		return fmt.Sprintf("%s: %s rejected by %s", proc, s.of.inv.Op, s.table.show(s.to))
	}
	mark := ""
	if s.of.outcome == history.Unknown {
		mark = " ?"
	}
	return fmt.Sprintf("%s: %s %s > %s%s", proc, s.of.inv.Op, s.table.show(s.from), s.table.show(s.to), mark)
}

// versions numbers the versions of a lock row.
type versions struct {
	shard  bool
	number map[history.Version]int32
	list   []history.Version
}

func newVersions(shard bool) *versions {
	t := &versions{shard: shard, number: map[history.Version]int32{}}
	t.of(history.Version{Absent: true})
	return t
}

func (t *versions) of(v history.Version) int32 {
	n, ok := t.number[v]
	if !ok {
		n = int32(len(t.list))
		t.number[v] = n
		t.list = append(t.list, v)
	}
	return n
}

func (t *versions) show(n int32) string {
	if n == anyVersion {
		return "any"
	}
	v := t.list[n]
	if v.Absent {
		return "no row"
	}
	holder := v.Holder
	switch {
	case t.shard:
		holder = short(v.Attempt)
	case holder == "":
		holder = "free"
	}
	return fmt.Sprintf("f%d.b%d %s", v.Fence, v.Beat, holder)
}

// encode makes the partition of a lock. What the chain has settled is no longer
// unknown: it took effect before its successor, or never. bounded also ends a
// write that the coordinator itself gave up with that answer; timeouts counts
// the writes that this changes.
func (l *rowLog) encode(bounded, clean bool) (pt *partition, timeouts int) {
	t := newVersions(l.shard)
	pt = &partition{
		name: l.name, init: int32(0), any: anyVersion, clean: clean, hash: hashVersion,
		show: func(s any) string { return t.show(s.(int32)) },
		stateAt: func(place int) any {
			if place < 0 {
				return int32(0)
			}
			return t.of(l.chain[place].to)
		},
	}
	for _, w := range l.writes {
		timeouts += l.encodeWrite(pt, t, w, bounded)
	}
	for _, r := range l.reads {
		row, _ := observed(r.end)
		pt.add(&lockStep{table: t, of: r, kind: kindRead, to: t.of(row)}, r.inv.TS, r.end.TS, -1)
	}
	return pt, timeouts
}

func (l *rowLog) encodeWrite(pt *partition, t *versions, w *write, bounded bool) (timeouts int) {
	for _, c := range w.ops {
		if row, ok := observed(c.end); ok && c.outcome == history.Fail {
			pt.add(&lockStep{table: t, of: &c.op, kind: kindReject, rows: c.enqueues(), from: t.of(c.from), to: t.of(row)}, c.inv.TS, c.end.TS, -1)
		}
	}
	if !w.possible() {
		return 0
	}
	fate := l.fate(w)
	ok := w.ok()
	if fate == never && ok == nil {
		return 0
	}
	s := &lockStep{table: t, of: &w.main().op, from: t.of(w.from), to: t.of(w.to), optional: fate == open && ok == nil}
	ret := w.ret()
	if ok == nil {
		if fate == applied {
			ret = w.by
		}
		if until, all := w.givenUp(); all {
			timeouts = 1
			if bounded {
				ret = min(ret, until)
			}
		}
	}
	pt.add(s, w.call(), ret, w.pos)
	// Each further acknowledgement is a write of its own, and cannot be placed.
	first := true
	for _, c := range w.ops {
		if c.outcome != history.OK {
			continue
		}
		if !first {
			pt.add(&lockStep{table: t, of: &c.op, from: s.from, to: s.to}, c.inv.TS, c.end.TS, w.pos)
		}
		first = false
	}
	return timeouts
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

// checkLinearizable is P2: first the chain, then Porcupine in both encodings.
func checkLinearizable(ctx context.Context, a *analysis, p *Property) {
	dirty := map[string]bool{}
	for _, l := range a.rows {
		before := p.Count
		a.checkChain(l, p)
		dirty[l.name] = p.Count > before || !l.whole
		p.Checked += len(l.cas) + len(l.reads)
	}
	a.jobs.report("P2", p)
	var open, bounded []*partition
	for _, l := range a.rows {
		pt, timeouts := l.encode(false, !dirty[l.name])
		if len(pt.ops) == 0 {
			continue
		}
		open = append(open, pt)
		if timeouts > 0 {
			b, _ := l.encode(true, !dirty[l.name])
			bounded = append(bounded, b)
		}
	}
	budget := a.budget(ctx)
	openFound := searchAll(budget, open)
	// Without a coordinator's timeout the two encodings are the same.
	boundedFound := searchAll(budget, bounded)
	p.Encodings = map[string]string{"open": string(worst(openFound)), "bounded": string(worst(boundedFound))}
	if p.Encodings["bounded"] == string(porcupine.Ok) {
		p.Encodings["bounded"] = p.Encodings["open"]
	}
	p.Detail = fmt.Sprintf("chain of versions in linear time, Porcupine on %s, %d of them with timeouts of a coordinator%s", a.rowNouns(open), len(bounded), a.jobs.replayText())
	a.report(budget, p, openFound, "")
	a.report(budget, p, boundedFound, " (bounded encoding: a write that its coordinator answered with a timeout took effect before that answer or never)")
	a.visualize(budget, p, "lock", append(openFound, boundedFound...))
}

// report adds what Porcupine found to the property: an illegal partition that
// the linear-time checks have not already explained, and unfinished ones.
func (a *analysis) report(b budget, p *Property, fs []found, encoding string) {
	var unfinished []string
	for _, f := range fs {
		switch {
		case f.result == porcupine.Unknown:
			unfinished = append(unfinished, f.part.name+": "+f.reason)
		case f.result != porcupine.Illegal || explained(p, f.part.name):
		case a.incomplete():
			unfinished = append(unfinished, f.part.name+": illegal, but the record has lost events (P14)")
		default:
			w := shrink(b, f)
			events, proof := a.proof(f.part.name, w)
			p.add(f.part.name, append(w.events(), events...), "no order of the operations on %s explains %s%s; up to then there is one%s", f.part.name, w.last, encoding, proof)
		}
	}
	if len(unfinished) > 0 {
		sort.Strings(unfinished)
		n := len(unfinished)
		if n > 5 {
			unfinished = append(unfinished[:5], "…")
		}
		p.Status = StatusUnknown
		p.Detail = fmt.Sprintf("Porcupine reached no conclusion on %s%s (%s)", plural(n, "partition"), encoding, strings.Join(unfinished, "; "))
	}
}

// explained says whether the property already has a violation of key.
func explained(p *Property, key string) bool {
	for _, v := range p.Violations {
		if v.Key == key {
			return true
		}
	}
	return p.Count > len(p.Violations) // the list is full
}
