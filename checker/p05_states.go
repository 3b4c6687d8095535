package checker

import (
	"fmt"
	"slices"

	"fencepost/harness/record/history"
)

// sound says whether a shard's own chain contradicts nothing: what happens to jobs by
// batches that are lost, done twice or written over tells nothing about jobs.
func (x *inquiry) sound(l *rowLog) bool {
	if l == nil || !l.whole {
		return false
	}
	return !slices.ContainsFunc(l.writes, func(w *write) bool {
		return (w.pos < 0) == (w.ok() != nil) && (w.pos >= 0 || w.ok() != nil) && (w.ok() != nil || !w.possible())
	})
}

// ofJob lowers the weight of what a shard without a sound chain shows.
func (x *inquiry) ofJob(j *jobLog, w weight) weight {
	if x.sound(x.a.row[j.shard]) {
		return w
	}
	return symptom
}

// walk is a job's state as its batches make it, change by change.
type walk struct {
	j       *jobLog
	state   string
	attempt int
	run     int64
	step    int // of the next change
}

func (k *walk) next() {
	c := k.j.steps[k.step].c
	k.step++
	switch c.Do {
	case history.DoEnqueue, history.DoRedrive:
		k.state, k.attempt = statePending, 0
	case history.DoClaim:
		k.state, k.attempt, k.run = stateRunning, c.Attempt, c.Run
	case history.DoComplete:
		k.state = stateCompleted
	case history.DoRetry, history.DoRescue:
		k.state = statePending
	case history.DoDLQ:
		k.state = stateDLQ
	case history.DoCancel:
		k.state = stateCancelled
	case history.DoAbandon:
		k.state = stateAbandoned
	case history.DoSweep:
		k.state, k.attempt = "", 0
	}
}

// change is the step of a chain that shows what a batch does to a job.
func (x *inquiry) change(role string, s jobStep) Step {
	m := s.w.main()
	text := fmt.Sprintf("%s %s job %s", m.inv.Proc, does[s.c.Do], s.c.Job)
	if s.c.Run != 0 {
		text += fmt.Sprintf(": run %d, attempt %d", s.c.Run, s.c.Attempt)
	}
	return x.step(role, m.inv, "%s (%s of %s)", text, m.kind(), m.inv.Key)
}

// jobStates: attempts that begin again, and claims of what is not pending.
func (x *inquiry) jobStates() {
	fewer, claimed := 0, 0
	early := map[string]int{}
	for _, j := range x.a.jobs.list {
		k := walk{j: j}
		for k.step < len(j.steps) {
			s := j.steps[k.step]
			before := func() []Step {
				if k.step == 0 {
					return nil
				}
				return []Step{x.change(RoleBefore, j.steps[k.step-1])}
			}
			switch c := s.c; {
			case c.Do == history.DoClaim && k.state != statePending && k.state != "":
				claimed++
				sus := x.suspect("claim-leaves-row", x.ofJob(j, shown), claimed, "job %s is claimed as run %d when it is %s", j.id, c.Run, k.state)
				sus.show(j.id, s.w.main().inv.TS, []string{s.w.main().inv.Proc}, append(before(), x.change(RoleMistake, s))...)
			case c.Do == history.DoClaim && k.state == statePending && c.Attempt <= k.attempt,
				slices.Contains([]string{history.DoRescue, history.DoRetry, history.DoComplete, history.DoAbandon, history.DoDLQ}, c.Do) && k.state == stateRunning && c.Attempt < k.attempt:
				fewer++
				sus := x.suspect("attempts-in-memory", x.ofJob(j, shown), fewer, "job %s: after attempt %d the owner that %s it counts %d", j.id, k.attempt, does[c.Do], c.Attempt)
				sus.show(j.id, s.w.main().inv.TS, []string{s.w.main().inv.Proc}, append(before(), x.change(RoleMistake, s))...)
			case c.Do == history.DoDLQ && x.failed("P5"):
				id, why := x.givenUpEarly(&k, s)
				if id == "" {
					break
				}
				early[id]++
				sus := x.suspect(id, x.ofJob(j, shown), early[id], "job %s is given up by %s, and the store had never refused it: %s", j.id, s.w.main().inv.Proc, why)
				sus.show(j.id, s.w.main().inv.TS, []string{s.w.main().inv.Proc}, append(before(), x.change(RoleMistake, s))...)
			}
			k.next()
		}
	}
}

