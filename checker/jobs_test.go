package checker

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/checker/past"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// TestJobVerdicts: what a change of a legal history with jobs makes of the verdict.
func TestJobVerdicts(t *testing.T) {
	t.Parallel()
	expect := func(e *edit, change func(*history.Expect)) {
		x := *e.notes(history.NoteExpect)[0].Expect()
		change(&x)
		e.notes(history.NoteExpect)[0].OwnDetails().Expect = &x
	}
	noDrain := func(e *edit) {
		e.drop(func(ev *history.Event) bool { return ev.Op == history.NotePhase && ev.Phase() == past.PhaseDrain })
	}
	endless := func(e *edit) { // a job that never ends, in batches and rows
		p, ok := e.jobs().step(history.DoComplete, func(p jobPlace) bool { return p.later() == nil })
		if !ok {
			panic("no job")
		}
		p.remove()
		rewrite(p.j, history.RowJob, func(r *history.JobRow) { r.State = past.StateRunning })
		rewrite(p.j, history.RowEnded, func(r *history.JobRow) { r.Kind = history.RowRunning })
	}
	// A job of the last batch with changes, left pending and due in so many ms, by a wall
	// clock that is ahead by so much.
	pending := func(e *edit, in, ahead int64) {
		x := e.jobs()
		p, ok := x.step(history.DoClaim, once)
		if !ok {
			panic("no job")
		}
		due := p.j.Steps[0].Change.DueMS + in
		x.ask(p.j, "later", past.ResultApplied)
		for _, o := range e.ops {
			if o.inv.Key == "later" && in > 0 && ahead == 0 {
				spec := *o.inv.Job()
				spec.DueMS = due
				o.inv.OwnDetails().Job = &spec
			}
		}
		x = e.jobs()
		q, _ := x.step(history.DoComplete, func(q jobPlace) bool { return q.j.ID == p.j.ID })
		extend(q.w(), history.Change{Job: "later", Do: history.DoEnqueue, DueMS: due})
		batch := *q.inv() // as events move
		e.answeredAfter("later", q.w())
		if ahead > 0 {
			setClock(e, &batch, batch.TS-1, ahead)
		}
		row := history.Event{TS: e.h.Events[len(e.h.Events)-1].TS, Proc: history.Harness, Type: history.Note, Op: history.NoteRow, Key: "later", Issuer: p.j.Shard, File: "harness.jsonl", Line: 1}
		row.OwnDetails().JobRow = &history.JobRow{Kind: history.RowJob, State: past.StatePending, DueMS: due}
		other := row
		other.OwnDetails().JobRow = &history.JobRow{Kind: history.RowPending, DueMS: due}
		e.insert(row, other)
	}
	for name, c := range map[string]struct {
		change  func(*edit)
		verdict Verdict
		says    string // in a detail or a violation
	}{
		"nothing":                          {func(*edit) {}, Pass, "compared with the rows that were left"},
		"a job that never ends":            {endless, Fail, "is stuck"},
		"the same, and no drain":           {func(e *edit) { endless(e); noDrain(e) }, Unknown, "no phase in which it waited"},
		"the same, and no bound":           {func(e *edit) { endless(e); expect(e, func(x *history.Expect) { x.DrainBoundMS = 0 }) }, Unknown, "no phase in which it waited"},
		"a job that is due in a day":       {func(e *edit) { pending(e, 86_400_000, 0) }, Pass, "1 job due after the end of the run"},
		"a job that is due and is not run": {func(e *edit) { pending(e, 0, 0) }, Fail, "job later is stuck: it is still pending"},
		"a job that is due in a day, as its owner's clock is ahead": {func(e *edit) { pending(e, 86_400_000, 86_400_000) }, Fail, "job later is stuck: it is still pending"},
		"no drain, all done": {noDrain, Pass, ""},
		"rows that were not read": {func(e *edit) {
			e.drop(func(ev *history.Event) bool { return ev.Op == history.NoteRow })
			expect(e, func(x *history.Expect) { x.RowsEnd = false })
			e.drop(func(ev *history.Event) bool { return ev.Op == history.NoteRowsEnd })
		}, Pass, "which were not read"},
		"rows that were not read to their end": {func(e *edit) {
			shard := e.notes(history.NoteRowsEnd)[0].Issuer
			e.drop(func(ev *history.Event) bool { return ev.Op == history.NoteRowsEnd && ev.Issuer == shard })
		}, Invalid, "were not read to their end"},
		"no rows at the end of those that were read": {func(e *edit) {
			e.drop(func(ev *history.Event) bool { return ev.Op == history.NoteRow })
		}, Fail, "there is no row of kind"},
		"a job lost that nobody had acknowledged": {func(e *edit) {
			x := e.jobs()
			p, _ := x.step(history.DoClaim, once)
			x.ask(p.j, "nowhere", "")
			for _, q := range e.all(history.OpEnqueue, history.OK) {
				if q.inv.Key == "nowhere" {
					q.end.Type, q.end.Error = history.Unknown, "timeout"
				}
			}
		}, Pass, ""},
		"a start whose worker's clock was set back": {clocked(-50, -100), Pass, "before their worker's clock was set back"},
		"a clock set back before the job was due":   {clocked(-150, -100), Fail, "before the job was due"},
		"a clock set back before a retry was due": {func(e *edit) {
			start := startOf(e, true)
			start.OwnDetails().WallMS = start.DueMS() - 150
			setClock(e, start, start.TS-1e9, 1000)
			setClock(e, start, start.TS-5e8, -100)
		}, Pass, "before their worker's clock was set back"},
		"a clock ten minutes ahead, set back long before the run":   {setBackLongBefore(600_000), Pass, "before their worker's clock was set back"},
		"a clock eight minutes ahead, set back long before the run": {setBackLongBefore(480_000), Fail, "499080 ms before the job was due, by its worker's own clock"},
		"a retry before it was due": {func(e *edit) {
			start := startOf(e, true)
			start.OwnDetails().WallMS = start.DueMS() - 150
			setClock(e, start, start.TS-1e9, 50)
			setClock(e, start, start.TS-5e8, -50)
		}, Fail, "before the job was due"},
		"a job with a time of its own, its clock set back before that": {func(e *edit) {
			start := startOf(e, false)
			start.OwnDetails().WallMS = start.DueMS() - 150
			setClock(e, start, start.TS-1e9, 1000)
			setClock(e, start, start.TS-1e9+1, -100)
		}, Fail, "before its own time"},
		"a clock that was ahead before anybody asked": {func(e *edit) {
			start := firstStart(e)
			start.OwnDetails().WallMS = start.DueMS() - 50
			setClock(e, start, 2, 100_000)
			setClock(e, start, 3, 0)
		}, Fail, "before the job was due"},
		"starts without times": {func(e *edit) {
			for _, n := range e.notes(history.NoteStart) {
				n.OwnDetails().WallMS = 0
			}
		}, Unknown, "without due_ms or wall_ms"},
		"too few completed jobs": {func(e *edit) {
			expect(e, func(x *history.Expect) { x.MinCycles = map[string]int{"before": 100_000} })
		}, Invalid, "completed jobs, the scenario demands 100000"},
		"nobody may complete": {func(e *edit) {
			expect(e, func(x *history.Expect) { x.Success = []history.Success{{Phase: "before", Want: history.None}} })
		}, Invalid, "of all workers succeeded, the scenario demands none"},
		"a point of the life of jobs": {func(e *edit) {
			expect(e, func(x *history.Expect) { x.Must = []string{property.PointRetry, property.PointHandOver} })
		}, Pass, ""},
		"a point that was not reached": {func(e *edit) {
			expect(e, func(x *history.Expect) { x.Must = []string{"flood"} })
		}, Invalid, `must reach "flood"`},
		"an enqueue without its end": {func(e *edit) {
			end := *e.some(history.OpEnqueue, history.OK)[0].end
			e.drop(func(ev *history.Event) bool { return ev.ID == end.ID && ev.Proc == end.Proc && ev.Type == history.OK })
		}, Invalid, "without an end"},
		"a tick that is lost from the record": {func(e *edit) {
			e.dropOp(e.some(history.OpTick, history.OK)[0])
		}, Invalid, "has lost events"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEdit(simulate(shortJobs(3)))
			c.change(e)
			r := Check(context.Background(), e.h, Options{})
			said := c.says == ""
			for _, p := range r.Properties {
				said = said || strings.Contains(p.Detail, c.says)
				for _, v := range p.Violations {
					said = said || strings.Contains(v.Message, c.says)
				}
			}
			if r.Verdict != c.verdict || !said {
				logFindings(t, r)
				t.Errorf("%s, want %s with %q: %s", r.Verdict, c.verdict, c.says, r.Summary)
			}
		})
	}
}

