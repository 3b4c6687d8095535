package past

import (
	"cmp"
	"fmt"
	"slices"

	"fencepost/harness/record/history"
)

// Overtaken is a claim that came before one of a job with a higher priority.
type Overtaken struct {
	Write  *Write
	Change *history.Change // the claim
	// Low is the job that was claimed, High the one that waited and was due.
	Low, High *Job
}

// farAheadMS is for how far ahead a job may be put into its shard and still be judged: what is
// due later its owner may leave in the store, and read it when the time comes near.
const farAheadMS = 20_000

// wallReading is what a life's wall clock showed, at the instant at which that was recorded or before.
type wallReading struct{ ts, wallMS int64 }

// readWalls collects what the starts of runs say of their workers' wall clocks. Clocks that
// were set are left out: what was due by them once may not be due any more.
func (a *Past) readWalls() {
	a.walls = map[string][]wallReading{}
	for _, j := range a.Jobs.at {
		for _, e := range j.Starts {
			if life := history.Life(e.Proc); e.WallMS() > 0 && !a.ClockSet(life) {
				a.walls[life] = append(a.walls[life], wallReading{e.TS, e.WallMS()})
			}
		}
		a.Jobs.prioritized = a.Jobs.prioritized || j.Spec != nil && j.Spec.Priority != 0
	}
	for _, readings := range a.walls {
		slices.SortFunc(readings, func(x, y wallReading) int { return cmp.Or(cmp.Compare(x.ts, y.ts), cmp.Compare(x.wallMS, y.wallMS)) })
	}
}

// shownBy is the last reading of a life's wall clock up to an instant, 0 if there is none.
func (a *Past) shownBy(life string, ts int64) int64 {
	readings := a.walls[life]
	n, _ := slices.BinarySearchFunc(readings, ts+1, func(r wallReading, ts int64) int { return cmp.Compare(r.ts, ts) })
	if n == 0 {
		return 0
	}
	return readings[n-1].wallMS
}

// priority is the job's, false if nobody says which, or its enqueues differ in it.
func (j *Job) priority() (int, bool) {
	if j.Spec == nil || slices.ContainsFunc(j.Calls, func(o *Op) bool { return o.Invoke.Job().Priority != j.Spec.Priority }) {
		return 0, false
	}
	return j.Spec.Priority, true
}

// judgePriorities is the part of P12 that a batch decides with all its claims: of the jobs that are
// due the owner claims those with higher priorities first. What it must have known when it planned
// the batch is what it had put into the shard by its batch before, which it had been answered. What
// was due then it had itself seen on its clock. What it has to read from the store, as others have
// put it there or the shard was paused, may come to it later and is not judged, nor is a job that
// the store has refused to take in a batch: those are tried one by one.
func (r *Replay) judgePriorities(w *Write, changes []history.Change) {
	if !r.a.Jobs.prioritized {
		return
	}
	before := r.ownBefore(w)
	if before == nil {
		clear(r.own)
		return
	}
	begun := w.Main().Invoke.TS
	now := r.a.shownBy(history.Life(w.Main().Invoke.Proc), before.End.TS)
	low, lowest := r.lowestClaim(changes, begun)
	if low == nil || now == 0 || r.stretch > 1 || r.paused() != nil {
		return
	}
	var high *Job
	highest, others := lowest, false
	for j, put := range r.own {
		p, known := j.priority()
		due := max(j.Now.Due, j.ScheduledIn(j.Now))
		then := now - (before.End.TS-put)/1e6 // what the clock showed when it was put there, or less
		if !known || due+BackoffSlack > now || due-then > farAheadMS || r.poisoned(j, begun) || slices.ContainsFunc(changes, func(c history.Change) bool { return c.Job == j.ID }) {
			continue
		}
		others = others || p != lowest
		if p > highest || p == highest && high != nil && j.ID < high.ID {
			high, highest = j, p
		}
	}
	if others {
		r.a.Jobs.Ordered++
	}
	if high == nil {
		return
	}
	j := r.a.Jobs.of(r.l.Name, low.Job)
	r.a.Jobs.Overtaken = append(r.a.Jobs.Overtaken, Overtaken{w, low, j, high})
	m := w.Main()
	r.a.Jobs.add("P12", j.ID, Events(high.Last(), before, &m.Op),
		"job %s of priority %d: the %s of %s by %s to %s claims it as run %d, though job %s of priority %d waited, which had been due at %d: %s",
		j.ID, lowest, m.Kind(), r.l.Name, m.Invoke.Proc, r.l.Text(w.To), low.Run, high.ID, highest, high.Now.Due,
		fmt.Sprintf("its owner's clock had shown %d when it planned that", now))
}

// ownBefore is the batch of the same owner before this one, nil if that was not its own or was not
// answered: the owner plans a batch when the one before is settled.
func (r *Replay) ownBefore(w *Write) *Op {
	if w.Pos < 1 {
		return nil
	}
	last := r.l.Chain[w.Pos-1]
	ok := last.OK()
	if ok == nil || last.To.Fence != w.To.Fence || ok.Invoke.Proc != w.Main().Invoke.Proc {
		return nil
	}
	return &ok.Op
}

// lowestClaim is a batch's claim of the job with the lowest priority, nil without one.
func (r *Replay) lowestClaim(changes []history.Change, begun int64) (low *history.Change, lowest int) {
	for c := range Each(changes) {
		if c.Do != history.DoClaim {
			continue
		}
		j := r.a.Jobs.of(r.l.Name, c.Job)
		if p, known := j.priority(); known && !r.poisoned(j, begun) && (low == nil || p < lowest) {
			low, lowest = c, p
		}
	}
	return low, lowest
}

// keep notes what a batch makes of a job in its owner's memory.
func (r *Replay) keep(j *Job, w *Write) {
	if !r.a.Jobs.prioritized {
		return
	}
	delete(r.own, j)
	if j.Now.Name == StatePending && r.paused() == nil {
		r.own[j] = w.Main().Invoke.TS
	}
}
