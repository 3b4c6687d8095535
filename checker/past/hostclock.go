package past

import (
	"math"
	"slices"
	"time"

	"fencepost/harness/record/history"
)

// hostClock is what the host's wall clock showed during a run. The clocks of all processes are the
// host's, but for what faults make of them.
type hostClock struct {
	zero    int64            // what it would have shown at TS 0 had nobody set it, in ms since 1970; 0: no header tells
	notes   []*history.Event // how it was set, by the harness, in order of time
	stepped bool             // it was set, and not only slewed
}

// A note is of a slewed clock if it is about as much as the harness lets pass, and long after the one
// before. Else somebody has set the clock.
const (
	slewedMS   = 150
	slewedFrom = 10e9
)

func hostClockOf(h *history.History) hostClock {
	c := hostClock{zero: wallZero(h)}
	for e := range Each(h.Events) {
		if e.Op == history.NoteClock && e.Clock() != nil && history.Life(e.Proc) == history.Harness {
			c.notes = append(c.notes, e)
		}
	}
	c.stepped = stepped(c.notes)
	return c
}

// at is by how much it had been set at an instant since the harness's header, in ms.
func (c hostClock) at(ts int64) (ms int64) {
	for _, e := range c.notes {
		if e.TS > ts {
			break
		}
		ms = e.Clock().OffsetMS
	}
	return ms
}

// most is the most of a stretch of time.
func (c hostClock) most(from, to int64) int64 {
	ms := c.at(from)
	for _, e := range c.notes {
		if e.TS > from && e.TS <= to {
			ms = max(ms, e.Clock().OffsetMS)
		}
	}
	return ms
}

// stepped says whether a clock was set, and not slewed.
func stepped(notes []*history.Event) bool {
	var before history.Clock
	var last int64
	for _, e := range notes {
		by := e.Clock().OffsetMS - before.OffsetMS
		if max(by, -by) > slewedMS || last > 0 && e.TS-last < slewedFrom {
			return true
		}
		before, last = *e.Clock(), e.TS
	}
	return false
}

// ClockSet says whether the clocks of a life were set, by a fault or with the host's.
func (a *Past) ClockSet(life string) bool { return len(a.Clocks[life]) > 0 || a.host.stepped }

// notedLate is for how long after a clock was set at most its note may be dated, in ns.
const notedLate = 5e9

// ClockSetBy says whether the clocks of a life had been set by an instant.
func (a *Past) ClockSetBy(life string, ts int64) bool {
	upTo := func(notes []*history.Event) []*history.Event {
		n := slices.IndexFunc(notes, func(e *history.Event) bool { return e.TS > ts+notedLate })
		if n < 0 {
			n = len(notes)
		}
		return notes[:n]
	}
	return len(upTo(a.Clocks[life])) > 0 || stepped(upTo(a.host.notes))
}

// AnyClockSet says that of all lives.
func (a *Past) AnyClockSet() bool { return len(a.Clocks) > 0 || a.host.stepped }

// Dated is a Past that knows nothing but when something was.
func Dated(h *history.History) *Past { return &Past{History: h, host: hostClockOf(h)} }

// WallAt dates an instant by a header's pair of clocks, and by how the host's was set since: ms
// since 1970, 0 if no header has one.
func (a *Past) WallAt(ts int64) int64 {
	if a.host.zero == 0 {
		return 0
	}
	return a.host.zero + ts/1e6 + a.host.at(ts)
}

func wallZero(h *history.History) int64 {
	for _, name := range []string{history.Harness, ""} {
		for _, head := range h.Headers {
			if name != "" && head.Proc != name {
				continue
			}
			if t, err := time.Parse(time.RFC3339Nano, head.WallTime); err == nil && head.TS > 0 {
				return t.UnixMilli() - head.TS/1e6
			}
		}
	}
	return 0
}

// instantOf is the TS of a reading of the wall clock, in ms since 1970: the first at which it was shown.
func (a *Past) instantOf(ms int64) int64 {
	zero := a.host.zero
	if zero == 0 {
		return math.MaxInt64
	}
	at := (ms - zero) * 1e6
	for _, e := range a.host.notes {
		if at < e.TS {
			break // it was shown before the clock was set
		}
		at = max(e.TS, (ms-zero-e.Clock().OffsetMS)*1e6)
	}
	return at
}
