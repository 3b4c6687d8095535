package past

import (
	"fmt"
	"slices"

	"fencepost/harness/record/history"
)

// Write is one change of a fenced row: all recorded CAS that would make it. There
// is one, as a rule; a CAS tried again after an outcome that was a definite fail
// or unknown names and sets the same versions and can take effect only once.
type Write struct {
	From, To *Version
	Ops      []*CAS
	Pos      int // its place in the chain, or -1
	// Latest is the latest instant at which it can have taken effect: it did so
	// before its successor, and that one before its own end. Chain only.
	Latest int64
}

// OK is the member that was answered applied, or nil.
func (w *Write) OK() *CAS {
	for _, c := range w.Ops {
		if c.Outcome == history.OK {
			return c
		}
	}
	return nil
}

// Main is the member to show: the one that was answered applied, else one that
// may have been.
func (w *Write) Main() *CAS {
	if c := w.OK(); c != nil {
		return c
	}
	for _, c := range w.Ops {
		if c.Outcome == history.Unknown {
			return c
		}
	}
	return w.Ops[0]
}

func (w *Write) Possible() bool { return w.Main().Outcome != history.Fail }

// Earliest is the earliest instant at which it can have taken effect.
func (w *Write) Earliest() int64 {
	t := int64(history.Forever)
	for _, c := range w.Ops {
		if c.Outcome != history.Fail || !w.Possible() {
			t = min(t, c.Invoke.TS)
		}
	}
	return t
}

// Acknowledged are the members that were answered applied.
func (w *Write) Acknowledged() (out []*Op) {
	for _, c := range w.Ops {
		if c.Outcome == history.OK {
			out = append(out, &c.Op)
		}
	}
	return out
}

// Answered is the instant by which its own answer says that it had taken effect.
func (w *Write) Answered() int64 {
	t := int64(history.Forever)
	for _, c := range w.Ops {
		if c.Outcome == history.OK {
			t = min(t, c.End.TS)
		}
	}
	return t
}

// Break is a version that the row held and that no recorded CAS sets.
type Break struct {
	Version *Version
	Next    *Write // what was applied to it
	Mixture bool   // of versions that recorded operations wrote: the store's doing
}

// buildChain finds the writes that took effect, walking back from the sealed
// row (or, without a seal, from the newest write that was acknowledged).
func (a *Past) buildChain(l *Row) {
	for _, v := range l.Versions {
		v.inOrder()
	}
	l.group()
	tip := l.findSeal()
	l.Sealed = tip
	if tip == nil {
		tip = l.newest(nil)
	}
	var back []*Write
	for tip != nil {
		segment, broken := l.walk(tip)
		back = append(back, segment...)
		if broken == nil {
			break
		}
		a.explain(l, broken)
		l.Breaks = append(l.Breaks, *broken)
		tip = l.newest(broken.Version)
	}
	for i := len(back) - 1; i >= 0; i-- {
		w := back[i]
		w.Pos = len(l.Chain)
		w.From.Next, w.To.Place = w, int32(w.Pos)
		l.Chain = append(l.Chain, w)
	}
	l.Complete = l.Sealed != nil && len(l.Breaks) == 0
	by := int64(history.Forever)
	for i := len(l.Chain) - 1; i >= 0; i-- {
		by = min(by, l.Chain[i].Answered())
		l.Chain[i].Latest = by
	}
}

// group puts CAS that make the same change together.
func (l *Row) group() {
	type change struct{ From, To *Version }
	at := make(map[change]*Write, len(l.CAS))
	for _, c := range l.CAS {
		w := at[change{From: c.From, To: c.To}]
		if w == nil {
			w = &Write{From: c.From, To: c.To, Pos: -1}
			at[change{From: c.From, To: c.To}] = w
			l.Writes = append(l.Writes, w)
			c.To.SetBy = append(c.To.SetBy, w)
			c.From.UsedBy = append(c.From.UsedBy, w)
		}
		w.Ops = append(w.Ops, c)
		c.Write = w
	}
}

