package checker

import (
	"context"
	"fmt"
	"sort"

	"fencepost/harness/record/history"
)

// checkCitations is P6: whoever calls the sink, starts work or was handed a
// token shows a grant that the store really made, to it, before, and that it
// could know of.
func checkCitations(_ context.Context, a *analysis, p *Property) {
	for _, l := range a.rows {
		for _, call := range l.orphans {
			p.Checked++
			p.add(l.name, both(call), "token %d was handed out to %s by a lock call without any acquire", call.end.Token, call.inv.Proc)
		}
		for _, g := range l.grants {
			if g.call != nil {
				a.checkCitation(g.call.end, l.name, g.call.end.Token, g, p)
			}
		}
	}
	for _, d := range a.decisions {
		if l := a.row[d.issuer]; l != nil && l.shard {
			a.checkClaim(d.event, l, p)
			continue
		}
		a.checkCitation(d.event, d.issuer, d.event.Token, d.grant, p)
	}
	for _, s := range a.sinks {
		for _, o := range s.raises {
			if o.inv.Proc == harness {
				continue // its seal of the resource, after the last worker
			}
			var g *grant
			l := a.row[o.inv.Issuer]
			if l != nil && l.shard {
				a.checkClaim(o.inv, l, p)
				continue
			}
			if l != nil {
				g = l.find(o.inv.Token, o.inv.Proc)
			}
			a.checkCitation(o.inv, o.inv.Issuer, o.inv.Token, g, p)
		}
	}
	a.jobs.report("P6", p)
	p.Detail = "raises, starts, effects and handed-out tokens against the row's chain"
}

func (a *analysis) checkCitation(e *history.Event, lock string, token int64, g *grant, p *Property) {
	p.Checked++
	if g == nil {
		p.add(lock, []*history.Event{e}, "%s by %s shows token %d of %s, which was never granted", e.Op, e.Proc, token, lock)
		return
	}
	wrong := func(format string, args ...any) {
		text := fmt.Sprintf("%s by %s shows token %d of %s, ", e.Op, e.Proc, token, lock) + fmt.Sprintf(format, args...)
		p.add(lock, append(both(&g.acq.op, g.call), e), "%s", text)
	}
	switch {
	case !g.made():
		how := "was refused"
		if g.acq.outcome != history.Fail {
			how = "never took effect"
		}
		wrong("but the acquire behind it %s", how)
	case g.acq.inv.Proc != e.Proc:
		wrong("which was granted to %s", g.acq.inv.Proc)
	case g.acq.inv.TS > e.TS:
		wrong("%s before it asked for it", ms(g.acq.inv.TS-e.TS))
	case g.confirmed > e.TS && g.acq.end != nil:
		wrong("but no answer had told it that the grant took effect")
	}
}

// checkDeadlines is P7.
func checkDeadlines(_ context.Context, a *analysis, p *Property) {
	undated, beyond := 0, 0
	for _, d := range a.decisions {
		e, g := d.event, d.grant
		if g == nil || !g.mine(e.Proc) {
			continue // P6
		}
		if g.clockBeyond {
			beyond++
			continue
		}
		p.Checked++
		if e.DecidedAt == 0 {
			undated++
			continue
		}
		end, by := g.until()
		told := g.told(e)
		switch {
		case told != nil && e.DecidedAt < told.TS:
			p.add(g.log.name, append(g.window(e), told), "%s by %s under token %d of %s was decided %s before it was granted", e.Op, e.Proc, e.Token, g.log.name, ms(told.TS-e.DecidedAt))
		case e.DecidedAt > g.deadline:
			p.add(g.log.name, g.window(e), "%s by %s under token %d of %s was decided %s after the holder's own deadline", e.Op, e.Proc, e.Token, g.log.name, ms(e.DecidedAt-g.deadline))
		case e.DecidedAt > end:
			p.add(g.log.name, append(g.window(e), by), "%s by %s under token %d of %s was decided %s after its %s", e.Op, e.Proc, e.Token, g.log.name, ms(e.DecidedAt-end), by.Op)
		}
	}
	p.Detail = "not before the grant was known; deadlines derived from the recorded sends: first send + ttl - margin" + notJudgedClocks(beyond, "start or effect")
	if undated > 0 && p.Count == 0 {
		p.Status, p.Detail = StatusUnknown, plural(undated, "start or effect")+" without decided_at"
	}
}

// told is the first answer that told the client of e that it may decide: of a lock that it is
// held, of a shard that the run is claimed. nil: none did, which is P6's to judge.
func (g *grant) told(e *history.Event) *history.Event {
	if !g.log.shard {
		return g.answer
	}
	if k := g.log.claimOf(e.Token); k != nil {
		if c := k.w.recordedBy(history.Life(e.Proc)); c != nil && c.outcome == history.OK {
			return c.end
		}
	}
	return nil
}

// window is a grant with its last renewal, and e.
func (g *grant) window(e *history.Event) []*history.Event {
	out := append(both(&g.acq.op), e)
	if n := len(g.renews); n > 0 {
		out = append(out, both(&g.renews[n-1].op)...)
	}
	return out
}

