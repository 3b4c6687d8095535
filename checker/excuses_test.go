package checker

import (
	"context"
	"strings"
	"testing"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// lostJob is a legal history with one job more, which was acknowledged, that a batch enqueues as due
// so many ms later than another one; place is that job of the batch.
func lostJob(late int64) (e *edit, place jobPlace, w *past.Write) {
	e = newEdit(simulate(shortJobs(3)))
	x := e.jobs()
	p, ok := x.step(history.DoClaim, func(p jobPlace) bool {
		end := p.j.Steps[len(p.j.Steps)-1].Write
		return once(p) && p.j.Spec.DueMS == 0 && end.OK() != nil && end.Main().Kind() == history.OpTick && jobPlace{x, p.j, len(p.j.Steps) - 1}.tickAfter() != nil
	})
	if !ok {
		panic("no job")
	}
	due := p.j.Steps[0].Change.DueMS + late
	x.ask(p.j, "lost", past.ResultApplied)
	x = e.jobs()
	q, _ := x.step(history.DoComplete, func(q jobPlace) bool { return q.j.ID == p.j.ID })
	extend(q.w(), history.Change{Job: "lost", Do: history.DoEnqueue, DueMS: due})
	e.answeredAfter("lost", q.w())
	for _, j := range e.jobs().a.Jobs.List {
		if j.ID == "lost" {
			place = jobPlace{e.jobs(), j, 0}
		}
	}
	return e, place, place.tickAfter()
}

// leave notes rows that a job has left.
func (e *edit) leave(shard, id string, rows ...history.JobRow) {
	var out []history.Event
	for i := range rows {
		row := history.Event{TS: e.h.Events[len(e.h.Events)-1].TS, Proc: history.Harness, Type: history.Note, Op: history.NoteRow, Key: id, Issuer: shard, File: "harness.jsonl", Line: 1}
		row.OwnDetails().JobRow = &rows[i]
		out = append(out, row)
	}
	e.insert(out...)
}

// callBefore inserts a call of a job ahead of its own, that was not sent and asks for it as it was;
// the job's own call is changed.
func (e *edit) callBefore(c *past.Op, change func(*history.Job)) {
	inv, end := *c.Invoke, *c.End
	inv.Proc = history.Life(inv.Proc) + "/e9"
	inv.ID = e.nextID(inv.Proc)
	inv.Details, end.Details = &history.Details{Job: c.Invoke.Job()}, nil
	end.ID, end.Proc = inv.ID, inv.Proc
	inv.TS, end.TS = c.Invoke.TS-2, c.Invoke.TS-1
	end.Type, end.Result, end.Error, end.Sends = history.Fail, "", "not sent", nil
	spec := *c.Invoke.Job()
	change(&spec)
	c.Invoke.OwnDetails().Job = &spec
	e.insert(inv, end)
}

// TestExcuses: what excuses one thing excuses nothing else. Each history is wrong, or just not.
func TestExcuses(t *testing.T) {
	t.Parallel()
	const year = int64(365 * 86_400_000)
	steps := func(do string, fits func(jobPlace) bool, change func(jobPlace)) func() *history.History {
		return func() *history.History {
			for seed := uint64(0); seed < 40; seed++ {
				e := newEdit(simulate(shortJobs(seed)))
				if step(do, fits, change)(e) {
					return e.h
				}
			}
			panic("no history has such a step")
		}
	}
	again := func(result string) func() *history.History {
		return func() *history.History {
			for seed := uint64(0); seed < 40; seed++ {
				e := newEdit(simulate(shortJobs(seed)))
				if enqueuedAgain(e, result) {
					return e.h
				}
			}
			panic("no history has a swept job")
		}
	}
	refused := func(with ...history.Change) func() *history.History {
		return func() *history.History {
			e, p, w := lostJob(0)
			before := p.w().Main().Row.Chain[w.Pos-1]
			inv, end := *w.Main().Invoke, *w.Main().End
			inv.ID = e.nextID(inv.Proc)
			end.ID = inv.ID
			inv.TS, end.TS = w.Main().Invoke.TS-3, w.Main().Invoke.TS-2
			end.Sends, end.Type, end.Error, end.Row, end.Details = nil, history.Fail, "unavailable: 1 of 2 replicas", nil, nil
			to := *w.To.Version
			to.Attempt = "refused"
			inv.From, inv.To = before.To.Version, &to
			inv.Details = &history.Details{WallMS: inv.WallMS(), Changes: append(with, history.Change{Job: "lost", Do: history.DoClaim, Run: w.To.Fence<<32 + 900_000, Attempt: 1})}
			extend(w, history.Change{Job: "lost", Do: history.DoDLQ})
			e.leave(p.j.Shard, "lost", history.JobRow{Kind: history.RowJob, State: past.StateDLQ}, history.JobRow{Kind: history.RowDLQ})
			e.insert(inv, end)
			return e.h
		}
	}
	cancelled := func(asked bool) func() *history.History {
		return func() *history.History {
			e, p, w := lostJob(0)
			extend(w, history.Change{Job: "lost", Do: history.DoCancel})
			life, from, to := history.Life(w.Main().Invoke.Proc), w.Main().Invoke.TS-1, w.OK().End.TS+1
			e.leave(p.j.Shard, "lost", history.JobRow{Kind: history.RowJob, State: past.StateCancelled}, history.JobRow{Kind: history.RowEnded})
			if asked {
				e.command(life, p.j.Shard, "lost", history.DoCancel, from, to, doneSo)
			}
			return e.h
		}
	}
	clockSet := func(early bool) func() *history.History {
		return func() *history.History {
			e := newEdit(simulate(shortJobs(3)))
			at := e.h.Events[len(e.h.Events)-1].TS
			if early {
				at = e.h.Events[0].TS
			}
			for i := range e.h.Headers {
				e.h.Headers[i].DedupeMS = 1_000_000
				if proc := e.h.Headers[i].Proc; proc != history.Harness {
					e.insert(history.Event{TS: at, Proc: proc, Type: history.Note, Op: history.NoteClock, Details: &history.Details{Clock: &history.Clock{OffsetMS: 1}}, File: "x", Line: 1})
				}
			}
			return e.h
		}
	}
	judgeExcuses(t, map[string]excused{
		"a job cancelled while it waits, by nobody's command": {cancelled(false), "P5", "which nobody asked for"},
		"the same, by a command":                              {cancelled(true), "", ""},
		"a shard paused by nobody's command": {func() *history.History {
			e, p, w := lostJob(0)
			chain := p.w().Main().Row.Chain
			for _, other := range chain[w.Pos:] {
				if other.OK() != nil && past.IsRenewal(other.Main().Kind()) && len(other.Main().Invoke.Changes()) == 0 {
					w = other
				}
			}
			extend(w, history.Change{Do: history.DoPause})
			due := p.c().DueMS
			e.leave(p.j.Shard, "lost", history.JobRow{Kind: history.RowJob, State: past.StatePending, DueMS: due}, history.JobRow{Kind: history.RowPending, DueMS: due})
			return e.h
		}, "P5", "which nobody asked for"},
		"a job asked for at once and enqueued as due in ten years": {func() *history.History {
			e, p, _ := lostJob(10 * year)
			due := p.c().DueMS
			e.leave(p.j.Shard, "lost", history.JobRow{Kind: history.RowJob, State: past.StatePending, DueMS: due}, history.JobRow{Kind: history.RowPending, DueMS: due})
			return e.h
		}, "P12", "later than it may be at most"},
		"a job rescued as due in ten years":                {func() *history.History { return rescuedAs(storyWall(1220) + 10*year) }, "P12", "later than it may be at most"},
		"a job given up after a batch with others failed":  {refused(history.Change{Job: "other", Do: history.DoEnqueue}), "P5", "had never refused it"},
		"a job given up after a batch with it alone did":   {refused(), "", ""},
		"a job enqueued again after its sweep, told inbox": {again(past.ResultInbox), "P5", "an acknowledged job is lost"},
		"the same, told applied":                           {again(past.ResultApplied), "P5", "no batch that can have taken effect"},
		"the same, told duplicate":                         {again(past.ResultDuplicate), "P5", "an acknowledged job is lost"},
		"acknowledged before its batch was sent": {steps(history.DoEnqueue, func(p jobPlace) bool {
			return len(p.j.Steps) == 3 && len(p.j.Calls) == 1 && p.j.Calls[0].Outcome == history.OK && p.j.Calls[0].End.Result == past.ResultApplied &&
				p.inv().TS > p.j.Calls[0].Invoke.TS+1
		}, func(p jobPlace) { p.j.Calls[0].End.TS, p.j.Calls[0].End.Sends = p.j.Calls[0].Invoke.TS+1, nil }), "P5", "no batch that can have taken effect"},
		"an effect that the call that failed did not ask for": {steps(history.DoComplete, once, func(p jobPlace) {
			p.x.callBefore(p.j.Calls[0], func(j *history.Job) { j.Steps = append(append([]string{}, j.Steps...), "s7") })
		}), "P4", "s7"},
		"a run failed and cancelled, as nobody asked": {steps(history.DoCancel, func(p jobPlace) bool {
			return p.i > 0 && p.j.Steps[p.i-1].Change.Do == history.DoClaim && p.j.Finishes[p.c().Run] != nil && len(p.j.Commands) == 0
		}, func(p jobPlace) { p.j.Finishes[p.c().Run].Error = "dial tcp: connection refused" }), "P5", "neither its handler nor a client"},
		"a ledger's token that no call had": {func() *history.History {
			for seed := uint64(0); seed < 40; seed++ {
				e := newEdit(simulate(shortJobs(seed)))
				for _, s := range e.jobs().a.Sinks {
					if n := len(s.Ledger); n > 0 && s.Ledger[n-1].Kind == history.LedgerAccept && len(s.Ledger[n-1].By) > 1 {
						l := *s.Ledger[n-1].LedgerEntry
						l.Token += 5 << 32
						s.Ledger[n-1].Event.OwnDetails().Ledger = &l
						return e.h
					}
				}
			}
			panic("no effect was asked for twice")
		}, "P4", "which none of them had"},
		"a clock set after all was swept":  {clockSet(false), "P5", "forgets it at most"},
		"a clock set before all was swept": {clockSet(true), "", ""},
		"a lease that another says is lost": {func() *history.History {
			y := newTiny("w1.1", "w2.1")
			y.expect(history.Expect{})
			y.cas(10, 20, "w1.1/c1", history.OpAcquire, history.OK)
			y.note(30, "w1.1/c1", history.Event{Op: history.NoteStart, Key: "a", Token: 1, DecidedAt: 25*1e6 + 1e9})
			y.note(190, "w2.1/c1", history.Event{Op: history.NoteLeaseLost, Key: "a", Token: 1})
			y.cas(200, 210, "w2.1/c1", history.OpAcquire, history.OK)
			y.note(220, "w2.1/c1", history.Event{Op: history.NoteStart, Key: "a", Token: 2, DecidedAt: 215*1e6 + 1e9})
			y.note(500, "w1.1/c1", history.Event{Op: history.NoteFinish, Key: "a", Token: 1})
			y.note(500, "w2.1/c1", history.Event{Op: history.NoteFinish, Key: "a", Token: 2})
			y.cas(510, 520, "w2.1/c1", history.OpRelease, history.OK)
			return y.end(600)
		}, "P8", "was entitled until"},
		"an acknowledged job in a shard that nobody sealed": {func() *history.History {
			e, p, _ := lostJob(0)
			for _, o := range e.ops {
				if o.inv.Key == "lost" {
					spec := *o.inv.Job()
					spec.Shard = "shard/jobs/77"
					o.inv.OwnDetails().Job = &spec
				}
			}
			p.remove()
			take := e.all(history.OpTake, history.OK)[0]
			inv, end := *take.inv, *take.end
			inv.Key, inv.ID, inv.TS = "shard/jobs/77", e.nextID(inv.Proc), inv.TS+1
			end.Key, end.ID, end.TS = inv.Key, inv.ID, inv.TS+1
			inv.From, inv.To = &history.Version{Absent: true}, &history.Version{Fence: 1, Beat: 1, Attempt: "never"}
			end.Type, end.Error, end.Sends, end.Row = history.Fail, "unavailable", nil, nil
			e.insert(inv, end)
			return e.h
		}, "P14", "shard/jobs/77 was not sealed"},
		"items that leave the stock for no order": {func() *history.History {
			y := newShopStory()
			y.add(history.Book{Table: history.BookMove, Item: "tea", Version: 6, Delta: -5, Quantity: 0})
			y.books[0] = history.Book{Table: history.BookStock, Item: "tea", Quantity: 0, Version: 6}
			return y.tell()
		}, "P17", "for no order"},
		"an order paid by the run that the sink refused":  {func() *history.History { return paidBy(1<<32 + 7) }, "P16", "of which the sink has accepted no payment"},
		"an order paid by the run that the sink accepted": {func() *history.History { return paidBy(2<<32 + 9) }, "", ""},
	})
}

// excused is a history that is wrong, or just not.
type excused struct {
	tell     func() *history.History
	property string // that says so; "": the history is legal
	says     string
}

func judgeExcuses(t *testing.T, all map[string]excused) {
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Check(context.Background(), c.tell(), Options{})
			if c.property == "" {
				if r.Verdict != Pass {
					t.Errorf("%s: %s", r.Verdict, r.Summary)
					logFindings(t, r)
				}
				return
			}
			p := propertyOf(r, c.property)
			for _, v := range p.Violations {
				if strings.Contains(v.Message, c.says) {
					return
				}
			}
			t.Errorf("%s is %s, and none of its %d violations says %q", c.property, p.Status, len(p.Violations), c.says)
			logFindings(t, r)
		})
	}
}

