package property

import (
	"context"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:             "P7",
		title:          "everything was decided before the holder's own deadline",
		by:             "deadlines derived from the recorded sends",
		run:            checkDeadlines,
		completeRecord: true,
		rules:          []rule{{needs: "P7", find: (*Inquiry).lateDecisions}, {needs: "P7", find: (*Inquiry).renewalsInVain}},
		accounts:       ofLeases,
		mechanisms: []mechanism{
			{id: "lease-by-wall-clock", Statement: "a holder measures its lease by the wall clock, which was set",
				Apart: "a decision beyond what the wall clock allowed"},
			{id: "lease-by-awake-clock", Statement: "a holder measures its lease by a clock that stands still while the machine sleeps",
				Apart: "a decision later than the sleep explains"},
			{id: "lease-counted-from-answer",
				Statement: "a holder counts its lease from the answer to a request, not from its first send",
				Apart:     "a decision later than answer + ttl - margin"},
			{id: "lapsed-lease-revived", Statement: "a renewal that was answered after the deadline revives the lease",
				Apart: "a decision later than that renewal's first send + ttl - margin"},
			{id: "keep-alive-died", Statement: "renewing ended silently, though the store could be reached, and the holder went on",
				Apart: "renewals that are still sent"},
			{id: "loss-ignored", Statement: "a holder goes on after its lease is lost", Apart: "a loss that nobody notes"},
			{id: "started-without-look", Statement: "a claimed run is started without a look at the clock, however long ago it was claimed",
				Apart: "an effect that is decided late too"},
			{id: "renewal-only-told", Accounts: []string{"P7"}, Statement: "a holder is told that its lease is renewed, and it is not"},
			{id: "released-before-done", Statement: "the lock is released when the work has begun, not when it is done"},
		},
	})
}

// checkDeadlines is P7.
func checkDeadlines(_ context.Context, a *Judgement, p *Property) {
	undated, beyond := 0, 0
	for _, d := range a.Decisions {
		e, g := d.Event, d.Grant
		if g == nil || !g.OwnedBy(e.Proc) {
			continue // P6
		}
		if g.ClockBeyond {
			beyond++
			continue
		}
		p.Checked++
		if e.DecidedAt == 0 {
			undated++
			continue
		}
		end, by := g.Until()
		told := firstAnswer(g, e)
		switch {
		case told != nil && e.DecidedAt < told.TS:
			p.add(g.Row.Name, append(windowOf(g, e), told), "%s by %s under token %d of %s was decided %s before it was granted",
				e.Op, e.Proc, e.Token, g.Row.Name, phrase.MS(told.TS-e.DecidedAt))
		case e.DecidedAt > g.Deadline:
			p.add(g.Row.Name, windowOf(g, e), "%s by %s under token %d of %s was decided %s after the holder's own deadline",
				e.Op, e.Proc, e.Token, g.Row.Name, phrase.MS(e.DecidedAt-g.Deadline))
		case e.DecidedAt > end:
			p.add(g.Row.Name, append(windowOf(g, e), by), "%s by %s under token %d of %s was decided %s after its %s",
				e.Op, e.Proc, e.Token, g.Row.Name, phrase.MS(e.DecidedAt-end), by.Op)
		}
	}
	a.checkExtends(p)
	p.Detail = "not before the grant was known; deadlines derived from the recorded sends: first send + ttl - margin" +
		notJudgedClocks(beyond, "start or effect")
	if undated > 0 && p.Count == 0 {
		p.Status, p.Detail = StatusUnknown, phrase.Plural(undated, "start or effect")+" without decided_at"
	}
}

// firstAnswer is the first answer that told the client of e that it may decide: of a lock that it is
// held, of a shard that the run is claimed. nil: none did, which is P6's to judge.
func firstAnswer(g *past.Grant, e *history.Event) *history.Event {
	if !g.Row.Shard {
		return g.Answer
	}
	if k := g.Row.ClaimOf(e.Token); k != nil {
		if c := k.Write.RecordedBy(history.Life(e.Proc)); c != nil && c.Outcome == history.OK {
			return c.End
		}
	}
	return nil
}

