package checker

import (
	"slices"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// jobRunMutations are about who was told what, and about runs and their times.
var jobRunMutations = []mutation{
	{"acknowledged job that is in no shard", "P5", nil, func(e *edit) bool {
		x := e.jobs()
		p, ok := x.step(history.DoClaim, once)
		if ok {
			x.ask(p.j, "nowhere", past.ResultApplied)
		}
		return ok
	}},
	{"acknowledged job that is in no inbox", "P5", nil, func(e *edit) bool {
		x := e.jobs()
		p, ok := x.step(history.DoClaim, once)
		if ok {
			x.ask(p.j, "nowhere", past.ResultInbox)
		}
		return ok
	}},
	{"duplicate of a job that is nowhere", "P5", nil, func(e *edit) bool {
		x := e.jobs()
		p, ok := x.step(history.DoClaim, once)
		if ok {
			x.ask(p.j, "nowhere", past.ResultDuplicate)
		}
		return ok
	}},
	{"duplicate before its job was enqueued", "P5", nil, func(e *edit) bool {
		x := e.jobs()
		p, ok := x.step(history.DoClaim, once)
		if !ok {
			return false
		}
		o := p.j.Calls[0]
		o.End.Result, o.End.Sends = past.ResultDuplicate, nil
		o.End.TS = min(o.End.TS, p.j.Steps[0].Write.Main().Invoke.TS-1)
		e.index()
		return o.End.TS > o.Invoke.TS
	}},
	{"failed enqueue whose job exists", "P5", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoClaim, once)
		if ok {
			end := p.j.Calls[0].End
			end.Type, end.Result, end.Error = history.Fail, "", "busy"
		}
		return ok
	}},
	{"job that nobody enqueued", "P5", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoClaim, once)
		if ok {
			o := p.j.Calls[0]
			o.Invoke.Key, o.End.Key = "other", "other"
		}
		return ok
	}},
	{"job given up too early", "P5", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoDLQ, func(p jobPlace) bool {
			return p.c().Run > 0 && p.i > 0 && p.j.Steps[p.i-1].Change.Do == history.DoClaim
		})
		if ok {
			respec(p.j, func(j *history.Job) { j.MaxAttempts++ })
		}
		return ok
	}},
	{"job tried too often", "P5", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoClaim, func(p jobPlace) bool { return p.c().Attempt > 1+p.j.UncountedBefore(p.i) })
		if ok {
			respec(p.j, func(j *history.Job) { j.MaxAttempts = 1 })
		}
		return ok
	}},
	{"job abandoned that must run", "P5", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoAbandon, nil)
		if ok {
			respec(p.j, func(j *history.Job) { j.AtMostOnce = false })
		}
		return ok
	}},
	{"job rescued that may run once", "P5", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoRescue, nil)
		if ok {
			respec(p.j, func(j *history.Job) { j.AtMostOnce = true })
		}
		return ok
	}},
	{"job completed before its run finished", "P5", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoComplete, nil)
		if ok {
			p.j.Finishes[p.c().Run].TS = p.w().Main().End.TS + 1
			e.index()
		}
		return ok
	}},
	{"job completed whose run never started", "P5", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoComplete, nil)
		if ok {
			e.drop(func(ev *history.Event) bool {
				return ev.Op == history.NoteStart && ev.Key == p.j.ID && ev.Token == p.c().Run
			})
		}
		return ok
	}},
	{"job given up whose run finished well", "P5", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoDLQ, ownRun)
		if ok {
			p.j.Finishes[p.c().Run].Error = ""
		}
		return ok
	}},
	{"job given up before its run finished", "P5", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoDLQ, ownRun)
		if ok {
			p.j.Finishes[p.c().Run].TS = p.w().Main().End.TS + 1
			e.index()
		}
		return ok
	}},
	{"failed run completed", "P5", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoComplete, nil)
		if ok {
			p.j.Finishes[p.c().Run].Error = "boom"
		}
		return ok
	}},
	{"job that never ends", "P5", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoComplete, func(p jobPlace) bool { return p.later() == nil })
		if !ok {
			return false
		}
		p.remove()
		return rewrite(p.j, history.RowJob, func(r *history.JobRow) { r.State = past.StateRunning }) &&
			rewrite(p.j, history.RowEnded, func(r *history.JobRow) { r.Kind = history.RowRunning })
	}},
	{"job that stays in the inbox", "P5", nil, func(e *edit) bool {
		x := e.jobs()
		p, ok := x.step(history.DoClaim, func(p jobPlace) bool { return once(p) && p.j.Row(history.RowJob) != nil })
		if !ok {
			return false
		}
		x.ask(p.j, "slow", past.ResultInbox)
		row := *p.j.Row(history.RowJob)
		row.Key, row.OwnDetails().JobRow = "slow", &history.JobRow{Kind: history.RowInbox}
		e.insert(row)
		return true
	}},
	{"start of a run that nobody claimed", "P6", companions{"P5": "its job was completed without a start"}, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoClaim, once)
		if ok {
			p.start().Token += 5000
		}
		return ok
	}},
	{"start of another job's run", "P6", companions{"P5": "its job was completed without a start"}, func(e *edit) bool {
		x := e.jobs()
		p, ok := x.step(history.DoClaim, once)
		if !ok {
			return false
		}
		q, ok := x.step(history.DoClaim, func(q jobPlace) bool {
			return once(q) && q.j != p.j && q.j.Shard == p.j.Shard && q.w().To.Fence == p.w().To.Fence && q.w().Pos > p.w().Pos
		})
		if !ok {
			return false
		}
		q.start().Token = p.c().Run
		return true
	}},
	{"start by another process", "P6", nil, func(e *edit) bool {
		x := e.jobs()
		p, ok := x.step(history.DoClaim, once)
		if ok {
			p.start().Proc = x.otherLife(history.Life(p.start().Proc)) + "/r1"
		}
		return ok
	}},
	{"start before its claim is settled", "P6", companions{
		"P12": "it was not due yet",
	}, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoClaim, once)
		if ok {
			p.start().TS = p.inv().TS + 1
			e.index()
		}
		return ok
	}},
	{"start as another attempt", "P6", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoClaim, once)
		if ok {
			p.start().OwnDetails().Attempt++
		}
		return ok
	}},
	{"run started twice", "P6", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoClaim, once)
		if ok {
			twin := *p.start()
			twin.TS++
			e.insert(twin)
		}
		return ok
	}},
	{"claim that was never confirmed", "P6", companions{
		"P7": "the deadline comes earlier",
	}, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoClaim, once)
		if ok {
			end := p.w().OK().End
			end.Type, end.Error = history.Unknown, "timeout"
		}
		return ok
	}},
	{"start decided before the claim was answered", "P7", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoClaim, once)
		if ok {
			p.start().DecidedAt = p.w().OK().End.TS - 1
		}
		return ok
	}},
	{"start decided after the deadline", "P7", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoClaim, once)
		if ok {
			p.start().DecidedAt += 120e9
		}
		return ok
	}},
	{"effect decided after the deadline", "P7", nil, func(e *edit) bool {
		for _, p := range e.some(history.OpEffect, history.OK) {
			p.inv.DecidedAt += 120e9
			return true
		}
		return false
	}},
	{"two owners at once", "P8", nil, func(e *edit) bool {
		for _, l := range e.jobs().a.Rows {
			for _, g := range l.Grants {
				next := slices.IndexFunc(l.Grants, func(h *past.Grant) bool {
					return h.Fence == g.Fence+1 && h.Confirmed != history.Forever && h.Acquire.Write.Pos >= 0
				})
				if g.Release == nil && g.Lost == nil && g.Confirmed != history.Forever && g.Acquire.Write.Pos >= 0 && next >= 0 {
					g.Acquire.Invoke.OwnDetails().TTLMS *= 10
					return true
				}
			}
		}
		return false
	}},
	{"tick by another process", "P9", companions{
		"P6": "what it claims was run by the owner",
		"P7": "the owner's deadline comes earlier",
	}, func(e *edit) bool {
		x := e.jobs()
		for _, p := range e.some(history.OpTick, history.OK) {
			other := x.otherLife(history.Life(p.inv.Proc))
			if other == "" || len(p.inv.Changes()) > 0 {
				continue
			}
			id := e.nextID(other)
			p.inv.Proc, p.end.Proc, p.inv.ID, p.end.ID = other+"/jobs:9", other+"/jobs:9", id, id
			return true
		}
		return false
	}},
	{"tick that skips one", "P9", nil, func(e *edit) bool {
		ps := e.some(history.OpTick, history.OK)
		old := *ps[0].inv.To
		for i := range e.h.Events {
			ev := &e.h.Events[i]
			for _, v := range []**history.Version{&ev.From, &ev.To, &ev.Row} {
				if *v != nil && **v == old {
					skipped := old
					skipped.Beat += 2
					*v = &skipped
				}
			}
		}
		return true
	}},
	{"run that starts early", "P12", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoClaim, once)
		if ok {
			p.start().OwnDetails().WallMS = p.start().DueMS() - 1
		}
		return ok
	}},
	{"run that was due at another time", "P12", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoClaim, once)
		if ok {
			p.start().OwnDetails().DueMS -= 5
		}
		return ok
	}},
	{"enqueue that is due too early", "P12", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoEnqueue, nil)
		if ok {
			respec(p.j, func(j *history.Job) { j.DueMS = p.c().DueMS + 1 })
		}
		return ok
	}},
	{"retry that is due too early", "P12", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoRetry, nil)
		if ok {
			p.redate(p.c().DueMS - 10_000)
		}
		return ok
	}},
	{"rescue that is due before the job's own time", "P12", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoRescue, func(p jobPlace) bool {
			hastened := slices.ContainsFunc(p.j.Steps, func(s past.JobStep) bool { return s.Change.Do == history.DoHasten })
			return p.j.Spec.DueMS > 0 && !hastened
		})
		if ok {
			p.redate(p.j.Spec.DueMS - 1)
		}
		return ok
	}},
	{"claim that is due at another time than its owner said", "P12", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoClaim, func(p jobPlace) bool { return once(p) && p.c().Attempt == 1 && p.said() == p.w().To.Fence })
		if ok {
			p.c().DueMS--
			p.start().OwnDetails().DueMS--
		}
		return ok
	}},
	{"claim that is due later than was said", "P12", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoClaim, once)
		if ok {
			p.c().DueMS++
			d := p.start().OwnDetails()
			d.DueMS, d.WallMS = p.c().DueMS, d.WallMS+1
		}
		return ok
	}},
	{"claim that is due before the job's own time", "P12", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoClaim, func(p jobPlace) bool { return once(p) && p.j.Spec.DueMS > 0 && p.said() != p.w().To.Fence })
		if ok {
			p.c().DueMS = p.j.Spec.DueMS - 1
			p.start().OwnDetails().DueMS = p.c().DueMS
		}
		return ok
	}},
	{"run before its time that was not brought forward", "P12", companions{
		"P2": "a row may show it",
	}, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoHasten, func(p jobPlace) bool { return p.later() != nil && p.later().Do == history.DoClaim })
		if ok {
			p.remove()
		}
		return ok
	}},
	{"job brought forward to a later time", "P12", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoHasten, func(p jobPlace) bool {
			return p.later() != nil && p.later().Do == history.DoClaim && p.said() == p.w().To.Fence
		})
		if ok {
			p.redate(p.c().DueMS + 60_000)
			for _, s := range p.j.Starts {
				s.OwnDetails().WallMS = max(s.WallMS(), s.DueMS())
			}
		}
		return ok
	}},
	{"run claimed while its shard is paused", "P12", nil, func(e *edit) bool {
		x := e.jobs()
		p, ok := x.step(history.DoClaim, once)
		if !ok || p.w().Pos == 0 {
			return false
		}
		before, after := p.w().Main().Row.Chain[p.w().Pos-1], x.tickAfter(p.w())
		if before.OK() == nil || before.Main().Kind() != history.OpTick || after == nil || len(p.w().Main().Row.Replayed.Pauses) > 0 {
			return false
		}
		extend(before, history.Change{Do: history.DoPause})
		extend(after, history.Change{Do: history.DoResume})
		return true
	}},
	{"shard that was not sealed", "P14", nil, func(e *edit) bool {
		ps := e.some(history.OpSeal, history.OK)
		key := ps[0].inv.Key
		ps[0].end.Type, ps[0].end.Error = history.Unknown, "timeout"
		for _, r := range e.all(history.OpRead, history.OK) {
			if r.inv.Key == key {
				r.end.Type, r.end.Row = history.Unknown, nil
			}
		}
		return true
	}},
}

func mutationsOfJobs() []mutation {
	return slices.Concat(jobMutations, jobRunMutations, attemptMutations)
}

// ownRun fits the ends of runs that their own owner ends.
func ownRun(p jobPlace) bool {
	return p.c().Run > 0 && past.RunFence(p.c().Run) == p.w().To.Fence && p.j.Finishes[p.c().Run] != nil && p.i > 0 && p.j.Steps[p.i-1].Change.Do == history.DoClaim
}