// enqueuedAgain has a swept job enqueued again, which nothing takes.
func enqueuedAgain(e *edit, result string) bool {
	p, ok := e.jobs().step(history.DoSweep, func(p jobPlace) bool {
		return p.later() == nil && len(p.j.Calls) == 1 && p.j.Calls[0].Outcome == history.OK && p.i == 3
	})
	if !ok {
		return false
	}
	inv, end := *p.j.Calls[0].Invoke, *p.j.Calls[0].End
	if result == past.ResultApplied {
		p.j.Calls[0].End.Type, p.j.Calls[0].End.Result, p.j.Calls[0].End.Error = history.Unknown, "", "timeout"
	}
	at := p.w().OK().End.TS
	for _, o := range e.ops {
		if o.inv.TS > at && o.inv.Op == history.OpTick && o.end != nil {
			life := history.Life(o.inv.Proc)
			inv.Proc, inv.ID, inv.TS = life+"/e9", e.nextID(life), o.inv.TS+1
			end.Proc, end.ID, end.TS, end.Type, end.Result, end.Error, end.Sends = inv.Proc, inv.ID, o.inv.TS+2, history.OK, result, "", nil
			e.insert(inv, end)
			return true
		}
	}
	return false
}

// byHand is a story of one shard with jobs, told by batches.
type byHand struct{ *recurringStory }