// windowOf is a grant with its last renewal, and e.
func windowOf(g *past.Grant, e *history.Event) []*history.Event {
	out := append(past.Events(&g.Acquire.Op), e)
	if n := len(g.Renews); n > 0 {
		out = append(out, past.Events(&g.Renews[n-1].Op)...)
	}
	return out
}

// leaseSlack is how much later than a clock says something may be decided.
const leaseSlack = int64(150e6)

// lateDecision is a start or effect that was decided when the holder's right was over.
type lateDecision struct {
	past.Decision
	end int64          // of the right
	by  *history.Event // what ended it; nil: the deadline
}

// belief is why a holder can have believed that it still held the lease.
type belief struct {
	id     string
	weight Weight
	holds  func(*Inquiry, lateDecision) (bool, []Step)
}

// beliefs in the order of how much they demand.
var beliefs = []belief{
	{"released-before-done", shown, (*Inquiry).afterRelease},
	{"lease-by-awake-clock", shown, (*Inquiry).byAwakeClock},
	{"lease-by-wall-clock", shown, (*Inquiry).byWallClock},
	{"lapsed-lease-revived", shown, (*Inquiry).byRevival},
	{"lease-counted-from-answer", shown, (*Inquiry).byAnswer},
	{"started-without-look", WeightFits, (*Inquiry).withoutLook},
	{"keep-alive-died", WeightFits, (*Inquiry).withoutRenewals},
	{"keep-alive-died", possible, (*Inquiry).perhapsWithoutRenewals},
	{"loss-ignored", possible, (*Inquiry).inSpiteOfLoss},
}

// lateDecisions: a belief explains them if it holds for each. Those that demand most
// count; without any the holder simply went on.
func (x *Inquiry) lateDecisions() {
	late := x.decidedLate()
	if len(late) == 0 {
		return
	}
	best := Weight(0)
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
		s := x.suspect(b.id, max(b.weight, WeightFits), n, "%s decided when their right was over, the first by %s; this explains %d",
			phrase.PluralWas(len(late), "start or effect"), phrase.MS(d.Event.DecidedAt-d.end), n)
		s.Group = "beliefs"
		chain := append([]Step{x.granted(RoleBefore, d.Grant), x.Instant(RoleBefore, d.end, "%s", x.endText(*d))}, steps...)
		chain = append(chain, x.mistake(d.Event, "%s decides on its %s, %s later", d.Event.Proc, d.Event.Op, phrase.MS(d.Event.DecidedAt-d.end)))
		s.show(d.Grant.Row.Name, d.Event.DecidedAt, []string{d.Event.Proc}, append(chain, x.takenMeanwhile(*d)...)...)
	}
}

func (x *Inquiry) decidedLate() []lateDecision {
	var out []lateDecision
	if !x.failed("P7") {
		return nil
	}
	for _, d := range x.Decisions {
		e, g := d.Event, d.Grant
		if g == nil || !g.OwnedBy(e.Proc) || g.ClockBeyond || e.DecidedAt == 0 {
			continue
		}
		if !g.Row.Shard && g.Token != e.Token {
			continue // found by its fence alone: it was handed out under another token
		}
		mine := 0
		for _, other := range g.Row.ByToken[g.Token] {
			if other.OwnedBy(e.Proc) {
				mine++
			}
		}
		end, by := g.Until()
		if e.DecidedAt > end && mine == 1 { // a token that was given twice tells nothing
			out = append(out, lateDecision{d, end, by})
		}
	}
	return out
}

func (x *Inquiry) endText(d lateDecision) string {
	switch {
	case d.by == nil:
		return "its own deadline: first send of the last answered request + ttl - margin"
	case d.by.Op == history.NoteLeaseLost:
		return "its client notes that the lease is lost: " + phrase.OrNone(d.by.Error)
	}
	return "it releases the lock"
}

