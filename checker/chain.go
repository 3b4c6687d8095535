package checker

import (
	"fmt"
	"slices"

	"fencepost/harness/record/history"
)

// write is one change of a fenced row: all recorded CAS that would make it. There
// is one, as a rule; a CAS tried again after an outcome that was a definite fail
// or unknown names and sets the same versions and can take effect only once.
type write struct {
	from, to *version
	ops      []*cas
	pos      int // its place in the chain, or -1
	// by is the latest instant at which it can have taken effect: it did so
	// before its successor, and that one before its own end. Chain only.
	by int64
}

// ok is the member that was answered applied, or nil.
func (w *write) ok() *cas {
	for _, c := range w.ops {
		if c.outcome == history.OK {
			return c
		}
	}
	return nil
}

// main is the member to show: the one that was answered applied, else one that
// may have been.
func (w *write) main() *cas {
	if c := w.ok(); c != nil {
		return c
	}
	for _, c := range w.ops {
		if c.outcome == history.Unknown {
			return c
		}
	}
	return w.ops[0]
}

func (w *write) possible() bool { return w.main().outcome != history.Fail }

// call is the earliest instant at which it can have taken effect.
func (w *write) call() int64 {
	t := int64(history.Forever)
	for _, c := range w.ops {
		if c.outcome != history.Fail || !w.possible() {
			t = min(t, c.inv.TS)
		}
	}
	return t
}

// ret is the instant by which its own answer says that it had taken effect.
func (w *write) ret() int64 {
	t := int64(history.Forever)
	for _, c := range w.ops {
		if c.outcome == history.OK {
			t = min(t, c.end.TS)
		}
	}
	return t
}

// chainBreak is a version that the row held and that no recorded CAS sets.
type chainBreak struct {
	version *version
	next    *write // what was applied to it
	mixture bool   // of versions that recorded operations wrote: the store's doing
}

// buildChain finds the writes that took effect, walking back from the sealed
// row (or, without a seal, from the newest write that was acknowledged).
func (a *past) buildChain(l *rowLog) {
	for _, v := range l.versions {
		v.inOrder()
	}
	l.group()
	tip := l.findSeal()
	l.sealed = tip
	if tip == nil {
		tip = l.newest(nil)
	}
	var back []*write
	for tip != nil {
		segment, broken := l.walk(tip)
		back = append(back, segment...)
		if broken == nil {
			break
		}
		a.explain(l, broken)
		l.breaks = append(l.breaks, *broken)
		tip = l.newest(broken.version)
	}
	for i := len(back) - 1; i >= 0; i-- {
		w := back[i]
		w.pos = len(l.chain)
		w.from.next, w.to.place = w, int32(w.pos)
		l.chain = append(l.chain, w)
	}
	l.whole = l.sealed != nil && len(l.breaks) == 0
	by := int64(history.Forever)
	for i := len(l.chain) - 1; i >= 0; i-- {
		by = min(by, l.chain[i].ret())
		l.chain[i].by = by
	}
}

// group puts CAS that make the same change together.
func (l *rowLog) group() {
	type change struct{ From, To *version }
	at := make(map[change]*write, len(l.cas))
	for _, c := range l.cas {
		w := at[change{From: c.from, To: c.to}]
		if w == nil {
			w = &write{from: c.from, to: c.to, pos: -1}
			at[change{From: c.from, To: c.to}] = w
			l.writes = append(l.writes, w)
			c.to.setBy = append(c.to.setBy, w)
			c.from.usedBy = append(c.from.usedBy, w)
		}
		w.ops = append(w.ops, c)
		c.w = w
	}
}

// findSeal returns the harness's own last write: answered applied, or seen
// afterwards by a SERIAL read.
func (l *rowLog) findSeal() *write {
	var seal *write
	better := func(w *write) {
		if seal == nil || older(seal.to, w.to) {
			seal = w
		}
	}
	for _, w := range l.writes {
		if w.ops[0].kind() == history.OpSeal && w.ok() != nil {
			better(w)
		}
	}
	for _, r := range l.reads {
		for _, w := range r.row.setBy {
			if w.ops[0].kind() == history.OpSeal {
				better(w)
			}
		}
	}
	return seal
}

// newest returns the acknowledged write with the highest version that is not
// yet in a chain and older than below (nil: any).
func (l *rowLog) newest(below *version) *write {
	var best *write
	for _, w := range l.writes {
		if w.pos >= 0 || w.ok() == nil || below != nil && !older(w.to, below) {
			continue
		}
		if best == nil || older(best.to, w.to) {
			best = w
		}
	}
	return best
}

// older orders versions as the row runs through them.
func older(x, y *version) bool {
	if x.Absent || y.Absent {
		return x.Absent && !y.Absent
	}
	if x.Fence != y.Fence {
		return x.Fence < y.Fence
	}
	return x.Beat < y.Beat
}

// walk goes back from tip to the absent row, newest first. It marks what it
// passes with pos 0; the final places are given by the caller.
func (l *rowLog) walk(tip *write) (segment []*write, broken *chainBreak) {
	for w := tip; ; {
		w.pos = 0
		segment = append(segment, w)
		if w.from.Absent {
			return segment, nil
		}
		prev := w.from.producer()
		if prev == nil {
			return segment, &chainBreak{version: w.from, next: w}
		}
		w = prev
	}
}

// producer is the write that set v: preferably one that was acknowledged, then
// one that may have taken effect, then one that was reported as failed.
func (v *version) producer() *write {
	var best *write
	rank := func(w *write) int {
		switch {
		case w.ok() != nil:
			return 3
		case w.possible():
			return 2
		}
		return 1
	}
	for _, w := range v.setBy {
		if w.pos < 0 && (best == nil || rank(w) > rank(best)) {
			best = w
		}
	}
	return best
}

// explain decides whose fault a break is. A version whose parts recorded
// operations wrote, but never together, is a row that the store made up. A
// version that nobody recorded writing means that the record lacks events or
// that someone else writes the rows: nothing can then be concluded.
func (a *past) explain(l *rowLog, b *chainBreak) {
	if len(b.version.setBy) > 0 {
		b.mixture = true // it comes round again: not a chain at all
		return
	}
	known := b.version.Attempt == "" || a.recorded(b.version.Attempt)
	if known && a.lost == 0 && !a.record.Doubt {
		b.mixture = true
		return
	}
	a.stray = append(a.stray, stray{
		key:     l.name,
		message: fmt.Sprintf("the row of %s was at %s, which no recorded operation sets: the record lacks events, or something unrecorded writes the rows", l.name, l.text(b.version)),
		events:  both(&b.next.main().op),
	})
}

// recorded says whether any recorded operation wrote the attempt id.
func (a *past) recorded(attempt string) bool {
	return slices.ContainsFunc(a.ops, func(o op) bool { return o.inv.To != nil && o.inv.To.Attempt == attempt })
}

// fate is what the chain says about a CAS.
type fate int

const (
	open    fate = iota // may have taken effect or not
	applied             // is in the chain
	never               // is not and cannot come any more
)

// fate settles a write: in the chain it took effect; outside of it it never
// will, if the chain is whole or the version that it names has been used.
func (l *rowLog) fate(w *write) fate {
	switch {
	case w.pos >= 0:
		return applied
	case l.whole || w.from.next != nil:
		return never
	}
	return open
}