func newByHand() byHand {
	h := newTiny("w1.1", "w2.1")
	h.expect(history.Expect{DrainBoundMS: 1000, RowsEnd: true})
	return byHand{&recurringStory{tiny: h, head: history.Version{Attempt: "n0"}}}
}

func (y byHand) ask(at int64, id string, job *history.Job) {
	job.Queue, job.Shard, job.MaxAttempts = "q", storyShard, 5
	y.op(at, at+8, "w1.1/e1", history.OK, history.Event{Op: history.OpEnqueue, Key: id, Details: &history.Details{Job: job}}, history.Event{Result: past.ResultApplied})
}

func (y byHand) start(at int64, proc, id string, run int64, attempt int) {
	y.note(at, proc, history.Event{Op: history.NoteStart, Key: id, Issuer: storyShard, Token: run, DecidedAt: at*1e6 + 1e9,
		Details: &history.Details{Attempt: attempt, DueMS: storyWall(1), WallMS: storyWall(at)}})
}

func (y byHand) rows(at int64, id string, rows ...history.JobRow) {
	for i := range rows {
		y.note(at, history.Harness, history.Event{Op: history.NoteRow, Key: id, Issuer: storyShard, Details: &history.Details{JobRow: &rows[i]}})
	}
}

func (y byHand) seal(at int64) *history.History {
	y.note(at-200, history.Harness, history.Event{Op: history.NotePhase, Details: &history.Details{Phase: past.PhaseDrain}})
	y.note(at-10, history.Harness, history.Event{Op: history.NotePhase, Details: &history.Details{Phase: "seal"}})
	from, to := y.head, history.Version{Fence: y.head.Fence + 1, Beat: y.head.Beat + 1, Attempt: "seal"}
	y.op(at, at+1, history.Harness, history.OK, history.Event{Op: history.OpSeal, Key: storyShard, From: &from, To: &to}, history.Event{})
	y.op(at+2, at+3, history.Harness, history.OK, history.Event{Op: history.OpRead, Key: storyShard}, history.Event{Row: &to})
	y.note(at+50, history.Harness, history.Event{Op: history.NoteRowsEnd, Issuer: storyShard})
	return y.end(at + 60)
}