// takenMeanwhile is who had it by then.
func (x *Inquiry) takenMeanwhile(d lateDecision) []Step {
	if g := takeoversOf(d.Grant.Row).before(d.Event.DecidedAt); g != nil && g.Fence > d.Grant.Fence {
		return []Step{x.granted(RoleHarm, g)}
	}
	return nil
}

func (x *Inquiry) afterRelease(d lateDecision) (bool, []Step) {
	return d.by != nil && past.IsRelease(d.by.Op), nil
}

// trusted is for how long after an anchor a holder trusts its lease, by its own clock.
func trusted(g *past.Grant) int64 { return g.Acquire.TTL() - g.Margin }

// anchors are the answered requests from which a lease can be counted.
func anchors(g *past.Grant) []*past.CAS {
	out := append([]*past.CAS{}, g.Renews...)
	if g.Acquire.Outcome == history.OK {
		out = append(out, g.Acquire)
	}
	return out
}

func (x *Inquiry) byAwakeClock(d lateDecision) (bool, []Step) {
	life := history.Life(d.Event.Proc)
	for _, c := range anchors(d.Grant) {
		from := past.FirstSend(&c.Op)
		if sleepTime := x.sleepTime(life, from, d.Event.DecidedAt); sleepTime > 0 &&
			d.Event.DecidedAt-from-sleepTime <= trusted(d.Grant)+leaseSlack {
			for _, n := range x.Clocks[life] {
				if n.Clock().Suspended && n.TS >= from {
					return true, []Step{x.before(n, "the machine of %s sleeps, for %s before the decision", life, phrase.MS(sleepTime))}
				}
			}
			return true, nil
		}
	}
	return false, nil
}

func (x *Inquiry) byWallClock(d lateDecision) (bool, []Step) {
	life := history.Life(d.Event.Proc)
	for _, c := range anchors(d.Grant) {
		from := past.FirstSend(&c.Op)
		set := (x.OffsetAt(life, d.Event.DecidedAt) - x.OffsetAt(life, from)) * 1e6
		if set >= 0 || d.Event.DecidedAt-from+set > trusted(d.Grant)+leaseSlack {
			continue
		}
		for _, n := range x.Clocks[life] {
			if n.TS >= from && n.TS <= d.Event.DecidedAt {
				return true, []Step{x.before(n, "the wall clock of %s is set by %s", life, phrase.MS(set))}
			}
		}
	}
	return false, nil
}

// byRevival: a renewal whose answer came when the lease had run out.
func (x *Inquiry) byRevival(d lateDecision) (bool, []Step) {
	for _, r := range d.Grant.Renews {
		if r.End.TS > d.Grant.Deadline && r.End.TS <= d.Event.DecidedAt &&
			d.Event.DecidedAt <= past.FirstSend(&r.Op)+trusted(d.Grant)+leaseSlack {
			return true, []Step{x.before(r.End, "a renewal is answered, %s after the deadline: %s",
				phrase.MS(r.End.TS-d.Grant.Deadline), sendText(&r.Op))}
		}
	}
	return false, nil
}

// byAnswer: the answer came late enough after the first send to explain the difference.
func (x *Inquiry) byAnswer(d lateDecision) (bool, []Step) {
	for _, c := range anchors(d.Grant) {
		took := c.End.TS - past.FirstSend(&c.Op)
		over := d.Event.DecidedAt - past.FirstSend(&c.Op) - trusted(d.Grant)
		if c.End.TS <= d.Event.DecidedAt && over > 0 && over <= took+leaseSlack && took > leaseSlack {
			return true, []Step{x.before(c.End, "%s is answered %s after its first send: %s", c.Kind(), phrase.MS(took), sendText(&c.Op))}
		}
	}
	return false, nil
}

