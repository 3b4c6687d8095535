package past

import (
	"fmt"
	"math"
	"slices"

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

// markOvertaken marks when grants were taken over by one whose clock is beyond the bound: from then
// on their holders may find others entitled beside them.
func (l *Row) markOvertaken() {
	for _, g := range l.Grants {
		if g.ClockBeyond && g.Acquire.Invoke.Takeover {
			if old := l.GrantAt(g.Acquire.From, ""); old != nil {
				old.Overtaken = g.Acquire.Invoke.TS
			}
		}
	}
}

// Drained is the phase in which the run waited for its jobs; it counts if it
// lasted for the bound, or ended before as there was nothing left to wait for.
func (a *Past) Drained() history.Span {
	phases := a.History.Phases()
	for i, ph := range phases {
		if ph.Name == PhaseDrain && (i+1 < len(phases) || ph.To-ph.From >= a.DrainBound()*1e6) {
			return ph
		}
	}
	return history.Span{}
}

// DrainBound is in ms.
func (a *Past) DrainBound() int64 {
	bound := int64(0)
	for _, e := range a.Expects {
		bound = max(bound, e.Expect().DrainBoundMS)
	}
	return bound
}

// EndOfWork is when nothing was run any more.
func (a *Past) EndOfWork() int64 {
	if t := a.Stopped; t != history.Forever {
		return t
	}
	if n := len(a.History.Events); n > 0 {
		return a.History.Events[n-1].TS
	}
	return 0
}

// HighestWall is the highest reading of the wall clock of a start's worker from an
// instant on until the start, in ms, and what it would read at the start if it had not
// been set back since the highest setting.
func (a *Past) HighestWall(start *history.Event, from int64) (top, unset int64) {
	next, offset := start.TS, int64(0)
	notes := a.Clocks[history.Life(start.Proc)] // by TS
	last := len(notes) - 1
	for last >= 0 && notes[last].TS > start.TS {
		last--
	}
	if last >= 0 {
		offset = notes[last].Clock().OffsetMS
	}
	top, unset = start.WallMS(), start.WallMS()
	right := start.WallMS() - offset // by a right clock, at the start
	for ; last >= 0 && next >= from; last-- {
		next, offset = notes[last].TS, 0
		if last > 0 {
			offset = notes[last-1].Clock().OffsetMS
		}
		if next >= from {
			top, unset = max(top, right-(start.TS-next)/1e6+offset), max(unset, right+offset)
		}
	}
	return top, unset
}

// OffsetAt is by how much a fault had made a life's wall clock wrong, in ms.
func (a *Past) OffsetAt(life string, ts int64) (offset int64) {
	for _, e := range a.Clocks[life] { // by TS
		if e.TS <= ts {
			offset = e.Clock().OffsetMS
		}
	}
	return offset
}

// WarmSince is when the warmup was over, 0 without one: how late jobs are is asked of a
// cluster that is warm.
func (a *Past) WarmSince() int64 {
	phases := a.History.Phases()
	if len(phases) > 1 && phases[0].Name == phaseWarmup {
		return phases[0].To
	}
	return 0
}

func (a *Past) FaultDuring(from, to int64) bool {
	return slices.ContainsFunc(a.Faults, func(f history.FaultWindow) bool { return f.From <= to && f.To >= from })
}

// judgedPhases are the phases in which what is judged by time happens.
var judgedPhases = map[string]bool{"before": true, "fault": true, "heal": true, "recover": true, PhaseDrain: true}

// Busy says that the machine was too busy for times to say anything about the system, and
// by which note; "" if it was not, or nobody looked.
func (a *Past) Busy() (string, *history.Event) {
	var worst *history.Event
	for _, e := range a.hosts {
		if judgedPhases[e.Host().Phase] && e.Host().LagP99MS > history.MaxLagMS && (worst == nil || e.Host().LagP99MS > worst.Host().LagP99MS) {
			worst = e
		}
	}
	if worst == nil {
		return "", nil
	}
	h := worst.Host()
	return fmt.Sprintf("host too busy: in phase %s the harness's own timer was late by %.0f ms (p99) and %.0f ms at most; up to %d ms are "+
		"allowed; %.0f %% of the processors' time was stolen",
		h.Phase, h.LagP99MS, h.LagMaxMS, history.MaxLagMS, 100*h.Steal), worst
}

// Cold says that latencies had not settled when the warmup was over.
func (a *Past) Cold() (string, *history.Event) {
	for _, e := range a.hosts {
		if e.Host().Cold {
			return "not warm: latencies had not settled when the warmup was over", e
		}
	}
	return "", nil
}
