package checker

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"fencepost/checker/past"
	"fencepost/core/job"
	"fencepost/harness/record/history"
)

// jobRunMutations are about who was told what, and about runs and their times.
var jobRunMutations = []mutation{
	{"acknowledged job that is in no shard", "P5", nil, step(history.DoClaim, once, func(p jobPlace) {
		p.x.ask(p.j, "nowhere", past.ResultApplied)
	})},
	{"acknowledged job that is in no inbox", "P5", nil, step(history.DoClaim, once, func(p jobPlace) {
		p.x.ask(p.j, "nowhere", past.ResultInbox)
	})},
	{"duplicate of a job that is nowhere", "P5", nil, step(history.DoClaim, once, func(p jobPlace) {
		p.x.ask(p.j, "nowhere", past.ResultDuplicate)
	})},
	{"duplicate before its job was enqueued", "P5", nil, stepIf(history.DoClaim, once, func(p jobPlace) bool {
		o := p.j.Calls[0]
		o.End.Result, o.End.Sends = past.ResultDuplicate, nil
		o.End.TS = min(o.End.TS, p.j.Steps[0].Write.Main().Invoke.TS-1)
		p.x.index()
		return o.End.TS > o.Invoke.TS
	})},
	{"failed enqueue whose job exists", "P5", nil, step(history.DoClaim, once, func(p jobPlace) {
		end := p.j.Calls[0].End
		end.Type, end.Result, end.Error = history.Fail, "", "busy"
	})},
	{"job that nobody enqueued", "P5", nil, step(history.DoClaim, once, func(p jobPlace) {
		o := p.j.Calls[0]
		o.Invoke.Key, o.End.Key = "other", "other"
	})},
	{"job given up too early", "P5", nil, step(history.DoDLQ, func(p jobPlace) bool {
		return p.c().Run > 0 && p.i > 0 && p.j.Steps[p.i-1].Change.Do == history.DoClaim
	}, respec(func(_ jobPlace, j *history.Job) { j.MaxAttempts++ }))},
	{"job tried too often", "P5", nil,
		step(history.DoClaim, func(p jobPlace) bool { return p.c().Attempt > 1+p.j.UncountedBefore(p.i) },
			respec(func(p jobPlace, j *history.Job) { j.MaxAttempts = 1 }))},
	{"job abandoned that must run", "P5", nil,
		step(history.DoAbandon, nil, respec(func(p jobPlace, j *history.Job) { j.AtMostOnce = false }))},
	{"job rescued that may run once", "P5", nil,
		step(history.DoRescue, nil, respec(func(p jobPlace, j *history.Job) { j.AtMostOnce = true }))},
	{"job completed before its run finished", "P5", nil, step(history.DoComplete, nil, func(p jobPlace) {
		p.j.Finishes[p.c().Run].TS = p.w().Main().End.TS + 1
		p.x.index()
	})},
	{"job completed whose run never started", "P5", nil, step(history.DoComplete, nil, func(p jobPlace) {
		p.x.drop(func(ev *history.Event) bool {
			return ev.Op == history.NoteStart && ev.Key == p.j.ID && ev.Token == p.c().Run
		})
	})},
	{"job given up whose run finished well", "P5", nil, step(history.DoDLQ, ownRun, func(p jobPlace) {
		p.j.Finishes[p.c().Run].Error = ""
	})},
	{"job given up before its run finished", "P5", nil, step(history.DoDLQ, ownRun, func(p jobPlace) {
		p.j.Finishes[p.c().Run].TS = p.w().Main().End.TS + 1
		p.x.index()
	})},
	{"failed run completed", "P5", nil,
		step(history.DoComplete, nil, func(p jobPlace) { p.j.Finishes[p.c().Run].Error = "boom" })},
	{"job that never ends", "P5", nil, stepIf(history.DoComplete, lastChange, func(p jobPlace) bool {
		p.remove()
		return rewrite(p.j, history.RowJob, func(r *history.JobRow) { r.State = past.StateRunning }) &&
			rewrite(p.j, history.RowEnded, func(r *history.JobRow) { r.Kind = history.RowRunning })
	})},
	{"job that stays in the inbox", "P5", nil,
		step(history.DoClaim, func(p jobPlace) bool { return once(p) && p.j.Row(history.RowJob) != nil }, func(p jobPlace) {
			p.x.ask(p.j, "slow", past.ResultInbox)
			row := *p.j.Row(history.RowJob)
			row.Key, row.OwnDetails().JobRow = "slow", &history.JobRow{Kind: history.RowInbox}
			p.x.insert(row)
		})},
	{"start of a run that nobody claimed", "P6", companions{"P5": "its job was completed without a start"},
		step(history.DoClaim, once, func(p jobPlace) {
			p.start().Token += 5000
		})},
	{"start of another job's run", "P6", companions{"P5": "its job was completed without a start"},
		stepIf(history.DoClaim, once, func(p jobPlace) bool {
			q, ok := p.x.step(history.DoClaim, func(q jobPlace) bool { return once(q) && q.follows(p) })
			if !ok {
				return false
			}
			q.start().Token = p.c().Run
			return true
		})},
	{"start by another process", "P6", nil, step(history.DoClaim, once, func(p jobPlace) {
		p.start().Proc = p.x.otherLife(history.Life(p.start().Proc)) + "/r1"
	})},
	{"start before its claim is settled", "P6", companions{"P12": "it was not due yet"},
		step(history.DoClaim, once, func(p jobPlace) {
			p.start().TS = p.inv().TS + 1
			p.x.index()
		})},
	{"start as another attempt", "P6", nil,
		step(history.DoClaim, once, func(p jobPlace) { p.start().OwnDetails().Attempt++ })},
	{"run started twice", "P6", nil, step(history.DoClaim, once, func(p jobPlace) {
		twin := *p.start()
		twin.TS++
		p.x.insert(twin)
	})},
	{"claim that was never confirmed", "P6", companions{"P7": "the deadline comes earlier"},
		step(history.DoClaim, once, func(p jobPlace) {
			end := p.w().OK().End
			end.Type, end.Error = history.Unknown, "timeout"
		})},
	{"start decided before the claim was answered", "P7", nil, step(history.DoClaim, once, func(p jobPlace) {
		p.start().DecidedAt = p.w().OK().End.TS - 1
	})},
	{"start decided after the deadline", "P7", nil,
		step(history.DoClaim, once, func(p jobPlace) { p.start().DecidedAt += 120e9 })},
	{"effect decided after the deadline", "P7", nil, first(history.OpEffect, history.OK, nil, func(e *edit, p pair) {
		p.inv.DecidedAt += 120e9
	})},
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
	{"tick that skips one", "P9", nil, first(history.OpTick, history.OK, nil, func(e *edit, p pair) {
		old := *p.inv.To
		e.revise(func(v history.Version) bool { return v == old }, func(v *history.Version) { v.Beat += 2 })
	})},
	{"run that starts early", "P12", nil, step(history.DoClaim, once, func(p jobPlace) {
		p.start().OwnDetails().WallMS = p.start().DueMS() - 1
	})},
	{"run that was due at another time", "P12", nil, step(history.DoClaim, once, func(p jobPlace) {
		p.start().OwnDetails().DueMS -= 5
	})},
	{"enqueue that is due too early", "P12", nil,
		step(history.DoEnqueue, nil, respec(func(p jobPlace, j *history.Job) { j.DueMS = p.c().DueMS + 1 }))},
	{"retry that is due too early", "P12", nil,
		step(history.DoRetry, nil, func(p jobPlace) { p.redate(p.c().DueMS - 10_000) })},
	{"retry that is due before its backoff is over", "P12", nil,
		stepIf(history.DoRetry, nil, func(p jobPlace) bool {
			f := p.j.Finishes[p.c().Run]
			if f == nil || f.Error == "" || p.j.Spec == nil || len(p.x.a.Clocks[history.Life(f.Proc)]) > 0 {
				return false
			}
			// By a policy that is longer than the one that was kept.
			respec(func(_ jobPlace, j *history.Job) {
				j.Retry = &history.Retry{BaseMS: 5_000, Factor: 2, MaxMS: 20_000, Jitter: 0.1}
			})(p)
			return len(p.j.Calls) > 0
		})},
	{"rescue that is due before the job's own time", "P12", nil, step(history.DoRescue, func(p jobPlace) bool {
		hastened := slices.ContainsFunc(p.j.Steps, func(s past.JobStep) bool { return s.Change.Do == history.DoHasten })
		return p.j.Spec.DueMS > 0 && !hastened
	}, func(p jobPlace) { p.redate(p.j.Spec.DueMS - 1) })},
	{"claim that is due at another time than its owner said", "P12", nil,
		step(history.DoClaim, func(p jobPlace) bool { return once(p) && p.c().Attempt == 1 && p.said() == p.w().To.Fence }, func(p jobPlace) {
			p.c().DueMS--
			p.start().OwnDetails().DueMS--
		})},
	{"claim that is due later than was said", "P12", nil, step(history.DoClaim, once, func(p jobPlace) {
		p.c().DueMS++
		d := p.start().OwnDetails()
		d.DueMS, d.WallMS = p.c().DueMS, d.WallMS+1
	})},
	{"claim that is due before the job's own time", "P12", nil,
		step(history.DoClaim, func(p jobPlace) bool { return once(p) && p.j.Spec.DueMS > 0 && p.said() != p.w().To.Fence }, func(p jobPlace) {
			p.c().DueMS = p.j.Spec.DueMS - 1
			p.start().OwnDetails().DueMS = p.c().DueMS
		})},
	{"run before its time that was not brought forward", "P12", companions{"P2": "a row may show it", "P5": "its client was told that it was"},
		step(history.DoHasten, thenClaimed, func(p jobPlace) {
			p.remove()
		})},
	{"job brought forward to a later time", "P12", nil, step(history.DoHasten, func(p jobPlace) bool {
		return p.later() != nil && p.later().Do == history.DoClaim && p.said() == p.w().To.Fence
	}, func(p jobPlace) {
		p.redate(p.c().DueMS + 60_000)
		for _, s := range p.j.Starts {
			s.OwnDetails().WallMS = max(s.WallMS(), s.DueMS())
		}
	})},
	{"run claimed while its shard is paused", "P12", companions{"P5": "nobody had asked for the pause"}, stepIf(history.DoClaim, once, func(p jobPlace) bool {
		if p.w().Pos == 0 {
			return false
		}
		before, after := p.w().Main().Row.Chain[p.w().Pos-1], p.tickAfter()
		if before.OK() == nil || before.Main().Kind() != history.OpTick || after == nil || len(p.w().Main().Row.Replayed.Pauses) > 0 {
			return false
		}
		extend(before, history.Change{Do: history.DoPause})
		extend(after, history.Change{Do: history.DoResume})
		return true
	})},
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
	return slices.Concat(jobMutations, jobRunMutations, attemptMutations, commandMutations, mixtureMutations)
}