// givenUpEarly is the mechanism by which a job is given up that may be tried again, if there
// is one.
func (x *inquiry) givenUpEarly(k *walk, s jobStep) (id, why string) {
	was := jobState{name: k.state, attempt: k.attempt, run: k.run}
	r := x.a.row[k.j.shard].replayed
	if k.step == 0 || k.j.spec == nil || !r.early(k.j, k.step, was, s.w) {
		return "", ""
	}
	attempts, spared := k.j.spent(k.step, was, s.w)
	wrote := k.j.steps[k.step-1].w.main().inv.Proc
	switch {
	case k.attempt >= k.j.spec.MaxAttempts:
		return "cut-runs-counted", fmt.Sprintf("of its %s %d spent no attempt", plural(k.attempt, "run"), spared)
	case was.name == stateRunning && runFence(was.run) == s.w.to.Fence, history.Life(wrote) == history.Life(s.w.main().inv.Proc):
		return "", ""
	}
	return "row-not-read", fmt.Sprintf("%s wrote its row, and it has spent %d of %d attempts", wrote, attempts, k.j.spec.MaxAttempts)
}

// jobRows: rows that were left and are not what the batches made of them.
func (x *inquiry) jobRows() {
	dlq, ahead, next, beside, other := 0, 0, 0, 0, 0
	for _, j := range x.a.jobs.list {
		l := x.a.row[j.shard]
		if l == nil || !l.whole || !x.a.rowsRead(j) {
			continue
		}
		why := j.differs()
		if why == "" {
			continue
		}
		row := j.row(history.RowJob)
		id, n, w := "rows-differ", &other, possible
		switch {
		case j.now.name == stateDLQ && (row == nil || row.JobRow().State != stateDLQ || j.row(history.RowDLQ) == nil):
			id, n, w = "dlq-move-lost", &dlq, shown
		case j.neverCame(x.a) && j.after != nil:
			id, n, w = "end-ahead-of-next", &next, shown
		case j.neverCame(x.a) && j.now.name == statePending:
			id, n, w = "schedule-ahead-of-job", &ahead, shown
		case row != nil && row.JobRow().Run != 0 && runFence(row.JobRow().Run) < runFence(j.now.run):
			id, n, w = "write-beside-the-tick", &beside, fits // an earlier owner's doing
		}
		*n++
		s := x.suspect(id, x.ofJob(j, w), *n, "job %s is %s by its batches, and its rows say otherwise: %s", j.id, j.now, why)
		var chain []Step
		role := RoleBefore
		if j.neverCame(x.a) {
			role = RoleMistake // the batch that did one of two things
		}
		for _, st := range j.steps[max(0, len(j.steps)-3):] {
			chain = append(chain, x.change(role, st))
		}
		for _, e := range j.rows {
			chain = append(chain, x.step(RoleMistake, e, "after the run there is a row of kind %s: %s, attempt %d, run %d", e.JobRow().Kind, orNone(e.JobRow().State), e.JobRow().Attempt, e.JobRow().Run))
		}
		at, procs := int64(0), []string{}
		if o := j.last(); o != nil {
			at, procs = o.inv.TS, []string{o.inv.Proc}
		}
		s.show(j.id, at, procs, chain...)
	}
}