// findSeal returns the harness's own last write: answered applied, or seen
// afterwards by a SERIAL read.
func (l *Row) findSeal() *Write {
	var seal *Write
	better := func(w *Write) {
		if seal == nil || older(seal.To, w.To) {
			seal = w
		}
	}
	for _, w := range l.Writes {
		if w.Ops[0].Kind() == history.OpSeal && w.OK() != nil {
			better(w)
		}
	}
	for _, r := range l.Reads {
		for _, w := range r.Version.SetBy {
			if w.Ops[0].Kind() == history.OpSeal {
				better(w)
			}
		}
	}
	return seal
}

// newest returns the acknowledged write with the highest version that is not
// yet in a chain and older than below (nil: any).
func (l *Row) newest(below *Version) *Write {
	var best *Write
	for _, w := range l.Writes {
		if w.Pos >= 0 || w.OK() == nil || below != nil && !older(w.To, below) {
			continue
		}
		if best == nil || older(best.To, w.To) {
			best = w
		}
	}
	return best
}

// older orders versions as the row runs through them.
func older(x, y *Version) bool {
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
func (l *Row) walk(tip *Write) (segment []*Write, broken *Break) {
	for w := tip; ; {
		w.Pos = 0
		segment = append(segment, w)
		if w.From.Absent {
			return segment, nil
		}
		prev := w.From.producer()
		if prev == nil {
			return segment, &Break{Version: w.From, Next: w}
		}
		w = prev
	}
}

// producer is the write that set v: preferably one that was acknowledged, then
// one that may have taken effect, then one that was reported as failed.
func (v *Version) producer() *Write {
	var best *Write
	rank := func(w *Write) int {
		switch {
		case w.OK() != nil:
			return 3
		case w.Possible():
			return 2
		}
		return 1
	}
	for _, w := range v.SetBy {
		if w.Pos < 0 && (best == nil || rank(w) > rank(best)) {
			best = w
		}
	}
	return best
}

// explain decides whose fault a break is. A version whose parts recorded
// operations wrote, but never together, is a row that the store made up. A
// version that nobody recorded writing means that the record lacks events or
// that someone else writes the rows: nothing can then be concluded.
func (a *Past) explain(l *Row, b *Break) {
	if len(b.Version.SetBy) > 0 {
		b.Mixture = true // it comes round again: not a chain at all
		return
	}
	known := b.Version.Attempt == "" || a.recorded(b.Version.Attempt)
	if known && a.Lost == 0 && !a.Record.Doubt {
		b.Mixture = true
		return
	}
	a.Unrecorded = append(a.Unrecorded, Unrecorded{
		Key: l.Name,
		Message: fmt.Sprintf("the row of %s was at %s, which no recorded operation sets: the record lacks events, or "+
			"something unrecorded writes the rows", l.Name, l.Text(b.Version)),
		Events: Events(&b.Next.Main().Op),
	})
}

// recorded says whether any recorded operation wrote the attempt id.
func (a *Past) recorded(attempt string) bool {
	return slices.ContainsFunc(a.Ops, func(o Op) bool { return o.Invoke.To != nil && o.Invoke.To.Attempt == attempt })
}

// Fate is what the chain says about a CAS.
type Fate int

const (
	Open    Fate = iota // may have taken effect or not
	Applied             // is in the chain
	Never               // is not and cannot come any more
)

// Fate settles a write: in the chain it took effect; outside of it it never
// will, if the chain is whole or the version that it names has been used.
func (l *Row) Fate(w *Write) Fate {
	switch {
	case w.Pos >= 0:
		return Applied
	case l.Complete || w.From.Next != nil:
		return Never
	}
	return Open
}

// RecordedBy is the member that a life recorded, or nil.
func (w *Write) RecordedBy(life string) *CAS {
	for _, c := range w.Ops {
		if history.Life(c.Invoke.Proc) == life {
			return c
		}
	}
	return nil
}
