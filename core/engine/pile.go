package engine

import (
	"cmp"
	"slices"

	"fencepost/core/store"
)

// pile is the deleted rows of one kind that a scan from its low mark passes over: those
// above the range that was deleted last. A database fails a scan that passes too many.
type pile struct {
	dead []int64 // their places
	// look is how many there must be for the next search for what holds the mark, held
	// what the last one found.
	look int
	held []*entry
}

// below counts the deleted rows up to a mark.
func (p *pile) below(mark int64) (n int) {
	for _, at := range p.dead {
		if at <= mark {
			n++
		}
	}
	return n
}

// trimmed: the range up to the mark is deleted.
func (p *pile) trimmed(mark int64) {
	p.dead = slices.DeleteFunc(p.dead, func(at int64) bool { return at <= mark })
	p.look = 0
}

// pileUp is how many deleted rows may lie above the mark of a kind before what holds it
// is moved: five times as many as make a range deletion, and twice as many as jobs
// that may have to be placed, so that at most one is for each deletion; but not more than
// half of what Cassandra lets pass by default, if trimEvery is the default too.
func (m *machine) pileUp() int {
	return min(max(5*m.cfg.trimEvery, 2*len(m.jobs)), 500*m.cfg.trimEvery)
}

// piled reports whether too many deleted rows lie above a kind's mark.
func (m *machine) piled(kind store.Kind) bool { return len(m.piles[kind].dead) >= m.pileUp() }

// trims returns range deletions up to the marks of the settled header, which no
// later batch can fall behind, and over removed schedules.
func (m *machine) trims(p *plan) []store.Op {
	ops := m.levels(p)
	for _, t := range []struct {
		kind store.Kind
		low  int64
	}{{store.KindPending, m.head.LowPending}, {store.KindRunning, m.head.LowRunning}, {store.KindEnded, m.head.LowEnded}, {store.KindDLQ, m.dead.low}} {
		p := &m.piles[t.kind]
		if len(p.dead) >= m.cfg.trimEvery && t.low > m.trimmed[t.kind] && p.below(t.low) >= m.cfg.trimEvery {
			ops = append(ops, store.Op{Kind: store.DeleteUpTo, Row: store.Row{Key: store.Key{Kind: t.kind, At: t.low}}})
		}
	}
	if d := &m.dead; d.below > 0 {
		ops = append(ops, store.Op{Kind: store.DeleteWithin, Row: store.Row{Key: store.Key{Kind: store.KindDLQ, At: d.from}}, Below: d.below})
	}
	return ops
}

// buried takes note of what a settled batch has deleted.
func (m *machine) buried(p *plan) {
	for _, op := range p.trims {
		switch op.Kind {
		case store.DeleteUpTo:
			m.trimmed[op.Row.Kind] = op.Row.At
			m.piles[op.Row.Kind].trimmed(op.Row.At)
		case store.DeleteWithin:
			m.emptied()
		}
	}
	m.schedules.buried(p.batch.Ops)
	for _, op := range p.batch.Ops {
		switch k := op.Row.Kind; {
		case op.Kind != store.Delete || op.Row.At <= m.trimmed[k]:
		case k == store.KindPending, k == store.KindRunning, k == store.KindEnded, k == store.KindDLQ:
			m.piles[k].dead = append(m.piles[k].dead, op.Row.At)
		}
	}
}

// takePlaces moves the rows that hold a mark while too many deleted ones lie above it:
// that of a job that runs for hours, or one that urgent ones keep from running. All but
// half of the pile is free then. It uses so many operations of the batch at most.
func (m *machine) takePlaces(p *plan, now moment, most int) {
	for _, kind := range []store.Kind{store.KindPending, store.KindRunning} {
		pile := &m.piles[kind]
		if len(pile.held) == 0 && m.piled(kind) && len(pile.dead) >= pile.look {
			pile.held = m.holding(kind)
			// What holds the mark may not be in memory: it is not looked for at once again.
			pile.look = len(pile.dead) + m.pileUp()/4
		}
		for ; len(pile.held) > 0; pile.held = pile.held[1:] {
			e := pile.held[0]
			i := &intent{kind: doPlace, e: e, note: e.note}
			switch {
			case !m.movable(e, kind):
				continue // it has moved by itself
			case !m.fits(p, i, most):
				return
			}
			m.add(p, i, now)
		}
	}
}

// movable: the row of the job in memory is of the kind and may be moved.
func (m *machine) movable(e *entry, kind store.Kind) bool {
	return m.jobs[e.job.ID] == e && e.key.Kind == kind && e.running == e.started && e.job.Kind != "" && !e.suspect
}

// holding returns the jobs in memory, the lowest first, whose rows lie below all but half
// of a pile and can be moved.
func (m *machine) holding(kind store.Kind) (out []*entry) {
	dead := m.piles[kind].dead
	slices.Sort(dead)
	upTo := dead[len(dead)-1-m.pileUp()/2]
	if kind == store.KindPending {
		upTo = min(upTo, m.window.read) // what is above would stay where it is
	}
	for _, e := range m.jobs {
		if e.key.At <= upTo && m.movable(e, kind) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *entry) int { return cmp.Or(cmp.Compare(a.key.At, b.key.At), cmp.Compare(a.key.ID, b.key.ID)) })
	return out
}

// placeOps writes a job's row at a place above all others, as it is: but for the place
// nothing changes for its readers.
func (m *machine) placeOps(i *intent) []store.Op {
	e := i.e
	if !e.running {
		return append(m.pendingRows(i, timing{due: e.said, wait: e.wait}, e.tries, e.note), remove(e.key))
	}
	m.seq++
	return append(m.runningRows(i, m.seq, e.tries), remove(e.key))
}