// TestJobCounts: verdict.json has the numbers of the run's jobs.
func TestJobCounts(t *testing.T) {
	t.Parallel()
	r := Check(context.Background(), simulate(smallJobs(1)), Options{})
	n := r.Counts.Jobs
	switch {
	case n == nil:
		t.Fatal("no counts of jobs")
	case n.Enqueued == 0, n.Claimed < n.Completed, n.Completed != r.Counts.Cycles && n.Completed < r.Counts.Cycles, n.Starts > n.Claimed, n.Open != 0, n.Shards != 2, r.Counts.Locks != 0:
		t.Errorf("%+v", n)
	case n.Lateness == nil || n.Lateness.Max < n.Lateness.P99 || n.Lateness.P99 < n.Lateness.P50:
		t.Errorf("lateness %+v", n.Lateness)
	}
	for _, want := range []string{"enqueued", "completed", "retried", "rescued", "dead letter queue", "accepted effects"} {
		if !strings.Contains(r.Summary, want) {
			t.Errorf("the summary lacks %q: %s", want, r.Summary)
		}
	}
	if Check(context.Background(), simulate(small(1)), Options{}).Counts.Jobs != nil {
		t.Error("a run without jobs has counts of them")
	}
}

// TestManyUnknownTicks: hundreds of batches without a known outcome are settled by
// the chain, and hide nothing.
func TestManyUnknownTicks(t *testing.T) {
	t.Parallel()
	run := func() *edit {
		return newEdit(simulate(simConfig{seed: 5, workers: 3, clients: 2, shards: 3, ttl: 300 * time.Millisecond, length: 10 * time.Second, noise: 0.75}))
	}
	e := run()
	unknown, settled := 0, 0
	for _, l := range e.jobs().a.Rows {
		for _, c := range l.CAS {
			if c.Outcome == history.Unknown {
				if unknown++; l.Fate(c.Write) != past.Open {
					settled++
				}
			}
		}
	}
	r := Check(context.Background(), e.h, Options{})
	if unknown < 200 || r.Verdict != Pass || settled != unknown {
		logFindings(t, r)
		t.Errorf("%d of %d unknown batches settled, %s: %s", settled, unknown, r.Verdict, r.Summary)
	}
	e = run()
	p, ok := e.jobs().step(history.DoComplete, nil)
	if !ok {
		t.Fatal("no job was completed")
	}
	p.remove()
	if r := Check(context.Background(), e.h, Options{}); !slices.Equal(failing(r), []string{"P2", "P5"}) && !slices.Equal(failing(r), []string{"P2"}) {
		t.Errorf("a lost completion: %s, failing %v", r.Verdict, failing(r))
	}
}