// ownRun fits the ends of runs that their own owner ends.
func ownRun(p jobPlace) bool {
	return p.c().Run > 0 && past.RunFence(p.c().Run) == p.w().To.Fence && p.j.Finishes[p.c().Run] != nil && p.i > 0 &&
		p.j.Steps[p.i-1].Change.Do == history.DoClaim
}

// TestCoreMeansTheSame: the checker reads what core's words say, without being a part of it.
func TestCoreMeansTheSame(t *testing.T) {
	t.Parallel()
	for prefix, err := range map[string]error{past.InterruptedPrefix: job.ErrInterrupted, past.NotHerePrefix: job.NotHere(errors.New("x"))} {
		if !strings.HasPrefix(err.Error(), prefix) {
			t.Errorf("%q does not begin with %q", err, prefix)
		}
	}
	if past.MaxUncounted != job.MaxInterruptions {
		t.Errorf("%d runs may spend no attempt, core says %d", past.MaxUncounted, job.MaxInterruptions)
	}
}

// lastTry fits the ends of jobs whose own run was the last that they may have.
func lastTry(p jobPlace) bool {
	return ownRun(p) && p.j.Spec != nil && p.c().Attempt-p.j.UncountedBefore(p.i) == p.j.Spec.MaxAttempts
}

// attemptMutations are about what counts as an attempt.
var attemptMutations = []mutation{
	{"job given up whose last run was interrupted", "P5", nil, step(history.DoDLQ, lastTry, func(p jobPlace) {
		p.j.Finishes[p.c().Run].Error = job.ErrInterrupted.Error()
	})},
	{"job given up when runs that were cut short are counted", "P5", nil,
		step(history.DoDLQ, func(p jobPlace) bool { return lastTry(p) && p.j.UncountedBefore(p.i) > 0 },
			respec(func(p jobPlace, j *history.Job) { j.MaxAttempts = p.c().Attempt }))},
	{"job given up after a retry that was interrupted", "P5", nil, func(e *edit) bool {
		_, ok := interruptedRetry(e)
		return ok
	}},
}

