package property

import (
	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"slices"
)

// CheckChain is the linear-time half of P2: the acknowledged writes of a lock
// are exactly a chain, and the chain and the SERIAL reads agree with real time.
// Given unique versions this decides linearizability of the writes and reads.
func CheckChain(a *past.Past, l *past.Row, p *Property) {
	for _, b := range l.Breaks {
		if b.Mixture {
			p.add(l.Name, past.Events(&b.Next.Main().Op), "the row of %s was at %s, a version that no operation ever set as a whole",
				l.Name, l.Text(b.Version))
		}
	}
	for _, w := range l.Writes {
		checkWrite(a, l, w, p)
	}
	checkSetOnce(l, p)
	checkWriteOrder(l, p)
	checkObservations(l, p)
}

func checkWrite(a *past.Past, l *past.Row, w *past.Write, p *Property) {
	c := w.Main()
	// Its second try, which took effect, may be what the record has lost.
	if w.Pos >= 0 && !w.Possible() && a.Lost == 0 {
		p.add(l.Name, past.Events(&c.Op), "%s by %s to %s was reported as failed, but it took effect: the row's chain contains it",
			c.Kind(), c.Invoke.Proc, l.Text(w.To))
	}
	if acks := w.Acknowledged(); len(acks) > 1 {
		p.add(l.Name, past.Events(acks...), "%s to %s was answered applied %d times; a version can be left only once",
			c.Kind(), l.Text(w.To), len(acks))
	}
	if w.Pos >= 0 || w.OK() == nil {
		return
	}
	next := w.From.Next
	switch {
	case next != nil:
		n := next.Main()
		p.add(l.Name, past.Events(&c.Op, &n.Op),
			"two writes took effect on one version: from %s, %s by %s set %s and was answered applied, but the row's chain "+
				"goes on with %s by %s to %s",
			l.Text(w.From), c.Kind(), c.Invoke.Proc, l.Text(w.To), n.Kind(), n.Invoke.Proc, l.Text(next.To))
	default:
		events := past.Events(&c.Op)
		if l.Sealed != nil {
			events = append(events, past.Events(&l.Sealed.Main().Op)...)
		}
		p.add(l.Name, events,
			"%s by %s from %s to %s was answered applied, but the row's chain does not contain it: an acknowledged write is lost",
			c.Kind(), c.Invoke.Proc, l.Text(w.From), l.Text(w.To))
	}
}

// checkSetOnce finds versions that were reached twice from different ones.
func checkSetOnce(l *past.Row, p *Property) {
	for _, w := range l.Writes {
		others := w.To.SetBy
		if len(others) < 2 || others[0] != w {
			continue
		}
		// By their answer or by the chain.
		made := slices.DeleteFunc(slices.Clone(others), func(o *past.Write) bool { return o.OK() == nil && o.Pos < 0 })
		if len(made) > 1 {
			p.add(l.Name, past.Events(&made[0].Main().Op, &made[1].Main().Op), "%s was set %d times; a version must be set once",
				l.Text(w.To), len(made))
		}
	}
}

// checkWriteOrder: no write of the chain was invoked after a later one had ended.
func checkWriteOrder(l *past.Row, p *Property) {
	var latest *past.Write // of those so far, the one invoked last
	for _, w := range l.Chain {
		if latest != nil && w.Answered() < latest.Earliest() {
			c, o := w.Main(), latest.Main()
			p.add(l.Name, past.Events(&c.Op, &o.Op),
				"%s to %s had been answered %s before %s to %s was invoked, yet in the row's chain it comes after it",
				c.Kind(), l.Text(w.To), phrase.MS(latest.Earliest()-w.Answered()), o.Kind(), l.Text(latest.To))
		}
		if latest == nil || w.Earliest() > latest.Earliest() {
			latest = w
		}
	}
}