// clocked lets the first run start by a wall clock so many ms after the job was due,
// which had been set wrong by an offset just before.
func clocked(late, offset int64) func(*edit) {
	return func(e *edit) {
		start := firstStart(e)
		start.OwnDetails().WallMS = start.DueMS() + late
		setClock(e, start, start.TS-1, offset)
	}
}

// startOf is the start of a retry, or the first one of a job with a time of its own,
// that came some time after the job was made pending.
func startOf(e *edit, retry bool) *history.Event {
	p, ok := e.jobs().step(history.DoClaim, func(p jobPlace) bool {
		if retry {
			return p.j.Spec.DueMS == 0 && p.j.Steps[p.i-1].Change.Do == history.DoRetry && p.start() != nil
		}
		return once(p) && p.j.Spec.DueMS > 0
	})
	if !ok {
		panic("no such start")
	}
	return p.start()
}

// setBackLongBefore is a start 499080 ms before its job was due by its worker's clock, which
// was ahead as it made the job due, and was set right at once: longer before the batch that
// claims the job than a batch takes.
func setBackLongBefore(ahead int64) func(*edit) {
	return func(e *edit) {
		pending := func(p jobPlace) int64 { return p.j.Steps[p.i-1].Write.Main().Invoke.TS }
		p, ok := e.jobs().step(history.DoClaim, func(p jobPlace) bool {
			return p.i > 0 && p.j.Spec.DueMS == 0 && p.start() != nil && p.w().Main().Invoke.TS-pending(p) > 3*past.LeastSlack/2
		})
		if !ok {
			panic("no job waited")
		}
		start := p.start()
		start.OwnDetails().WallMS = start.DueMS() - 499_080
		setClock(e, start, pending(p)-1e6, ahead)
		setClock(e, start, pending(p)+1e6, 0)
	}
}

// firstStart is the only one of a job that was asked for at once.
func firstStart(e *edit) *history.Event {
	p, _ := e.jobs().step(history.DoClaim, func(p jobPlace) bool { return once(p) && p.j.Spec.DueMS == 0 })
	return p.start()
}

func setClock(e *edit, start *history.Event, at, offset int64) {
	e.insert(history.Event{TS: at, Proc: history.Life(start.Proc), Type: history.Note, Op: history.NoteClock, Details: &history.Details{Clock: &history.Clock{OffsetMS: offset}}, File: "x", Line: 1})
}