// rescuedAs: a job that was asked for at once is rescued as due at some time.
func rescuedAs(due int64) *history.History {
	y := newByHand()
	y.batch(2, "w1.1", history.OpTake)
	run := y.claimed(19, "b", 2, &history.Job{Kind: "k"})
	y.start(40, "w1.1/r2", "b", run, 1)
	y.batch(1200, "w2.1", history.OpTake)
	y.batch(1220, "w2.1", history.OpTick, history.Change{Job: "b", Do: history.DoRescue, Run: run, Attempt: 1, DueMS: due})
	y.rows(2020, "b", history.JobRow{Kind: history.RowJob, State: past.StatePending, Attempt: 1, Run: run, DueMS: due},
		history.JobRow{Kind: history.RowPending, Attempt: 1, Run: run, DueMS: due})
	return y.seal(2000)
}

// paidBy: the job that pays an order is rescued. The sink refuses the effect of its first run and
// accepts that of the second; the payment's row shows a run.
func paidBy(run int64) *history.History {
	y := newByHand()
	old, young := int64(1<<32+7), int64(2<<32+9)
	o := &history.Order{ID: "a", Item: "tea", Quantity: 2, Cents: 200}
	id, res := "pay-a", "job/q/pay-a"
	y.batch(2, "w1.1", history.OpTake)
	y.ask(9, id, &history.Job{Kind: history.OrderPay, Resource: res, Steps: []string{"pay-a"}, Order: o})
	y.batch(10, "w1.1", history.OpTick, history.Change{Job: id, Do: history.DoEnqueue, DueMS: storyWall(1)})
	y.batch(30, "w1.1", history.OpTick, history.Change{Job: id, Do: history.DoClaim, Run: old, Attempt: 1})
	y.start(40, "w1.1/r1", id, old, 1)
	y.batch(1200, "w2.1", history.OpTake)
	y.batch(1220, "w2.1", history.OpTick, history.Change{Job: id, Do: history.DoRescue, Run: old, Attempt: 1, DueMS: storyWall(1)})
	y.batch(1240, "w2.1", history.OpTick, history.Change{Job: id, Do: history.DoClaim, Run: young, Attempt: 2})
	y.start(1250, "w2.1/r1", id, young, 2)
	one := int64(1)
	effect := func(token, decided int64) history.Event {
		return history.Event{Op: history.OpEffect, Key: res, Issuer: storyShard, Token: token, EffectKey: "pay-a", Value: &one, DecidedAt: decided*1e6 + 1e9}
	}
	y.op(1252, 1253, "w2.1/r1", history.OK, history.Event{Op: history.OpRaise, Key: res, Issuer: storyShard, Token: young}, history.Event{Result: past.ResultApplied, Seen: young, Seq: 1})
	y.op(1254, 1255, "w1.1/r1", history.Fail, effect(old, 45), history.Event{Result: past.ResultStale, Seen: young})
	y.op(1256, 1257, "w2.1/r1", history.OK, effect(young, 1255), history.Event{Result: past.ResultApplied, Seen: young, Seq: 2})
	y.note(1258, "w2.1/r1", history.Event{Op: history.NoteFinish, Key: id, Issuer: storyShard, Token: young})
	y.batch(1260, "w2.1", history.OpTick, history.Change{Job: id, Do: history.DoComplete, Run: young, Attempt: 2})
	for _, l := range []history.LedgerEntry{
		{Seq: 1, Kind: history.LedgerRaise, Issuer: storyShard, Token: young},
		{Seq: 2, Kind: history.LedgerAccept, Issuer: storyShard, Token: young, EffectKey: "pay-a", Value: &one},
	} {
		y.note(2020, history.Harness, history.Event{Op: history.NoteLedger, Key: res, Details: &history.Details{Ledger: &l}})
	}
	y.op(2010, 2011, history.Harness, history.OK, history.Event{Op: history.OpGet, Key: res}, history.Event{Value: &one, Seen: young, Seq: 2})
	y.rows(2020, id, history.JobRow{Kind: history.RowJob, State: past.StateCompleted, Attempt: 2, Run: young}, history.JobRow{Kind: history.RowEnded})
	for _, b := range []history.Book{
		{Table: history.BookStock, Item: "tea", Quantity: 8, Version: 2},
		{Table: history.BookMove, Item: "tea", Version: 1, Delta: 10, Quantity: 10},
		{Table: history.BookMove, Item: "tea", Version: 2, Delta: -2, Quantity: 8, Order: "a"},
		{Table: history.BookOrder, Order: "a", Item: "tea", Quantity: 2, Cents: 200, State: history.OrderShipped},
		{Table: history.BookPayment, Order: "a", Cents: 200, Token: run},
		{Table: history.BookShipment, Order: "a"}, {Table: history.BookEnd},
	} {
		y.note(2030, history.Harness, history.Event{Op: history.NoteBook, Details: &history.Details{Book: &b}})
	}
	return y.seal(2000)
}