// checkObservations: what a SERIAL read returned or a rejection showed is a version of
// the chain, at a time when the row can have held it, and later answers do not go back.
func checkObservations(l *past.Row, p *Property) {
	for _, v := range l.Versions {
		if v.Place == past.NotInChain && l.Complete {
			for _, o := range v.Shown {
				p.add(l.Name, past.Events(o.Op), "%s %s, which the row never held", observationText(o), l.Text(v))
			}
		}
	}
	var newest *past.Write    // invoked last of those before the observation's place
	var older observedVersion // invoked last of the observations of an older version
	for i := -1; i < len(l.Chain); i++ {
		at := l.Versions[0]
		if i >= 0 {
			if w := l.Chain[i]; newest == nil || w.Earliest() > newest.Earliest() {
				newest = w
			}
			at = l.Chain[i].To
		}
		last := older
		for _, o := range at.Shown {
			g := observedVersion{o, at}
			// One that is wrong by itself would make all others wrong that contradict it.
			if checkObservation(l, g, newest, older, p) && (last.Op == nil || g.Invoke.TS > last.Invoke.TS) {
				last = g
			}
		}
		older = last
	}
}

// observedVersion is an observation with what it showed.
type observedVersion struct {
	past.Observation
	row *past.Version
}

func checkObservation(l *past.Row, o observedVersion, newest *past.Write, older observedVersion, p *Property) (ok bool) {
	// A batch of a shard can be rejected for another row's sake; see judgeRefused.
	if c := o.CAS; c != nil && c.From == o.row && !c.Enqueues() && !(l.Shard && past.IsRenewal(c.Kind())) {
		p.add(l.Name, past.Events(o.Op), "%s %s: that is what it named, and yet it was rejected", observationText(o.Observation), l.Text(o.row))
		return false
	}
	if newest != nil && newest.Earliest() > o.End.TS {
		c := newest.Main()
		p.add(l.Name, past.Events(o.Op, &c.Op), "%s %s, %s before %s by %s to %s, which came before it, was invoked",
			observationText(o.Observation), l.Text(o.row), phrase.MS(newest.Earliest()-o.End.TS), c.Kind(), c.Invoke.Proc, l.Text(newest.To))
		return false
	}
	if next := endedBefore(l, int(o.row.Place)+1, o.Invoke.TS); next != nil {
		c := next.Main()
		p.add(l.Name, past.Events(o.Op, &c.Op), "stale %s %s, but %s by %s to %s had been answered applied %s before the %s was invoked",
			staleText(o.Observation), l.Text(o.row), c.Kind(), c.Invoke.Proc, l.Text(next.To), phrase.MS(o.Invoke.TS-next.Answered()), o.Invoke.Op)
		return false
	}
	if older.Op != nil && older.Invoke.TS > o.End.TS {
		p.add(l.Name, past.Events(o.Op, older.Op), "%s went back: %s %s, and %s after its end %s was invoked, which showed the older %s",
			wentBack(o, older), observationText(o.Observation), l.Text(o.row), phrase.MS(older.Invoke.TS-o.End.TS),
			observationNoun(older.Observation), l.Text(older.row))
		return false
	}
	return true
}

func wentBack(o, older observedVersion) string {
	if o.CAS == nil && older.CAS == nil {
		return "SERIAL reads"
	}
	return "answers"
}

// staleText begins a sentence that ends with the version.
func staleText(o past.Observation) string {
	if o.CAS == nil {
		return "SERIAL read: " + o.Invoke.Proc + " read"
	}
	return "rejection: " + o.Invoke.Proc + " was shown"
}

// observationNoun says whose it is.
func observationNoun(o past.Observation) string {
	if o.CAS == nil {
		return "a SERIAL read by " + o.Invoke.Proc
	}
	return "a rejected " + string(o.Invoke.Op) + " by " + o.Invoke.Proc
}

// observationText begins one too.
func observationText(o past.Observation) string {
	if o.CAS == nil {
		return observationNoun(o) + " returned"
	}
	return observationNoun(o) + " showed"
}

// endedBefore is a write at pos or later that had ended before t, or nil. by
// rises along the chain, so one comparison decides and the scan is rare.
func endedBefore(l *past.Row, pos int, t int64) *past.Write {
	if pos >= len(l.Chain) || l.Chain[pos].Latest >= t {
		return nil
	}
	for _, w := range l.Chain[pos:] {
		if w.Answered() < t {
			return w
		}
	}
	return nil
}