// stuckJobs: jobs that never ended, by where they were left.
func (x *inquiry) stuckJobs() {
	if !x.failed("P5") {
		return
	}
	x.a.jobs.stuck = nil
	x.scratch(checkJobs)
	left, behind, other := 0, 0, 0
	for _, j := range x.a.jobs.stuck {
		l := x.a.row[j.shard]
		switch {
		case j.neverCame(x.a): // jobRows
		case j.now.name == stateRunning && x.takenSince(l, j) != nil:
			left++
			g := x.takenSince(l, j)
			s := x.suspect("rescue-left-out", x.ofJob(j, shown), left, "job %s is still %s, though %s took the shard with fence %d afterwards", j.id, j.now, g.acq.inv.Proc, g.fence)
			s.show(j.id, g.acq.inv.TS, []string{j.last().inv.Proc, g.acq.inv.Proc}, x.change(RoleBefore, j.steps[len(j.steps)-1]), x.granted(RoleMistake, g),
				x.instant(RoleHarm, x.a.endOfWork(), "at the end the job is still running"))
		case j.now.name == statePending && x.passedOver(l, j) != nil:
			behind++
			k := x.passedOver(l, j)
			s := x.suspect("row-behind-the-mark", x.ofJob(j, fits), behind, "job %s is pending and due, and job %s, due later, was claimed after that", j.id, k.j.id)
			chain := []Step{x.change(RoleBefore, j.steps[len(j.steps)-1]), x.change(RoleMistake, jobStep{k.w, k.c}), x.instant(RoleHarm, x.a.endOfWork(), "at the end the job is still pending")}
			if g := x.takenSince(l, j); g != nil {
				chain = append(chain, x.granted(RoleBefore, g))
			}
			s.show(j.id, k.w.main().inv.TS, []string{j.last().inv.Proc, k.w.main().inv.Proc}, chain...)
		default:
			other++
			s := x.suspect("job-never-ends", x.ofJob(j, possible), other, "job %s is still %s at the end", j.id, stuckAs(j, "in the inbox"))
			if o := j.last(); o != nil && len(j.steps) > 0 {
				s.show(j.id, o.inv.TS, []string{o.inv.Proc}, x.change(RoleMistake, j.steps[len(j.steps)-1]))
			} else if o != nil { // a job with a lock of its own
				s.show(j.id, o.inv.TS, []string{o.inv.Proc}, x.step(RoleMistake, o.inv, "%s by %s is the last that changes it", o.inv.Op, o.inv.Proc))
			} else if len(j.calls) > 0 {
				s.show(j.id, j.calls[0].inv.TS, []string{j.calls[0].inv.Proc}, x.step(RoleMistake, j.calls[0].inv, "it is enqueued, and nothing more"))
			}
		}
	}
}

// takenSince is a grant of the shard that came after the job's last change.
func (x *inquiry) takenSince(l *rowLog, j *jobLog) *grant {
	if l == nil || len(j.steps) == 0 {
		return nil
	}
	pos := j.steps[len(j.steps)-1].w.pos
	for _, g := range l.grants {
		if g.acq.w.pos > pos && g.acq.outcome == history.OK {
			return g
		}
	}
	return nil
}

// passedOver is a claim of another job of the shard that was due later than j, after j was
// due and pending.
func (x *inquiry) passedOver(l *rowLog, j *jobLog) *claim {
	if l == nil || l.replayed == nil || len(j.steps) == 0 {
		return nil
	}
	last := j.steps[len(j.steps)-1].w
	var best *claim
	for _, k := range l.replayed.claims {
		if k.j != j && k.w.pos > last.pos && k.at.due > j.now.due && x.a.wallAt(k.w.main().inv.TS) > j.now.due && (best == nil || k.w.pos < best.w.pos || k.w.pos == best.w.pos && k.c.Run < best.c.Run) {
			best = k
		}
	}
	return best
}

func (x *inquiry) forgotten(j *jobLog) {
	for i, s := range j.steps {
		if s.c.Do != history.DoSweep || i == 0 {
			continue
		}
		end := j.steps[i-1].w.main()
		sweeper := history.Life(s.w.main().inv.Proc)
		window := x.a.headerOf(sweeper).DedupeMS * 1e6
		if after := s.w.by - end.inv.TS; after < window && len(x.a.clocks[sweeper]) == 0 {
			sus := x.suspect("forgotten-too-early", x.ofJob(j, shown), 1, "job %s is forgotten at most %s after its end; it must be remembered for %s", j.id, ms(after), ms(window))
			sus.show(j.id, s.w.main().inv.TS, []string{s.w.main().inv.Proc}, x.change(RoleBefore, j.steps[i-1]), x.change(RoleMistake, s))
		}
	}
}
