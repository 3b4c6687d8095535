package checker

import (
	"context"
	"slices"

	"fencepost/harness/record/history"
)

func init() {
	register(check{
		id:    "P7",
		title: "everything was decided before the holder's own deadline",
		by:    "deadlines derived from the recorded sends",
		run:   checkDeadlines,
		whole: true,
		rules: []rule{
			{needs: "P7", find: (*inquiry).lateDecisions},
		},
		mechanisms: []mechanism{
			{id: "lease-by-wall-clock", accounts: ofLeases,
				statement: "a holder measures its lease by the wall clock, which was set",
				apart:     "a decision beyond what the wall clock allowed"},
			{id: "lease-by-awake-clock", accounts: ofLeases,
				statement: "a holder measures its lease by a clock that stands still while the machine sleeps",
				apart:     "a decision later than the sleep explains"},
			{id: "lease-counted-from-answer", accounts: ofLeases,
				statement: "a holder counts its lease from the answer of a resent request, not from its first send",
				apart:     "a decision later than answer + ttl - margin"},
			{id: "lapsed-lease-revived", accounts: ofLeases,
				statement: "a renewal that was answered after the deadline revives the lease",
				apart:     "a decision later than that renewal's first send + ttl - margin"},
			{id: "keep-alive-died", accounts: ofLeases,
				statement: "renewing ended silently, though the store could be reached, and the holder went on",
				apart:     "renewals that are still sent"},
			{id: "loss-ignored", accounts: ofLeases,
				statement: "a holder goes on after its lease is lost",
				apart:     "a loss that nobody notes"},
			{id: "released-before-done", accounts: ofLeases,
				statement: "the lock is released when the work has begun, not when it is done"},
		},
	})
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

// leaseSlack is how much later than a clock says something may be decided.
const leaseSlack = int64(150e6)

// lateDecision is a start or effect that was decided when the holder's right was over.
type lateDecision struct {
	decision
	end int64          // of the right
	by  *history.Event // what ended it; nil: the deadline
}

// belief is why a holder can have believed that it still held the lease.
type belief struct {
	id     string
	weight weight
	holds  func(*inquiry, lateDecision) (bool, []Step)
}

// beliefs in the order of how much they demand.
var beliefs = []belief{
	{"released-before-done", shown, (*inquiry).afterRelease},
	{"lease-by-awake-clock", shown, (*inquiry).byAwakeClock},
	{"lease-by-wall-clock", shown, (*inquiry).byWallClock},
	{"lapsed-lease-revived", shown, (*inquiry).byRevival},
	{"lease-counted-from-answer", shown, (*inquiry).byAnswer},
	{"keep-alive-died", fits, (*inquiry).withoutRenewals},
	{"keep-alive-died", possible, (*inquiry).perhapsWithoutRenewals},
	{"loss-ignored", possible, (*inquiry).inSpiteOfLoss},
}

// lateDecisions: a belief explains them if it holds for each. Those that demand most
// count; without any the holder simply went on.
func (x *inquiry) lateDecisions() {
	late := x.late()
	if len(late) == 0 {
		return
	}
	best := weight(0)
	for _, b := range beliefs {
		if b.weight < best {
			return
		}
		var first *lateDecision
		var steps []Step
		n := 0
		for i := range late {
			if ok, more := b.holds(x, late[i]); ok {
				if n++; first == nil {
					first, steps = &late[i], more
				}
			}
		}
		if n*10 < len(late)*9 {
			continue
		}
		best = b.weight
		d := first
		s := x.suspect(b.id, max(b.weight, fits), n, "%s decided when their right was over, the first by %s; this explains %d", were(len(late), "start or effect"), ms(d.event.DecidedAt-d.end), n)
		s.group = "beliefs"
		chain := append([]Step{x.granted(RoleBefore, d.grant), x.instant(RoleBefore, d.end, "%s", x.endText(*d))}, steps...)
		chain = append(chain, x.step(RoleMistake, d.event, "%s decides on its %s, %s later", d.event.Proc, d.event.Op, ms(d.event.DecidedAt-d.end)))
		s.show(d.grant.log.name, d.event.DecidedAt, []string{d.event.Proc}, append(chain, x.takenMeanwhile(*d)...)...)
	}
}

func (x *inquiry) late() []lateDecision {
	var out []lateDecision
	if !x.failed("P7") {
		return nil
	}
	for _, d := range x.a.decisions {
		e, g := d.event, d.grant
		if g == nil || !g.mine(e.Proc) || g.clockBeyond || e.DecidedAt == 0 {
			continue
		}
		mine := 0
		for _, other := range g.log.byToken[g.token] {
			if other.mine(e.Proc) {
				mine++
			}
		}
		end, by := g.until()
		if e.DecidedAt > end && mine == 1 { // a token that was given twice tells nothing
			out = append(out, lateDecision{d, end, by})
		}
	}
	return out
}

func (x *inquiry) endText(d lateDecision) string {
	switch {
	case d.by == nil:
		return "its own deadline: first send of the last answered request + ttl - margin"
	case d.by.Op == history.NoteLeaseLost:
		return "its client notes that the lease is lost: " + orNone(d.by.Error)
	}
	return "it releases the lock"
}

// takenMeanwhile is who had it by then.
func (x *inquiry) takenMeanwhile(d lateDecision) []Step {
	if g := d.grant.log.takenBy().before(d.event.DecidedAt); g != nil && g.fence > d.grant.fence {
		return []Step{x.granted(RoleHarm, g)}
	}
	return nil
}

func (x *inquiry) afterRelease(d lateDecision) (bool, []Step) {
	return d.by != nil && isRelease(d.by.Op), nil
}

// trusted is for how long after an anchor a holder trusts its lease, by its own clock.
func (g *grant) trusted() int64 { return g.acq.ttl() - g.margin }

// anchors are the answered requests from which a lease can be counted.
func (g *grant) anchors() []*cas {
	out := append([]*cas{}, g.renews...)
	if g.acq.outcome == history.OK {
		out = append(out, g.acq)
	}
	return out
}

func (x *inquiry) byAwakeClock(d lateDecision) (bool, []Step) {
	life := history.Life(d.event.Proc)
	for _, c := range d.grant.anchors() {
		from := anchor(&c.op)
		if slept := x.a.slept(life, from, d.event.DecidedAt); slept > 0 && d.event.DecidedAt-from-slept <= d.grant.trusted()+leaseSlack {
			for _, n := range x.a.clocks[life] {
				if n.Clock().Suspended && n.TS >= from {
					return true, []Step{x.step(RoleBefore, n, "the machine of %s sleeps, for %s before the decision", life, ms(slept))}
				}
			}
			return true, nil
		}
	}
	return false, nil
}

func (x *inquiry) byWallClock(d lateDecision) (bool, []Step) {
	life := history.Life(d.event.Proc)
	for _, c := range d.grant.anchors() {
		from := anchor(&c.op)
		set := (x.a.offset(life, d.event.DecidedAt) - x.a.offset(life, from)) * 1e6
		if set >= 0 || d.event.DecidedAt-from+set > d.grant.trusted()+leaseSlack {
			continue
		}
		for _, n := range x.a.clocks[life] {
			if n.TS >= from && n.TS <= d.event.DecidedAt {
				return true, []Step{x.step(RoleBefore, n, "the wall clock of %s is set by %s", life, ms(set))}
			}
		}
	}
	return false, nil
}

// byRevival: a renewal whose answer came when the lease had run out.
func (x *inquiry) byRevival(d lateDecision) (bool, []Step) {
	for _, r := range d.grant.renews {
		if r.end.TS > d.grant.deadline && r.end.TS <= d.event.DecidedAt && d.event.DecidedAt <= anchor(&r.op)+d.grant.trusted()+leaseSlack {
			return true, []Step{x.step(RoleBefore, r.end, "a renewal is answered, %s after the deadline: %s", ms(r.end.TS-d.grant.deadline), sent(&r.op))}
		}
	}
	return false, nil
}

// byAnswer: the answer came late enough after the first send to explain the difference.
func (x *inquiry) byAnswer(d lateDecision) (bool, []Step) {
	for _, c := range d.grant.anchors() {
		took := c.end.TS - anchor(&c.op)
		over := d.event.DecidedAt - anchor(&c.op) - d.grant.trusted()
		if c.end.TS <= d.event.DecidedAt && over > 0 && over <= took+leaseSlack && took > leaseSlack {
			return true, []Step{x.step(RoleBefore, c.end, "%s is answered %s after its first send: %s", c.kind(), ms(took), sent(&c.op))}
		}
	}
	return false, nil
}

// withoutRenewals: the last renewal got no answer, or there was none, while other
// requests of the same process were answered.
func (x *inquiry) withoutRenewals(d lateDecision) (bool, []Step) {
	return x.unrenewed(d, min(d.grant.deadline, d.event.DecidedAt), 3)
}

// perhapsWithoutRenewals: hardly one was answered, or only when the lease had run out.
func (x *inquiry) perhapsWithoutRenewals(d lateDecision) (bool, []Step) {
	return x.unrenewed(d, d.event.DecidedAt, 1)
}

// unrenewed demands that many answers of other rows, until an instant, since there was
// no renewal any more.
func (x *inquiry) unrenewed(d lateDecision, until int64, demanded int) (bool, []Step) {
	g := d.grant
	var last *cas
	for _, c := range g.log.cas {
		if isRenewal(c.kind()) && c.from.Fence == g.fence && g.mine(c.inv.Proc) && c.inv.TS < d.event.DecidedAt && (last == nil || c.inv.TS > last.inv.TS) {
			last = c
		}
	}
	from := g.acq.inv.TS
	if last != nil {
		from = anchor(&last.op) + x.a.patience(g.acq.ttl()) // what is sent from now on is a resend
	}
	if last != nil && last.outcome == history.OK {
		from = last.end.TS + g.acq.ttl()/2 // by now there should have been another
	}
	answered := x.answered(history.Life(d.event.Proc), from, until)
	if answered < demanded {
		return false, nil
	}
	var steps []Step
	if last != nil {
		steps = append(steps, x.step(RoleBefore, last.inv, "its last renewal, %s", sent(&last.op)))
	}
	return true, append(steps, x.instant(RoleBefore, from, "from here on %s of its process on other rows were answered in %s", plural(answered, "request"), ms(until-from)))
}

// answered counts a life's requests on rows that were answered within a time.
func (x *inquiry) answered(life string, from, to int64) int {
	n := 0
	for _, l := range x.a.rows {
		for _, c := range l.cas {
			if c.end != nil && history.Life(c.inv.Proc) == life && c.end.TS >= from && c.end.TS <= to && (c.outcome == history.OK || c.row != nil) {
				n++
			}
		}
	}
	return n
}

func (x *inquiry) inSpiteOfLoss(d lateDecision) (bool, []Step) {
	g := d.grant
	var steps []Step
	i := slices.IndexFunc(g.log.cas, func(c *cas) bool {
		return isRenewal(c.kind()) && g.mine(c.inv.Proc) && c.from.Fence == g.fence && c.outcome != history.OK && c.inv.TS < d.event.DecidedAt
	})
	if i >= 0 {
		c := g.log.cas[i]
		steps = append(steps, x.step(RoleBefore, c.inv, "a renewal is %s", sent(&c.op)))
	}
	if g.lost != nil && g.lost.TS <= d.event.DecidedAt {
		steps = append(steps, x.step(RoleBefore, g.lost, "the loss is noted: %s", orNone(g.lost.Error)))
	}
	return true, steps
}
