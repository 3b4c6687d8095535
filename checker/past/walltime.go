package past

import (
	"slices"
	"time"

	"fencepost/harness/record/history"
)

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

// WallAt dates an instant by a header's pair of clocks: ms since 1970, 0 if no
// header has one.
func (a *Past) WallAt(ts int64) int64 {
	for _, name := range []string{history.Harness, ""} {
		for _, head := range a.History.Headers {
			if name != "" && head.Proc != name {
				continue
			}
			if t, err := time.Parse(time.RFC3339Nano, head.WallTime); err == nil && head.TS > 0 {
				return t.UnixMilli() + (ts-head.TS)/1e6
			}
		}
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
