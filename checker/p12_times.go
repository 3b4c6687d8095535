package checker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"fencepost/harness/record/history"
)

func init() {
	register(check{
		id:    "P12",
		title: "nothing fires early or is missed",
		by:    "the wall clock of the worker that starts a run or fires; the batches of shards and their rows",
		of:    "jobs",
		run:   checkTimes,
		whole: true,
		rules: []rule{
			{find: (*inquiry).scheduleGaps},
			{find: (*inquiry).jobTimes},
		},
		mechanisms: []mechanism{
			{id: "schedule-ahead-of-job", accounts: append([]string{"P12"}, ofJobs...),
				statement: "a schedule is marked as fired, and the job of that nominal time is not in its shard: one batch does not do " +
					"both"},
			{id: "schedule-counted-anew", accounts: []string{"P12"},
				statement: "whoever takes a shard over counts the times of its schedules from then on: those that came before are " +
					"forgotten"},
			{id: "fires-by-a-fast-clock", accounts: []string{"P12"},
				statement: "jobs fire by a clock that runs ahead of their worker's own"},
		},
	})
}

// ownMS is the job's own time, 0 if it was asked for at once.
func (j *jobLog) ownMS() int64 {
	if j.spec == nil {
		return 0
	}
	return j.spec.DueMS
}

// ownIn is the job's own time in a state that it was in.
func (j *jobLog) ownIn(s jobState) int64 {
	if s.hastened {
		return 0
	}
	return j.ownMS()
}

// saidBy is the fence of the owner that said last when the job is due.
func (j *jobLog) saidBy() int64 { return j.steps[len(j.steps)-1].w.to.Fence }

