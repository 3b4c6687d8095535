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
	}, step(history.DoClaim, once, func(p jobPlace) {
		run := p.c().Run
		p.x.rerun(p.j.Shard, func(r int64) int64 {
			if r == run {
				return r + 1<<32
			}
			return r
		})
	})},
	{"one run id for two jobs", "P1", companions{"P6": "the second shows a run of the first"},
		stepIf(history.DoClaim, once, func(p jobPlace) bool {
			q, ok := p.x.step(history.DoClaim, func(q jobPlace) bool {
				return once(q) && q.j != p.j && q.j.Shard == p.j.Shard && q.w().To.Fence == p.w().To.Fence
			})
			if !ok {
				return false
			}
			from, to := p.c().Run, q.c().Run
			p.x.rerun(p.j.Shard, func(r int64) int64 {
				if r == from {
					return to
				}
				return r
			})
			return true
		})},
	{"run ids that fall", "P1", nil, stepIf(history.DoClaim, once, func(p jobPlace) bool {
		q, ok := p.x.step(history.DoClaim, func(q jobPlace) bool { return once(q) && q.follows(p) })
		if !ok {
			return false
		}
		a, b := p.c().Run, q.c().Run
		p.x.rerun(p.j.Shard, func(r int64) int64 {
			switch r {
			case a:
				return b
			case b:
				return a
			}
			return r
		})
		return true
	})},
	{"job completed twice", "P2", nil, step(history.DoComplete, lastChangeThenTick, func(p jobPlace) {
		extend(p.tickAfter(), *p.c())
	})},
	{"completed job claimed again", "P2", companions{
		"P1": "its run id is out of turn",
		"P5": "it ends running, or was tried too often",
	}, step(history.DoComplete, lastChangeThenTick, func(p jobPlace) {
		extend(p.tickAfter(), history.Change{Job: p.j.ID, Do: history.DoClaim, Run: p.c().Run + 100_000, Attempt: p.c().Attempt + 1})
	})},
	{"running job claimed again", "P2", companions{
		"P1": "its run id is out of turn",
		"P5": "it may be tried too often",
		"P6": "the first run's start shows it later",
	}, stepIf(history.DoClaim, onceAndLong, func(p jobPlace) bool {
		w := p.w().Main().Row.Chain[p.w().Pos+1]
		if w.OK() == nil || w.To.Fence != p.w().To.Fence {
			return false
		}
		extend(w, history.Change{Job: p.j.ID, Do: history.DoClaim, Run: p.c().Run + 100_000, Attempt: 2})
		return true
	})},
	{"attempt left out", "P2", companions{"P5": "it may be one too many"},
		stepIf(history.DoClaim, once, func(p jobPlace) bool {
			p.c().Attempt, p.j.Steps[2].Change.Attempt, p.start().OwnDetails().Attempt = 2, 2, 2
			return rewrite(p.j, history.RowJob, func(r *history.JobRow) { r.Attempt = 2 })
		})},
	{"complete of another run", "P2", companions{"P5": "and that run had not finished"},
		step(history.DoComplete, nil, func(p jobPlace) { p.c().Run++ })},
	{"completion lost from its batch", "P2", companions{"P5": "by the batches it never ended"},
		step(history.DoComplete, nil, func(p jobPlace) { p.remove() })},
	{"enqueue lost from its batch", "P2", companions{"P5": "it was acknowledged"},
		step(history.DoEnqueue, nil, func(p jobPlace) { p.remove() })},
	{"job row of an earlier state", "P2", nil, stepIf(history.DoComplete, lastChange, func(p jobPlace) bool {
		return rewrite(p.j, history.RowJob, func(r *history.JobRow) { r.State = past.StateRunning })
	})},
	{"job row of an earlier run", "P2", nil, stepIf(history.DoDLQ, nil, func(p jobPlace) bool {
		return rewrite(p.j, history.RowJob, func(r *history.JobRow) { r.Run-- })
	})},
	{"job row gone", "P2", nil, step(history.DoComplete, lastChange, func(p jobPlace) {
		p.x.drop(func(ev *history.Event) bool { return ev.Op == history.NoteRow && ev.Key == p.j.ID })
	})},
	{"pending row of a job that ended", "P2", nil, step(history.DoComplete, lastChange, func(p jobPlace) {
		row := *p.j.Row(history.RowJob)
		row.OwnDetails().JobRow = &history.JobRow{Kind: history.RowPending}
		p.x.insert(row)
	})},
	{"rows of a job that was swept", "P2", nil, stepIf(history.DoSweep, lastChange, func(p jobPlace) bool {
		q, ok := p.x.step(history.DoComplete, func(q jobPlace) bool { return q.later() == nil && q.j.Shard == p.j.Shard })
		if !ok {
			return false
		}
		row := *q.j.Row(history.RowJob)
		row.Key = p.j.ID
		p.x.insert(row)
		return true
	})},
	{"job changed twice in a batch", "P2", companions{"P5": "it is forgotten at its end"},
		step(history.DoComplete, lastChange, func(p jobPlace) {
			extend(p.w(), history.Change{Job: p.j.ID, Do: history.DoSweep})
		})},
	{"run of an earlier owner retried", "P2", nil,
		step(history.DoRescue, nil, func(p jobPlace) { p.c().Do = history.DoRetry })},
	{"own run rescued", "P2", nil, step(history.DoRetry, nil, func(p jobPlace) { p.c().Do = history.DoRescue })},
	{"rescue that has forgotten the attempts", "P2", nil, step(history.DoRescue, nil, func(p jobPlace) { p.c().Attempt = 0 })},
	{"abandonment that has forgotten the attempts", "P2", nil, step(history.DoAbandon, nil, func(p jobPlace) { p.c().Attempt = 0 })},
	{"dead job swept", "P2", nil,
		step(history.DoDLQ, func(p jobPlace) bool { return p.tickAfter() != nil }, func(p jobPlace) {
			extend(p.tickAfter(), history.Change{Job: p.j.ID, Do: history.DoSweep})
		})},
	{"completed job redriven", "P2", companions{"P5": "it is not run again"},
		step(history.DoComplete, lastChangeThenTick, func(p jobPlace) {
			extend(p.tickAfter(), history.Change{Job: p.j.ID, Do: history.DoRedrive, DueMS: p.j.Now.Due})
		})},
	{"attempts counted on after a redrive", "P2", companions{
		"P5": "it may be one too many",
		"P6": "the start says otherwise",
	}, step(history.DoRedrive, func(p jobPlace) bool {
		return p.i > 0 && p.j.Steps[p.i-1].Change.Attempt > 0 && p.later() != nil && p.later().Do == history.DoClaim
	}, func(p jobPlace) { p.later().Attempt += p.j.Steps[p.i-1].Change.Attempt })},
	{"running job brought forward", "P2", companions{"P5": "it is not claimed again"},
		stepIf(history.DoClaim, onceAndLong, func(p jobPlace) bool {
			w := p.w().Main().Row.Chain[p.w().Pos+1]
			if w.OK() == nil {
				return false
			}
			extend(w, history.Change{Job: p.j.ID, Do: history.DoHasten, Run: p.c().Run, Attempt: 1, DueMS: p.c().DueMS})
			return true
		})},
	{"job brought forward after another run", "P2", nil, step(history.DoHasten, nil, func(p jobPlace) { p.c().Run += 7 })},
	{"pending job cancelled after another run", "P2", nil,
		step(history.DoCancel, func(p jobPlace) bool { return p.i > 0 && p.j.Steps[p.i-1].Change.Do != history.DoClaim }, func(p jobPlace) {
			p.c().Run += 7
		})},
	{"applied tick recorded as refused", "P2", companions{
		"P5": "the store seems to have refused its jobs",
		"P6": "runs start that no answer allowed",
		"P7": "and the deadline comes earlier",
	}, first(history.OpTick, history.OK, nil, func(_ *edit, p pair) { p.end.Type, p.end.Error = history.Fail, "unavailable" })},
	{"acknowledged tick lost", "P2", companions{
		"P9": "the next one skips it",
		"P5": "and what it did to jobs",
		"P6": "and what it claimed",
		"P1": "and what it claimed",
	}, firstIf(history.OpTick, history.OK, func(e *edit, p pair) bool {
		if len(p.inv.Changes()) > 0 {
			return false
		}
		for _, q := range e.ops {
			if q.inv.From != nil && *q.inv.From == *p.inv.To && q.inv.Op == history.OpTick {
				q.inv.From = ptr(*p.inv.From)
				return true
			}
		}
		return false
	})},
	{"rejection without a reason", "P2", nil,
		first(history.OpTick, history.Fail, func(_ *edit, p pair) bool {
			return p.end.Row != nil && *p.end.Row == *p.inv.From && len(p.inv.Changes()) > 0
		}, func(e *edit, p pair) {
			p.inv.OwnDetails().Changes = []history.Change{{Job: "new", Do: history.DoEnqueue, DueMS: 1}}
		})},
	{"stale SERIAL read of a header", "P2", nil, firstIf(history.OpRead, history.OK, func(e *edit, p pair) bool {
		ticks := e.some(history.OpTick, history.OK)
		for _, q := range ticks {
			if q.inv.Key == p.inv.Key {
				p.end.Row = q.inv.To
				return true
			}
		}
		return false
	})},
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
	{"effect that a completed job lacks", "P4", nil,
		step(history.DoComplete, nil, respec(func(p jobPlace, j *history.Job) { j.Steps = append(j.Steps, "s7") }))},
	{"effect that its job does not list", "P4", nil,
		step(history.DoComplete, nil, respec(func(p jobPlace, j *history.Job) { j.Steps = j.Steps[1:] }))},
	{"effect of a job applied twice", "P4", nil,
		step(history.DoComplete, func(p jobPlace) bool { // and no later run has raised
			ledger := p.x.ledger(p.j.Spec.Resource)
			return len(ledger) > 0 && ledger[len(ledger)-1].Ledger().Value != nil
		}, func(p jobPlace) {
			ledger := p.x.ledger(p.j.Spec.Resource)
			last := *ledger[len(ledger)-1]
			l := *last.Ledger()
			l.Seq, l.Value = l.Seq+1, ptr(*l.Value+1)
			last.OwnDetails().Ledger = &l
			final := p.x.final(p.j.Spec.Resource)
			final.Seq, final.Value = l.Seq, l.Value
			p.x.insert(last)
		})},
}
