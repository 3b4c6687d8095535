package checker

import (
	"context"
	"fmt"
	"slices"

	"fencepost/harness/history"
)

// judgeDue is the part of P12 that a change decides: a job is never due earlier than
// asked for, nor than it was before.
func (r *shardReplay) judgeDue(j *jobLog, was jobState, w *write, c *history.Change) {
	switch c.Do {
	case history.DoEnqueue, history.DoRedrive:
		if j.spec != nil && c.DueMS < j.spec.DueMS {
			r.bad("P12", j, w, "makes it due at %d, %d ms before it was asked to be", c.DueMS, j.spec.DueMS-c.DueMS)
		}
	case history.DoRetry, history.DoRescue:
		if c.DueMS < was.due {
			r.bad("P12", j, w, "makes it due at %d, %d ms before it was due in the first place", c.DueMS, was.due-c.DueMS)
		}
	}
}

// Spread is a distribution in ms.
type Spread struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func spread(xs []float64) *Spread {
	if len(xs) == 0 {
		return nil
	}
	slices.Sort(xs)
	at := func(q int) float64 { return xs[(len(xs)*q+99)/100-1] }
	return &Spread{len(xs), at(50), at(99), xs[len(xs)-1]}
}

// clockSlack is how long before a batch is recorded its owner can have looked at its
// wall clock.
const clockSlack = int64(1e9)

// checkTimes is P12: no run starts before its job was due by the wall clock of
// the worker that started it.
func checkTimes(_ context.Context, a *analysis, p *Property) {
	if !a.jobs.any() {
		p.Status, p.Detail = StatusNA, "not judged: the lock workload has no schedules"
		return
	}
	a.jobs.report("P12", p)
	var late []float64
	undated, moved := 0, 0
	for _, j := range a.jobs.list {
		for _, e := range j.starts {
			since, due, exact, events, ok := a.dueOf(j, e)
			switch {
			case !ok:
				continue // P6
			case e.WallMS == 0 || e.DueMS == 0:
				undated++
				continue
			case e.WallMS < e.DueMS && a.highestWall(e, since-clockSlack) >= e.DueMS:
				moved++
				continue
			}
			p.Checked++
			switch {
			case exact && e.DueMS != due, e.DueMS < due:
				p.add(j.id, events, "run %d of job %s started as due at %d, but the job was due at %d", e.Token, j.id, e.DueMS, due)
			case e.WallMS < e.DueMS:
				p.add(j.id, events, "run %d of job %s started %d ms before the job was due, by its worker's own clock", e.Token, j.id, e.DueMS-e.WallMS)
			case !a.faultDuring(e.TS-(e.WallMS-e.DueMS)*1e6, e.TS):
				late = append(late, float64(e.WallMS-e.DueMS))
			}
		}
	}
	a.jobs.n.Lateness = spread(late)
	p.Detail = "every start by the wall clock of its worker"
	if s := a.jobs.n.Lateness; s != nil {
		p.Detail += fmt.Sprintf("; outside of faults %s were late by %.0f ms (p50), %.0f ms (p99), %.0f ms at most", plural(s.N, "start"), s.P50, s.P99, s.Max)
	}
	if moved > 0 {
		p.Detail += fmt.Sprintf("; %s of jobs that had been due before their worker's clock was set back", plural(moved, "start"))
	}
	if undated > 0 && p.Count == 0 {
		p.Status, p.Detail = StatusUnknown, plural(undated, "start")+" without due_ms or wall_ms"
	}
}

// dueOf is when the job of a start was due at the earliest (exact: and at no other
// time), and since when; with the events that say so. ok is false if nothing does.
func (a *analysis) dueOf(j *jobLog, start *history.Event) (since, due int64, exact bool, events []*history.Event, ok bool) {
	if j.locked() {
		if len(j.calls) == 0 {
			return 0, 0, false, nil, false // P5
		}
		asked := j.calls[0]
		return asked.inv.TS, j.dueAt(), false, append(both(asked), start), true
	}
	k := a.row[j.shard].claimOf(start.Token)
	if k == nil || k.j != j {
		return 0, 0, false, nil, false
	}
	events = append(both(&k.w.main().op), start)
	if k.at.name != statePending {
		return k.at.since, 0, false, events, true
	}
	return k.at.since, k.at.due, true, events, true
}

// highestWall is the highest reading of the wall clock of a start's worker from an
// instant on until the start, in ms: what was due by it once stays due when a fault
// sets it back.
func (a *analysis) highestWall(start *history.Event, from int64) int64 {
	best, next, offset := start.WallMS, start.TS, int64(0)
	notes := a.clocks[history.Life(start.Proc)] // by TS
	last := len(notes) - 1
	for last >= 0 && notes[last].TS > start.TS {
		last--
	}
	if last >= 0 {
		offset = notes[last].Clock.OffsetMS
	}
	right := start.WallMS - offset // by a right clock, at the start
	for ; last >= 0 && next >= from; last-- {
		next, offset = notes[last].TS, 0
		if last > 0 {
			offset = notes[last-1].Clock.OffsetMS
		}
		if next >= from {
			best = max(best, right-(start.TS-next)/1e6+offset)
		}
	}
	return best
}

func (a *analysis) faultDuring(from, to int64) bool {
	return slices.ContainsFunc(a.faults(), func(f history.FaultWindow) bool { return f.From <= to && f.To >= from })
}