// interruptedRetry makes the first run of a job that is given up one that was interrupted.
func interruptedRetry(e *edit) (jobPlace, bool) {
	p, ok := e.jobs().step(history.DoDLQ, func(p jobPlace) bool {
		return lastTry(p) && p.c().Attempt > 1 && p.j.Steps[2].Change.Do == history.DoRetry && p.j.UncountedBefore(p.i) == 0
	})
	if ok {
		p.j.Finishes[p.j.Steps[2].Change.Run].Error = job.ErrInterrupted.Error()
	}
	return p, ok
}

// TestInterruptedRetryIsLegal: a job that may fail once less is given up rightly when one
// of its runs was interrupted.
func TestInterruptedRetryIsLegal(t *testing.T) {
	t.Parallel()
	done := 0
	for seed := uint64(0); seed < 30 && done < 2; seed++ {
		e := newEdit(simulate(shortJobs(seed)))
		e.draw = rand.New(rand.NewPCG(seed, 2)).IntN
		p, ok := interruptedRetry(e)
		if !ok {
			continue
		}
		done++
		respec(func(_ jobPlace, j *history.Job) { j.MaxAttempts-- })(p)
		if r := Check(context.Background(), e.h, Options{}); r.Verdict != Pass {
			t.Errorf("seed %d: %s: %s", seed, r.Verdict, firstViolation(r, "P5"))
		}
	}
	if done == 0 {
		t.Error("no history has such a job")
	}
}