// withoutLook: a run that was claimed in time is started late, and looks at the clock before it
// does anything else.
func (x *Inquiry) withoutLook(d lateDecision) (bool, []Step) {
	e, g := d.Event, d.Grant
	claimed := firstAnswer(g, e)
	if e.Op != history.NoteStart || !g.Row.Shard || claimed == nil {
		return false, nil
	}
	for _, other := range x.Decisions {
		o := other.Event
		if o.Op != history.NoteStart && o.Proc == e.Proc && o.Token == e.Token && other.Grant == g && o.DecidedAt > d.end {
			return false, nil
		}
	}
	return true, []Step{x.before(claimed, "its run is claimed, %s before it starts", phrase.MS(e.DecidedAt-claimed.TS))}
}

// withoutRenewals: the last renewal got no answer, or there was none, while other
// requests of the same process were answered.
func (x *Inquiry) withoutRenewals(d lateDecision) (bool, []Step) {
	return x.unrenewed(d, min(d.Grant.Deadline, d.Event.DecidedAt), 3)
}

// perhapsWithoutRenewals: hardly one was answered, or only when the lease had run out.
func (x *Inquiry) perhapsWithoutRenewals(d lateDecision) (bool, []Step) {
	return x.unrenewed(d, d.Event.DecidedAt, 1)
}

// unrenewed demands that many answers of other rows, until an instant, since there was
// no renewal any more.
func (x *Inquiry) unrenewed(d lateDecision, until int64, demanded int) (bool, []Step) {
	g := d.Grant
	var last *past.CAS
	for _, c := range g.Row.CAS {
		if past.IsRenewal(c.Kind()) && c.From.Fence == g.Fence && g.OwnedBy(c.Invoke.Proc) && c.Invoke.TS < d.Event.DecidedAt &&
			(last == nil || c.Invoke.TS > last.Invoke.TS) {
			last = c
		}
	}
	from := g.Acquire.Invoke.TS
	if last != nil {
		from = past.FirstSend(&last.Op) + x.patience(g.Acquire.TTL()) // what is sent from now on is a resend
	}
	if last != nil && last.Outcome == history.OK {
		from = last.End.TS + g.Acquire.TTL()/2 // by now there should have been another
	}
	answered := x.answered(history.Life(d.Event.Proc), from, until)
	if answered < demanded {
		return false, nil
	}
	var steps []Step
	if last != nil {
		steps = append(steps, x.before(last.Invoke, "its last renewal, %s", sendText(&last.Op)))
	}
	return true, append(steps, x.Instant(RoleBefore, from, "from here on %s of its process on other rows were answered in %s",
		phrase.Plural(answered, "request"), phrase.MS(until-from)))
}

// answered counts a life's requests on rows that were answered within a time.
func (x *Inquiry) answered(life string, from, to int64) int {
	n := 0
	for _, l := range x.Rows {
		for _, c := range l.CAS {
			if c.End != nil && history.Life(c.Invoke.Proc) == life && c.End.TS >= from && c.End.TS <= to &&
				(c.Outcome == history.OK || c.Shown != nil) {
				n++
			}
		}
	}
	return n
}

func (x *Inquiry) inSpiteOfLoss(d lateDecision) (bool, []Step) {
	g := d.Grant
	var steps []Step
	i := slices.IndexFunc(g.Row.CAS, func(c *past.CAS) bool {
		return past.IsRenewal(c.Kind()) && g.OwnedBy(c.Invoke.Proc) && c.From.Fence == g.Fence && c.Outcome != history.OK &&
			c.Invoke.TS < d.Event.DecidedAt
	})
	if i >= 0 {
		c := g.Row.CAS[i]
		steps = append(steps, x.before(c.Invoke, "a renewal is %s", sendText(&c.Op)))
	}
	if g.Lost != nil && g.Lost.TS <= d.Event.DecidedAt {
		steps = append(steps, x.before(g.Lost, "the loss is noted: %s", phrase.OrNone(g.Lost.Error)))
	}
	return true, steps
}
