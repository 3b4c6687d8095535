package checker

import "fencepost/harness/record/history"

// checkChain is the linear-time half of P2: the acknowledged writes of a lock
// are exactly a chain, and the chain and the SERIAL reads agree with real time.
// Given unique versions this decides linearizability of the writes and reads.
func (a *past) checkChain(l *rowLog, p *Property) {
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
	l.checkObservations(p)
}

func (a *past) checkWrite(l *rowLog, w *write, p *Property) {
	c := w.main()
	// Its second try, which took effect, may be what the record has lost.
	if w.pos >= 0 && !w.possible() && a.lost == 0 {
		p.add(l.name, both(&c.op), "%s by %s to %s was reported as failed, but it took effect: the row's chain contains it", c.kind(), c.inv.Proc, l.text(w.to))
	}
	if n := countOK(w); n > 1 {
		p.add(l.name, okEvents(w), "%s to %s was answered applied %d times; a version can be left only once", c.kind(), l.text(w.to), n)
	}
	if w.pos >= 0 || w.ok() == nil {
		return
	}
	next := w.from.next
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
		others := w.to.setBy
		if len(others) < 2 || others[0] != w {
			continue
		}
		var made []*write // by their answer or by the chain
		for _, o := range others {
			if o.ok() != nil || o.pos >= 0 {
				made = append(made, o)
			}
		}
		if len(made) > 1 {
			p.add(l.name, both(&made[0].main().op, &made[1].main().op), "%s was set %d times; a version must be set once", l.text(w.to), len(made))
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

// checkObservations: what a SERIAL read returned or a rejection showed is a version of
// the chain, at a time when the row can have held it, and later answers do not go back.
func (l *rowLog) checkObservations(p *Property) {
	for _, v := range l.versions {
		if v.place == notInChain && l.whole {
			for _, o := range v.shown {
				p.add(l.name, both(o.op), "%s %s, which the row never held", o.says(), l.text(v))
			}
		}
	}
	var newest *write  // invoked last of those before the observation's place
	var older glimpsed // invoked last of the observations of an older version
	for i := -1; i < len(l.chain); i++ {
		at := l.versions[0]
		if i >= 0 {
			if w := l.chain[i]; newest == nil || w.call() > newest.call() {
				newest = w
			}
			at = l.chain[i].to
		}
		last := older
		for _, o := range at.shown {
			g := glimpsed{o, at}
			// One that is wrong by itself would make all others wrong that contradict it.
			if l.checkObservation(g, newest, older, p) && (last.op == nil || g.inv.TS > last.inv.TS) {
				last = g
			}
		}
		older = last
	}
}

// glimpsed is an observation with what it showed.
type glimpsed struct {
	observation
	row *version
}

func (l *rowLog) checkObservation(o glimpsed, newest *write, older glimpsed, p *Property) (ok bool) {
	// A batch of a shard can be rejected for another row's sake; see judgeRefused.
	if c := o.cas; c != nil && c.from == o.row && !c.enqueues() && !(l.shard && isRenewal(c.kind())) {
		p.add(l.name, both(o.op), "%s %s: that is what it named, and yet it was rejected", o.says(), l.text(o.row))
		return false
	}
	if newest != nil && newest.call() > o.end.TS {
		c := newest.main()
		p.add(l.name, both(o.op, &c.op), "%s %s, %s before %s by %s to %s, which came before it, was invoked", o.says(), l.text(o.row), ms(newest.call()-o.end.TS), c.kind(), c.inv.Proc, l.text(newest.to))
		return false
	}
	if next := l.endedBefore(int(o.row.place)+1, o.inv.TS); next != nil {
		c := next.main()
		p.add(l.name, both(o.op, &c.op), "stale %s %s, but %s by %s to %s had been answered applied %s before the %s was invoked", o.stale(), l.text(o.row), c.kind(), c.inv.Proc, l.text(next.to), ms(o.inv.TS-next.ret()), o.inv.Op)
		return false
	}
	if older.op != nil && older.inv.TS > o.end.TS {
		p.add(l.name, both(o.op, older.op), "%s went back: %s %s, and %s after its end %s was invoked, which showed the older %s", wentBack(o, older), o.says(), l.text(o.row), ms(older.inv.TS-o.end.TS), older.name(), l.text(older.row))
		return false
	}
	return true
}

func wentBack(o, older glimpsed) string {
	if o.cas == nil && older.cas == nil {
		return "SERIAL reads"
	}
	return "answers"
}

// stale begins a sentence that ends with the version.
func (o observation) stale() string {
	if o.cas == nil {
		return "SERIAL read: " + o.inv.Proc + " read"
	}
	return "rejection: " + o.inv.Proc + " was shown"
}

// name is whose it is.
func (o observation) name() string {
	if o.cas == nil {
		return "a SERIAL read by " + o.inv.Proc
	}
	return "a rejected " + string(o.inv.Op) + " by " + o.inv.Proc
}

// says begins one too.
func (o observation) says() string {
	if o.cas == nil {
		return o.name() + " returned"
	}
	return o.name() + " showed"
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