// checkExclusion is P8: no two entitled intervals of a lock overlap.
func checkExclusion(_ context.Context, a *analysis, p *Property) {
	beyond := 0
	for _, l := range a.rows {
		var gs []*grant
		for _, g := range l.grants {
			if g.clockBeyond || g.overtaken {
				beyond++
				continue
			}
			if end, _ := g.until(); g.from() < end {
				gs = append(gs, g)
			}
		}
		p.Checked += len(gs)
		sort.SliceStable(gs, func(i, j int) bool { return gs[i].from() < gs[j].from() })
		var longest *grant // of those before, the one whose right lasts longest
		for _, g := range gs {
			if longest != nil {
				if end, by := longest.until(); g.from() < end {
					events := append(longest.window(by), both(&g.acq.op, g.call)...)
					p.add(l.name, events, "%s was entitled until %s after %s was granted the %s too (tokens %d and %d)", longest.acq.inv.Proc, ms(end-g.from()), g.acq.inv.Proc, l.noun(), longest.token, g.token)
				}
			}
			if longest == nil || endOf(g) > endOf(longest) {
				longest = g
			}
		}
	}
	p.Detail = "entitled: from the granting answer to the derived deadline, release or loss" + notJudgedClocks(beyond, "grant")
}

// notJudgedClocks says how much was left out for clocks that are too wrong.
func notJudgedClocks(n int, noun string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; not judged: %s, clock rate beyond the declared bound", plural(n, noun))
}

func endOf(g *grant) int64 {
	end, _ := g.until()
	return end
}

// checkOwnership is P9.
func checkOwnership(_ context.Context, a *analysis, p *Property) {
	for _, l := range a.rows {
		taken := l.takenBy()
		for _, c := range l.cas {
			if c.w.pos < 0 && c.outcome != history.OK {
				continue // had no effect
			}
			p.Checked++
			l.checkOwner(c, p)
			if isRenewal(c.kind()) || isRelease(c.kind()) {
				if g := taken.before(c.inv.TS); g != nil && c.outcome == history.OK && g.fence > c.to.Fence && !l.laterGrant(c, g) {
					p.add(l.name, both(&g.acq.op, &c.op), "%s by %s of fence %d was answered applied, but the %s had passed to %s with fence %d %s before", c.kind(), c.inv.Proc, c.to.Fence, l.noun(), g.acq.inv.Proc, g.fence, ms(c.inv.TS-g.acq.end.TS))
				}
			}
		}
	}
	p.Detail = "every renewal and release that took effect"
}

// laterGrant says whether c is under a grant that came after g in the row's chain, in
// spite of its lower fence (P1): then the lock had not passed on from it.
func (l *rowLog) laterGrant(c *cas, g *grant) bool {
	own := l.under(c.from, c.inv.Proc)
	return own != nil && own.acq.w.pos > g.acq.w.pos && g.acq.w.pos >= 0
}

func (l *rowLog) checkOwner(c *cas, p *Property) {
	bad := func(format string, args ...any) {
		events := both(&c.op)
		if g := l.under(c.from, c.inv.Proc); g != nil {
			events = append(both(&g.acq.op), events...)
		}
		p.add(l.name, events, "%s by %s "+format, append([]any{c.kind(), c.inv.Proc}, args...)...)
	}
	switch c.kind() {
	case history.OpAcquire:
		if c.to.Holder != c.inv.Proc {
			bad("names %q as the holder", c.to.Holder)
		}
	case history.OpRenew:
		switch {
		case c.from.Holder != c.inv.Proc:
			bad("renewed the lease of %s", l.text(c.from))
		case c.to.Holder != c.from.Holder || c.to.Attempt != c.from.Attempt || c.to.Fence != c.from.Fence || c.to.Beat <= c.from.Beat:
			bad("changed more than the beat: from %s to %s", l.text(c.from), l.text(c.to))
		}
	case history.OpTake:
		if c.to.Beat != c.from.Beat+1 {
			bad("did not set the next tick: from %s to %s", l.text(c.from), l.text(c.to))
		}
	case history.OpTick, history.OpHandOver:
		switch g := l.under(c.from, c.inv.Proc); {
		case g == nil:
			bad("is under fence %d, which nobody took", c.from.Fence)
		case !g.mine(c.inv.Proc):
			bad("is under fence %d, which %s took", c.from.Fence, g.acq.inv.Proc)
		case c.to.Fence != c.from.Fence || c.to.Beat != c.from.Beat+1 || c.to.Attempt == c.from.Attempt:
			bad("did not set the next tick of its fence: from %s to %s", l.text(c.from), l.text(c.to))
		}
	case history.OpRelease:
		switch {
		case c.from.Holder != c.inv.Proc:
			bad("released the lease of %s", l.text(c.from))
		case c.to.Holder != "" || c.to.Absent || c.to.Fence != c.from.Fence:
			bad("did not leave the lock free with its fence: from %s to %s", l.text(c.from), l.text(c.to))
		}
	}
}

// takeovers are a lock's acknowledged acquires by end, with the highest fence so far.
type takeovers struct {
	ends []int64
	top  []*grant
}

func (l *rowLog) takenBy() takeovers {
	var t takeovers
	gs := make([]*grant, 0, len(l.grants))
	for _, g := range l.grants {
		if g.acq.outcome == history.OK {
			gs = append(gs, g)
		}
	}
	sort.SliceStable(gs, func(i, j int) bool { return gs[i].acq.end.TS < gs[j].acq.end.TS })
	var top *grant
	for _, g := range gs {
		if top == nil || g.fence > top.fence {
			top = g
		}
		t.ends, t.top = append(t.ends, g.acq.end.TS), append(t.top, top)
	}
	return t
}

// before is the grant with the highest fence that was known before t.
func (t takeovers) before(at int64) *grant {
	i := sort.Search(len(t.ends), func(i int) bool { return t.ends[i] >= at })
	if i == 0 {
		return nil
	}
	return t.top[i-1]
}
