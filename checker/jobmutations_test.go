package checker

import (
	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// jobMutations make a legal history with jobs illegal in one way.
var jobMutations = []mutation{
	{"run id of another fence", "P1", companions{
		"P2": "a run is then ended by an owner of another fence",
		"P6": "the shard was taken by another under that fence",
		"P7": "it is held against the ownership of that fence",
	}, func(e *edit) bool {
		x := e.jobs()
		p, ok := x.step(history.DoClaim, once)
		if !ok {
			return false
		}
		run := p.c().Run
		x.rerun(p.j.Shard, func(r int64) int64 {
			if r == run {
				return r + 1<<32
			}
			return r
		})
		return true
	}},
	{"one run id for two jobs", "P1", companions{
		"P6": "the second shows a run of the first",
	}, func(e *edit) bool {
		x := e.jobs()
		p, ok := x.step(history.DoClaim, once)
		if !ok {
			return false
		}
		q, ok := x.step(history.DoClaim, func(q jobPlace) bool {
			return once(q) && q.j != p.j && q.j.Shard == p.j.Shard && q.w().To.Fence == p.w().To.Fence
		})
		if !ok {
			return false
		}
		from, to := p.c().Run, q.c().Run
		x.rerun(p.j.Shard, func(r int64) int64 {
			if r == from {
				return to
			}
			return r
		})
		return true
	}},
	{"run ids that fall", "P1", nil, func(e *edit) bool {
		x := e.jobs()
		p, ok := x.step(history.DoClaim, once)
		if !ok {
			return false
		}
		q, ok := x.step(history.DoClaim, func(q jobPlace) bool {
			return once(q) && q.j.Shard == p.j.Shard && q.w().To.Fence == p.w().To.Fence && q.w().Pos > p.w().Pos
		})
		if !ok {
			return false
		}
		a, b := p.c().Run, q.c().Run
		x.rerun(p.j.Shard, func(r int64) int64 {
			switch r {
			case a:
				return b
			case b:
				return a
			}
			return r
		})
		return true
	}},
	{"job completed twice", "P2", nil, func(e *edit) bool {
		x := e.jobs()
		p, ok := x.step(history.DoComplete, func(p jobPlace) bool { return p.later() == nil && x.tickAfter(p.w()) != nil })
		if ok {
			extend(x.tickAfter(p.w()), *p.c())
		}
		return ok
	}},
	{"completed job claimed again", "P2", companions{
		"P1": "its run id is out of turn",
		"P5": "it ends running, or was tried too often",
	}, func(e *edit) bool {
		x := e.jobs()
		p, ok := x.step(history.DoComplete, func(p jobPlace) bool { return p.later() == nil && x.tickAfter(p.w()) != nil })
		if ok {
			extend(x.tickAfter(p.w()), history.Change{Job: p.j.ID, Do: history.DoClaim, Run: p.c().Run + 100_000, Attempt: p.c().Attempt + 1})
		}
		return ok
	}},
	{"running job claimed again", "P2", companions{
		"P1": "its run id is out of turn",
		"P5": "it may be tried too often",
		"P6": "the first run's start shows it later",
	}, func(e *edit) bool {
		x := e.jobs()
		p, ok := x.step(history.DoClaim, func(p jobPlace) bool { return once(p) && p.j.Steps[2].Write.Pos > p.w().Pos+1 })
		if !ok {
			return false
		}
		w := p.w().Main().Row.Chain[p.w().Pos+1]
		if w.OK() == nil || w.To.Fence != p.w().To.Fence {
			return false
		}
		extend(w, history.Change{Job: p.j.ID, Do: history.DoClaim, Run: p.c().Run + 100_000, Attempt: 2})
		return true
	}},
	{"attempt left out", "P2", companions{
		"P5": "it may be one too many",
	}, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoClaim, once)
		if !ok {
			return false
		}
		p.c().Attempt, p.j.Steps[2].Change.Attempt, p.start().OwnDetails().Attempt = 2, 2, 2
		return rewrite(p.j, history.RowJob, func(r *history.JobRow) { r.Attempt = 2 })
	}},
	{"complete of another run", "P2", companions{
		"P5": "and that run had not finished",
	}, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoComplete, nil)
		if ok {
			p.c().Run++
		}
		return ok
	}},
	{"completion lost from its batch", "P2", companions{
		"P5": "by the batches it never ended",
	}, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoComplete, nil)
		if ok {
			p.remove()
		}
		return ok
	}},
	{"enqueue lost from its batch", "P2", companions{
		"P5": "it was acknowledged",
	}, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoEnqueue, nil)
		if ok {
			p.remove()
		}
		return ok
	}},
	{"job row of an earlier state", "P2", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoComplete, func(p jobPlace) bool { return p.later() == nil })
		return ok && rewrite(p.j, history.RowJob, func(r *history.JobRow) { r.State = past.StateRunning })
	}},
	{"job row of an earlier run", "P2", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoDLQ, nil)
		return ok && rewrite(p.j, history.RowJob, func(r *history.JobRow) { r.Run-- })
	}},
	{"job row gone", "P2", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoComplete, func(p jobPlace) bool { return p.later() == nil })
		if ok {
			e.drop(func(ev *history.Event) bool { return ev.Op == history.NoteRow && ev.Key == p.j.ID })
		}
		return ok
	}},
	{"pending row of a job that ended", "P2", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoComplete, func(p jobPlace) bool { return p.later() == nil })
		if !ok {
			return false
		}
		row := *p.j.Row(history.RowJob)
		row.OwnDetails().JobRow = &history.JobRow{Kind: history.RowPending}
		e.insert(row)
		return true
	}},
	{"rows of a job that was swept", "P2", nil, func(e *edit) bool {
		x := e.jobs()
		p, ok := x.step(history.DoSweep, func(p jobPlace) bool { return p.later() == nil })
		if !ok {
			return false
		}
		q, ok := x.step(history.DoComplete, func(q jobPlace) bool { return q.later() == nil && q.j.Shard == p.j.Shard })
		if !ok {
			return false
		}
		row := *q.j.Row(history.RowJob)
		row.Key = p.j.ID
		e.insert(row)
		return true
	}},
	{"job changed twice in a batch", "P2", companions{
		"P5": "it is forgotten at its end",
	}, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoComplete, func(p jobPlace) bool { return p.later() == nil })
		if ok {
			extend(p.w(), history.Change{Job: p.j.ID, Do: history.DoSweep})
		}
		return ok
	}},
	{"run of an earlier owner retried", "P2", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoRescue, nil)
		if ok {
			p.c().Do = history.DoRetry
		}
		return ok
	}},
	{"own run rescued", "P2", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoRetry, nil)
		if ok {
			p.c().Do = history.DoRescue
		}
		return ok
	}},
	{"dead job swept", "P2", nil, func(e *edit) bool {
		x := e.jobs()
		p, ok := x.step(history.DoDLQ, func(p jobPlace) bool { return x.tickAfter(p.w()) != nil })
		if ok {
			extend(x.tickAfter(p.w()), history.Change{Job: p.j.ID, Do: history.DoSweep})
		}
		return ok
	}},
	{"completed job redriven", "P2", companions{
		"P5": "it is not run again",
	}, func(e *edit) bool {
		x := e.jobs()
		p, ok := x.step(history.DoComplete, func(p jobPlace) bool { return p.later() == nil && x.tickAfter(p.w()) != nil })
		if ok {
			extend(x.tickAfter(p.w()), history.Change{Job: p.j.ID, Do: history.DoRedrive, DueMS: p.j.Now.Due})
		}
		return ok
	}},
	{"attempts counted on after a redrive", "P2", companions{
		"P5": "it may be one too many",
		"P6": "the start says otherwise",
	}, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoRedrive, func(p jobPlace) bool {
			return p.i > 0 && p.j.Steps[p.i-1].Change.Attempt > 0 && p.later() != nil && p.later().Do == history.DoClaim
		})
		if ok {
			p.later().Attempt += p.j.Steps[p.i-1].Change.Attempt
		}
		return ok
	}},
	{"running job brought forward", "P2", companions{
		"P5": "it is not claimed again",
	}, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoClaim, func(p jobPlace) bool { return once(p) && p.j.Steps[2].Write.Pos > p.w().Pos+1 })
		if !ok {
			return false
		}
		w := p.w().Main().Row.Chain[p.w().Pos+1]
		if w.OK() == nil {
			return false
		}
		extend(w, history.Change{Job: p.j.ID, Do: history.DoHasten, Run: p.c().Run, Attempt: 1, DueMS: p.c().DueMS})
		return true
	}},
	{"job brought forward after another run", "P2", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoHasten, nil)
		if ok {
			p.c().Run += 7
		}
		return ok
	}},
	{"pending job cancelled after another run", "P2", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoCancel, func(p jobPlace) bool { return p.i > 0 && p.j.Steps[p.i-1].Change.Do != history.DoClaim })
		if ok {
			p.c().Run += 7
		}
		return ok
	}},
	{"applied tick recorded as refused", "P2", companions{
		"P5": "the store seems to have refused its jobs",
		"P6": "runs start that no answer allowed",
		"P7": "and the deadline comes earlier",
	}, func(e *edit) bool {
		ps := e.some(history.OpTick, history.OK)
		ps[0].end.Type, ps[0].end.Error = history.Fail, "unavailable"
		return true
	}},
	{"acknowledged tick lost", "P2", companions{
		"P9": "the next one skips it",
		"P5": "and what it did to jobs",
		"P6": "and what it claimed",
		"P1": "and what it claimed",
	}, func(e *edit) bool {
		for _, p := range e.some(history.OpTick, history.OK) {
			if len(p.inv.Changes()) > 0 {
				continue
			}
			for _, q := range e.ops {
				if q.inv.From != nil && *q.inv.From == *p.inv.To && q.inv.Op == history.OpTick {
					q.inv.From = ptr(*p.inv.From)
					return true
				}
			}
		}
		return false
	}},
	{"rejection without a reason", "P2", nil, func(e *edit) bool {
		for _, p := range e.some(history.OpTick, history.Fail) {
			if p.end.Row != nil && *p.end.Row == *p.inv.From && len(p.inv.Changes()) > 0 {
				p.inv.OwnDetails().Changes = []history.Change{{Job: "new", Do: history.DoEnqueue, DueMS: 1}}
				return true
			}
		}
		return false
	}},
	{"stale SERIAL read of a header", "P2", nil, func(e *edit) bool {
		for _, p := range e.some(history.OpRead, history.OK) {
			ticks := e.some(history.OpTick, history.OK)
			for _, q := range ticks {
				if q.inv.Key == p.inv.Key {
					p.end.Row = q.inv.To
					return true
				}
			}
		}
		return false
	}},
	{"unknown take recorded as applied", "P2", companions{
		"P1": "its fence was taken by another too",
		"P8": "both are entitled until their deadlines",
		"P9": "a tick of an ownership that had passed on",
	}, func(e *edit) bool {
		for _, l := range e.jobs().a.Rows {
			for _, c := range l.CAS {
				if c.Kind() == history.OpTake && c.Outcome != history.OK && c.End != nil && l.Fate(c.Write) == past.Never {
					c.End.Type, c.End.Row, c.End.Error = history.OK, nil, ""
					return true
				}
			}
		}
		return false
	}},
	{"effect that a completed job lacks", "P4", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoComplete, nil)
		if ok {
			respec(p.j, func(j *history.Job) { j.Steps = append(j.Steps, "s7") })
		}
		return ok
	}},
	{"effect that its job does not list", "P4", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoComplete, nil)
		if ok {
			respec(p.j, func(j *history.Job) { j.Steps = j.Steps[1:] })
		}
		return ok
	}},
	{"effect of a job applied twice", "P4", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoComplete, func(p jobPlace) bool { // and no later run has raised
			ledger := e.ledger(p.j.Spec.Resource)
			return len(ledger) > 0 && ledger[len(ledger)-1].Ledger().Value != nil
		})
		if !ok {
			return false
		}
		ledger := e.ledger(p.j.Spec.Resource)
		last := *ledger[len(ledger)-1]
		l := *last.Ledger()
		l.Seq, l.Value = l.Seq+1, ptr(*l.Value+1)
		last.OwnDetails().Ledger = &l
		final := e.final(p.j.Spec.Resource)
		final.Seq, final.Value = l.Seq, l.Value
		e.insert(last)
		return true
	}},
}