// judgeDue is the part of P12 that a change decides. A job is never due before its own
// time. Else an owner keeps to what it said itself, unless its clock was set; what
// another said it may take for earlier, as that one's clock may have been ahead.
func (r *shardReplay) judgeDue(j *jobLog, was jobState, w *write, c *history.Change) {
	own := j.ownIn(was)
	set := len(r.a.clocks[history.Life(w.main().inv.Proc)]) > 0
	switch c.Do {
	case history.DoEnqueue, history.DoRedrive, history.DoRescue, history.DoRetry:
		switch {
		case c.DueMS < own:
			r.bad("P12", j, w, "makes it due at %d, %d ms before it was asked to be", c.DueMS, own-c.DueMS)
		case c.Do == history.DoRetry && c.DueMS < was.due && !set:
			r.bad("P12", j, w, "makes it due at %d, %d ms before it was due in the first place", c.DueMS, was.due-c.DueMS)
		}
	case history.DoHasten:
		if c.DueMS > was.due+readingSlack && j.saidBy() == w.to.Fence && !set {
			r.bad("P12", j, w, "brings it forward to %d, but it was due at %d", c.DueMS, was.due)
		}
	case history.DoClaim:
		said := j.saidBy()
		switch {
		case c.DueMS == 0 || c.DueMS == was.due: // 0: it is not said
		case c.DueMS > was.due:
			r.bad("P12", j, w, "claims it as due at %d, but it was due at %d", c.DueMS, was.due)
		case c.DueMS < own:
			r.bad("P12", j, w, "claims it as due at %d, %d ms before it was asked to be", c.DueMS, own-c.DueMS)
		case said == w.to.Fence && !set:
			r.bad("P12", j, w, "claims it as due at %d, %d ms before its owner itself had said", c.DueMS, was.due-c.DueMS)
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

// leastSlack is how long before what it does is recorded a worker can at least have
// looked at its wall clock.
const leastSlack = int64(1e9)

// clockSlack is leastSlack for a batch: as long as its owner may have another one on its
// way.
func (l *rowLog) clockSlack() int64 {
	slack := leastSlack
	for _, c := range l.cas {
		if c.kind() == history.OpTake {
			slack = max(slack, c.ttl())
		}
	}
	return slack
}

// dueMS is when the job of a claim was due.
func (k *claim) dueMS() int64 {
	if k.c.DueMS > 0 {
		return k.c.DueMS
	}
	return k.at.due
}

// checkTimes is P12: no run starts before its job was due by the wall clock of
// the worker that started it.
func checkTimes(_ context.Context, a *judgement, p *Property) {
	if !a.jobs.any() {
		p.Status, p.Detail = StatusNA, "not judged: the lock workload has no schedules"
		return
	}
	a.jobs.report("P12", p)
	others := a.checkSchedules(p)
	var late []float64
	warm := a.warmSince()
	undated, moved := 0, 0
	for _, j := range a.jobs.list {
		for _, e := range j.starts {
			x, ok := a.dueOf(j, e)
			switch {
			case !ok:
				continue // P6
			case e.WallMS() == 0 || e.DueMS() == 0:
				undated++
				continue
			case e.WallMS() < e.DueMS() && x.wasDue():
				moved++
				continue
			}
			p.Checked++
			switch {
			case x.exact && e.DueMS() != x.due, e.DueMS() < x.due:
				p.add(j.id, x.events, "run %d of job %s started as due at %d, but the job was due at %d", e.Token, j.id, e.DueMS(), x.due)
			case e.WallMS() < x.own:
				p.add(j.id, x.events, "run %d of job %s started %d ms before its own time, by its worker's own clock", e.Token, j.id, x.own-e.WallMS())
			case e.WallMS() < e.DueMS():
				p.add(j.id, x.events, "run %d of job %s started %d ms before the job was due, by its worker's own clock", e.Token, j.id, e.DueMS()-e.WallMS())
			case a.pausedDuring(j, e.TS-(e.WallMS()-e.DueMS())*1e6, e.TS), e.TS-(e.WallMS()-e.DueMS())*1e6 < warm:
			case !a.faultDuring(e.TS-(e.WallMS()-e.DueMS())*1e6, e.TS):
				late = append(late, float64(e.WallMS()-e.DueMS()))
			}
		}
	}
	a.lateness = spread(late)
	p.Detail = "every start by the wall clock of its worker"
	if s := a.lateness; s != nil {
		p.Detail += fmt.Sprintf("; outside of faults and the warmup %s were late by %.0f ms (p50), %.0f ms (p99), %.0f ms at most", plural(s.N, "start"), s.P50, s.P99, s.Max)
	}
	if moved > 0 {
		p.Detail += fmt.Sprintf("; %s of jobs that had been due before their worker's clock was set back", plural(moved, "start"))
	}
	if n := len(a.jobs.schedules); n > 0 {
		p.Detail += fmt.Sprintf("; %s of %s replayed, %d missed", plural(a.jobs.n.Fired, "fired nominal time"), plural(n, "schedule"), a.jobs.n.Missed)
	}
	if others > 0 && p.Count == 0 {
		p.Status, p.Detail = StatusUnknown, plural(others, "schedule")+" put in more than one form: which one counts is not known"
	}
	if undated > 0 && p.Count == 0 {
		p.Status, p.Detail = StatusUnknown, plural(undated, "start")+" without due_ms or wall_ms"
	}
}

// dueness is what the record says of when the job of a start was due.
type dueness struct {
	due    int64            // at the earliest, in ms; 0: nothing is said
	own    int64            // the job's own time; 0: it has none
	exact  bool             // and at no other time
	events []*history.Event // that say so
	// wasDue says whether it had been due by its worker's wall clock, which a fault has
	// set back since.
	wasDue func() bool
}

// dueOf is when the job of a start was due; ok is false if nothing says so.
func (a *judgement) dueOf(j *jobLog, start *history.Event) (x dueness, ok bool) {
	if j.locked() {
		if len(j.calls) == 0 {
			return x, false // P5
		}
		asked := j.calls[0]
		return dueness{due: j.ownMS(), own: j.ownMS(), events: append(both(asked), start), wasDue: func() bool {
			top, _ := a.highestWall(start, asked.inv.TS-leastSlack)
			return top >= start.DueMS()
		}}, true
	}
	k := a.row[j.shard].claimOf(start.Token)
	if k == nil || k.j != j {
		return x, false
	}
	x = dueness{own: j.ownIn(k.at), events: append(both(&k.w.main().op), start), wasDue: func() bool { return a.wasDue(start, k) }}
	if k.at.name == statePending {
		x.due, x.exact = k.dueMS(), true
	}
	return x, true
}

// wasDue says whether a run that starts before it is due by its worker's wall clock had
// been due, as a fault has set that clock back since the job became pending: its own
// time had come by it, and what it had to wait for had passed by the lease clock.
func (a *judgement) wasDue(start *history.Event, k *claim) bool {
	since, own := k.at.since-k.w.main().log.clockSlack(), k.j.ownIn(k.at)
	top, unset := a.highestWall(start, since)
	if own > 0 && k.at.run == 0 {
		return top >= max(start.DueMS(), own)
	}
	_, fast := a.rates(history.Life(start.Proc), since, start.TS)
	return top >= own && unset+int64(fast*float64(start.TS-since)/1e6) >= start.DueMS()
}

// highestWall is the highest reading of the wall clock of a start's worker from an
// instant on until the start, in ms, and what it would read at the start if it had not
// been set back since the highest setting.
func (a *past) highestWall(start *history.Event, from int64) (top, unset int64) {
	next, offset := start.TS, int64(0)
	notes := a.clocks[history.Life(start.Proc)] // by TS
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

// offsetAt is by how much a fault had made a life's wall clock wrong, in ms.
func (a *past) offsetAt(life string, ts int64) (offset int64) {
	for _, e := range a.clocks[life] { // by TS
		if e.TS <= ts {
			offset = e.Clock().OffsetMS
		}
	}
	return offset
}

// warmSince is when the warmup was over, 0 without one: how late jobs are is asked of a
// cluster that is warm.
func (a *past) warmSince() int64 {
	phases := a.h.Phases()
	if len(phases) > 1 && phases[0].Name == phaseWarmup {
		return phases[0].To
	}
	return 0
}

func (a *past) faultDuring(from, to int64) bool {
	return slices.ContainsFunc(a.faults, func(f history.FaultWindow) bool { return f.From <= to && f.To >= from })
}

// scheduleGaps: nominal times that the first batch of another owner passes over.
func (x *inquiry) scheduleGaps() {
	n := 0
	for _, s := range slices.SortedFunc(maps.Values(x.a.jobs.schedules), func(s, t *scheduleLog) int { return cmp.Compare(s.shard, t.shard) }) {
		for _, g := range s.gaps {
			if g.by == nil || g.by.to.Fence == g.w.to.Fence || !x.sound(x.a.row[s.shard]) {
				continue
			}
			n++
			inv, before := g.w.main().inv, g.by.main().inv
			sus := x.suspect("schedule-counted-anew", shown, n, "the owner of fence %d passes over %s of schedule %s, from %d on, and counts none of them as missed; the one of fence %d had stood before them", g.w.to.Fence, plural(int(g.n), "nominal time"), s.key, g.from, g.by.to.Fence)
			sus.show(s.key, inv.TS, []string{before.Proc, inv.Proc}, x.step(RoleBefore, before, "%s decides the nominal times of schedule %s up to %d", before.Proc, s.key, g.from-1),
				x.step(RoleMistake, inv, "%s, who took the shard over, goes on from %d: %s between them have no job", inv.Proc, g.until, plural(int(g.n), "nominal time")))
		}
	}
}

// jobTimes: jobs that fire or are forgotten before their time.
func (x *inquiry) jobTimes() {
	early, most := 0, int64(0)
	for _, j := range x.a.jobs.list {
		for _, e := range j.starts {
			if due, ok := x.a.dueOf(j, e); !ok || len(j.steps) == 0 || e.WallMS() == 0 || e.WallMS() >= e.DueMS() || due.wasDue() {
				continue
			}
			early++
			most = max(most, e.DueMS()-e.WallMS())
			s := x.suspect("fires-by-a-fast-clock", shown, early, "run %d of job %s started %d ms before it was due, by its worker's own wall clock", e.Token, j.id, e.DueMS()-e.WallMS())
			s.show(j.id, e.TS, []string{e.Proc}, x.change(RoleBefore, j.steps[0]), x.step(RoleMistake, e, "it starts %d ms early", e.DueMS()-e.WallMS()))
		}
		x.forgotten(j)
	}
	if early > 1 {
		x.suspect("fires-by-a-fast-clock", shown, early, "%s were early, by %d ms at most", plural(early, "start"), most)
	}
}
