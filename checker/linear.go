package checker

import (
	"sort"

	"fencepost/harness/history"
)

// checkChain is the linear-time half of P2: the acknowledged writes of a lock
// are exactly a chain, and the chain and the SERIAL reads agree with real time.
// Given unique versions this decides linearizability of the writes and reads.
func (a *analysis) checkChain(l *rowLog, p *Property) {
	for _, b := range l.breaks {
		if b.mixture {
			p.add(l.name, both(&b.next.main().op), "the row of %s was at %s, a version that no operation ever set as a whole", l.name, l.text(b.version))
		}
	}
	for _, w := range l.writes {
		a.checkWrite(l, w, p)
	}
	l.checkSetOnce(p)
	l.checkWriteOrder(p)
	l.checkReads(p)
}

func (a *analysis) checkWrite(l *rowLog, w *write, p *Property) {
	c := w.main()
	// Its second try, which took effect, may be what the record has lost.
	if w.pos >= 0 && !w.possible() && len(a.gaps) == 0 {
		p.add(l.name, both(&c.op), "%s by %s to %s was reported as failed, but it took effect: the row's chain contains it", c.kind(), c.inv.Proc, l.text(w.to))
	}
	if n := countOK(w); n > 1 {
		p.add(l.name, okEvents(w), "%s to %s was answered applied %d times; a version can be left only once", c.kind(), l.text(w.to), n)
	}
	if w.pos >= 0 || w.ok() == nil {
		return
	}
	next := l.successor(w.from)
	switch {
	case next != nil:
		n := next.main()
		p.add(l.name, both(&c.op, &n.op), "two writes took effect on one version: from %s, %s by %s set %s and was answered applied, but the row's chain goes on with %s by %s to %s",
			l.text(w.from), c.kind(), c.inv.Proc, l.text(w.to), n.kind(), n.inv.Proc, l.text(next.to))
	default:
		events := both(&c.op)
		if l.sealed != nil {
			events = append(events, both(&l.sealed.main().op)...)
		}
		p.add(l.name, events, "%s by %s from %s to %s was answered applied, but the row's chain does not contain it: an acknowledged write is lost",
			c.kind(), c.inv.Proc, l.text(w.from), l.text(w.to))
	}
}

func countOK(w *write) int {
	n := 0
	for _, c := range w.ops {
		if c.outcome == history.OK {
			n++
		}
	}
	return n
}

func okEvents(w *write) []*history.Event {
	var out []*history.Event
	for _, c := range w.ops {
		if c.outcome == history.OK {
			out = append(out, both(&c.op)...)
		}
	}
	return out
}

// checkSetOnce finds versions that were reached twice from different ones.
func (l *rowLog) checkSetOnce(p *Property) {
	for _, w := range l.writes {
		others := l.setBy[w.to]
		if len(others) < 2 || others[0] != w {
			continue
		}
		var acked []*write
		for _, o := range others {
			if o.ok() != nil {
				acked = append(acked, o)
			}
		}
		if len(acked) > 1 {
			p.add(l.name, append(okEvents(acked[0]), okEvents(acked[1])...), "%s was set %d times, each time answered applied; a version must be set once", l.text(w.to), len(acked))
		}
	}
}

// checkWriteOrder: no write of the chain was invoked after a later one had ended.
func (l *rowLog) checkWriteOrder(p *Property) {
	var latest *write // of those so far, the one invoked last
	for _, w := range l.chain {
		if latest != nil && w.ret() < latest.call() {
			c, o := w.main(), latest.main()
			p.add(l.name, both(&c.op, &o.op), "%s to %s had been answered %s before %s to %s was invoked, yet in the row's chain it comes after it",
				c.kind(), l.text(w.to), ms(latest.call()-w.ret()), o.kind(), l.text(latest.to))
		}
		if latest == nil || w.call() > latest.call() {
			latest = w
		}
	}
}

// checkReads: a SERIAL read returned a version of the chain, at a time when the
// row can have held it, and reads do not go back.
func (l *rowLog) checkReads(p *Property) {
	reads := map[history.Version][]*op{}
	for _, r := range l.reads {
		row, _ := observed(r.end)
		if !row.Absent && !l.inChain(row) {
			if l.whole {
				p.add(l.name, both(r), "a SERIAL read by %s returned %s, which the row never held", r.inv.Proc, l.text(row))
			}
			continue
		}
		reads[row] = append(reads[row], r)
	}
	var newest *write // invoked last of those before the read's place
	var later *op     // read of an older version that was invoked last
	for i := -1; i < len(l.chain); i++ {
		at := history.Version{Absent: true}
		if i >= 0 {
			if w := l.chain[i]; newest == nil || w.call() > newest.call() {
				newest = w
			}
			at = l.chain[i].to
		}
		here := reads[at]
		sort.Slice(here, func(i, j int) bool { return here[i].inv.TS < here[j].inv.TS })
		for _, r := range here {
			l.checkRead(r, at, i, newest, later, p)
		}
		for _, r := range here {
			if later == nil || r.inv.TS > later.inv.TS {
				later = r
			}
		}
	}
}

func (l *rowLog) checkRead(r *op, at history.Version, pos int, newest *write, later *op, p *Property) {
	if newest != nil && newest.call() > r.end.TS {
		c := newest.main()
		p.add(l.name, both(r, &c.op), "a SERIAL read by %s returned %s, %s before %s by %s to %s, which came before it, was invoked", r.inv.Proc, l.text(at), ms(newest.call()-r.end.TS), c.kind(), c.inv.Proc, l.text(newest.to))
		return
	}
	if next := l.endedBefore(pos+1, r.inv.TS); next != nil {
		c := next.main()
		p.add(l.name, both(r, &c.op), "stale SERIAL read: %s read %s, but %s by %s to %s had been answered applied %s before the read was invoked", r.inv.Proc, l.text(at), c.kind(), c.inv.Proc, l.text(next.to), ms(r.inv.TS-next.ret()))
		return
	}
	if later != nil && later.inv.TS > r.end.TS {
		row, _ := observed(later.end)
		p.add(l.name, both(r, later), "SERIAL reads went back: %s was read by %s, and %s later a read that was invoked after its end returned the older %s", l.text(at), r.inv.Proc, ms(later.inv.TS-r.end.TS), l.text(row))
	}
}

// endedBefore is a write at pos or later that had ended before t, or nil. by
// rises along the chain, so one comparison decides and the scan is rare.
func (l *rowLog) endedBefore(pos int, t int64) *write {
	if pos >= len(l.chain) || l.chain[pos].by >= t {
		return nil
	}
	for _, w := range l.chain[pos:] {
		if w.ret() < t {
			return w
		}
	}
	return nil
}

func (l *rowLog) inChain(v history.Version) bool {
	for _, w := range l.setBy[v] {
		if w.pos >= 0 {
			return true
		}
	}
	return false
}
