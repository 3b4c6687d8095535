package past

import (
	"math"

	"fencepost/harness/record/history"
)

// Rates returns the slowest and the fastest rate error of a life's lease clock
// that faults had in force at any time in [from, to]: 0 is right, -0.01 is 1 % too
// slow. A note holds until the life's next one.
func (a *Past) Rates(life string, from, to int64) (slow, fast float64) {
	notes := a.Clocks[life]
	for i, e := range notes {
		if e.TS > to || i+1 < len(notes) && notes[i+1].TS < from {
			continue
		}
		rate := float64(e.Clock().RatePPM) / 1e6
		slow, fast = min(slow, rate), max(fast, rate)
	}
	return slow, fast
}

// stretch is by how much longer than d the true time is while a clock that is too
// slow by rate (negative) counts d.
func stretch(d int64, rate float64) int64 {
	if rate >= 0 {
		return 0
	}
	if rate <= -1 {
		return math.MaxInt64 / 4 // it stands still
	}
	return int64(float64(d) * -rate / (1 + rate))
}

// beyond says whether a rate error exceeds the bound that the life declared.
func (a *Past) beyond(life string, slow, fast float64) bool {
	const rounding = 1e-9
	bound := a.HeaderOf(life).DriftBound + rounding
	return -slow > bound || fast > bound
}

func (a *Past) HeaderOf(life string) history.Header {
	head := history.Header{}
	if l := a.Lives[life]; l != nil {
		head = l.header
	}
	if head.Format == "" && len(a.History.Headers) > 0 {
		head = a.History.Headers[0]
	}
	return head
}

// trustedUntil is when a holder that trusts its lease for d of its own clock from
// the instant anchor stops to do so. Within the declared bound on its rate a clock
// that a fault made too slow ends later than d; the margin is there for that.
func (a *Past) trustedUntil(g *Grant, anchor, d int64) int64 {
	life := history.Life(g.Acquire.Invoke.Proc)
	if len(a.Clocks[life]) == 0 {
		return anchor + d
	}
	slow, _ := a.Rates(life, anchor, anchor+d)
	return anchor + d + stretch(d, slow)
}

// judgeClock finds out whether a fault made the clock of g's holder wrong by more
// than the declared bound: P7 and P8 then do not judge it. What the clock did
// while it watched the lease before counts too: two ttl back, as a watch of that
// length is long enough by any clock within the bound.
func (a *Past) judgeClock(g *Grant) {
	life := history.Life(g.Acquire.Invoke.Proc)
	if len(a.Clocks[life]) == 0 {
		return
	}
	watched := g.Acquire.From.TTLMS * 1e6
	if g.Row.Shard {
		watched = g.Acquire.TTL() // a stamp does not say the ttl; it is the same for all owners
	}
	slow, fast := a.Rates(life, g.Acquire.Invoke.TS-2*watched, g.Deadline)
	g.ClockBeyond = a.beyond(life, slow, fast)
}

// excuseOvertaken marks the grants that were taken over by one whose clock is
// beyond the bound: their holders may find others entitled beside them.
func (l *Row) excuseOvertaken() {
	for _, g := range l.Grants {
		if g.ClockBeyond && g.Acquire.Invoke.Takeover {
			if old := l.Under(g.Acquire.From, ""); old != nil {
				old.Overtaken = true
			}
		}
	}
}
