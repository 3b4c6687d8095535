package engine

import (
	"slices"

	"fencepost/core/store"
)

// deadLetters is what an owner knows of the dead letter queue, none of which is in its
// memory.
type deadLetters struct {
	// low: no row is at or below it, and none is inserted at or below upTo.
	low, upTo int64
	loading   bool
	// from is where the read on its way begins: at low, or, as the first dead letter may stay
	// there for ever, at one that was taken out from behind it.
	from int64
	// below: no row lies within from and it; the range is to be deleted. 0: there is none.
	below int64
}

// deadRange returns the range in which the first dead letter is, or the first one behind
// some that were taken out, if so many were that what they have left should go. No batch
// may be on its way: it could insert one.
func (m *machine) deadRange(now moment) (store.Range, bool) {
	d, p := &m.dead, &m.piles[store.KindDLQ]
	if d.loading || d.below > 0 || len(p.dead) < max(m.cfg.trimEvery, p.look) {
		return store.Range{}, false
	}
	d.loading, d.upTo = true, max(d.upTo, now.wall)
	return store.Range{Kind: store.KindDLQ, AfterAt: d.from, AfterID: afterAll, UpTo: d.upTo, Limit: 1}, true
}

// deadRead takes the first dead letter of the range, if there is one.
func (m *machine) deadRead(rows []store.Row, failed bool) {
	d, p := &m.dead, &m.piles[store.KindDLQ]
	d.loading = false
	if failed {
		return
	}
	end := d.upTo + 1
	if len(rows) > 0 {
		end = rows[0].At
	}
	switch {
	case d.from == d.low:
		d.low = max(d.low, end-1)
	case p.below(end-1)-p.below(d.from) >= m.cfg.trimEvery:
		d.below = end
		return
	default:
		// So few may stay between two dead letters.
		p.dead = slices.DeleteFunc(p.dead, func(at int64) bool { return at > d.low && at <= end })
	}
	m.deadBehind(end)
}

// deadBehind goes on behind a dead letter, or waits for more to be taken out.
func (m *machine) deadBehind(at int64) {
	d, p := &m.dead, &m.piles[store.KindDLQ]
	slices.Sort(p.dead)
	n := p.below(at)
	if len(p.dead)-n > m.cfg.trimEvery {
		d.from, p.look = p.dead[n], 0
		return
	}
	d.from, p.look = d.low, len(p.dead)+m.cfg.trimEvery
}

// emptied: the range is deleted.
func (m *machine) emptied() {
	d, p := &m.dead, &m.piles[store.KindDLQ]
	p.dead = slices.DeleteFunc(p.dead, func(at int64) bool { return at > d.from && at < d.below })
	end := d.below
	d.below = 0
	m.deadBehind(end)
}
