package checker

import (
	"testing"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

const tenYears = 10 * int64(365*86_400_000)

// TestMoreExcuses is of what a run of a few batches shows.
func TestMoreExcuses(t *testing.T) {
	t.Parallel()
	judgeExcuses(t, map[string]excused{
		"nothing": {func() *history.History { return oneJobDone().seal(2000) }, "", ""},
		"a job cancelled that was claimed and not started, by nobody's command": {func() *history.History {
			y := oneJobDone()
			run := y.claimed(39, "lost", 5, &history.Job{Kind: "k"})
			y.batch(60, "w1.1", history.OpTick, history.Change{Job: "lost", Do: history.DoCancel, Run: run, Attempt: 1})
			y.rows(2020, "lost", history.JobRow{Kind: history.RowJob, State: past.StateCancelled, Attempt: 1, Run: run}, history.JobRow{Kind: history.RowEnded})
			return y.seal(2000)
		}, "P5", "neither its handler nor a client"},
		"an interrupted run retried as due in ten years": {func() *history.History {
			y := oneJobDone()
			due := storyWall(60) + tenYears
			run := y.claimed(39, "lost", 5, &history.Job{Kind: "k", Retry: &history.Retry{BaseMS: 100}})
			y.start(56, "w1.1/r1", "lost", run, 1)
			y.note(57, "w1.1/r1", history.Event{Op: history.NoteFinish, Key: "lost", Issuer: storyShard, Token: run, Error: past.InterruptedPrefix + ": stopping"})
			y.batch(60, "w1.1", history.OpTick, history.Change{Job: "lost", Do: history.DoRetry, Run: run, Attempt: 1, DueMS: due})
			y.pending("lost", due, 1, run)
			return y.seal(2000)
		}, "P12", "later than it may be at most"},
		"a run without a policy retried as due in ten years": {func() *history.History {
			y := oneJobDone()
			due := storyWall(60) + tenYears
			run := y.claimed(39, "lost", 5, &history.Job{Kind: "k"})
			y.batch(60, "w1.1", history.OpTick, history.Change{Job: "lost", Do: history.DoRetry, Run: run, Attempt: 1, DueMS: due})
			y.pending("lost", due, 1, run)
			return y.seal(2000)
		}, "P12", "later than it may be at most"},
		"a job put off by ten years, a clock set by 1 ms afterwards": {func() *history.History {
			y := oneJobDone()
			due := storyWall(60) + tenYears
			y.ask(39, "lost", &history.Job{Kind: "k"})
			y.batch(40, "w1.1", history.OpTick, history.Change{Job: "lost", Do: history.DoEnqueue, DueMS: due})
			y.pending("lost", due, 0, 0)
			noteClock(y.tiny, 1700, "w1.1", history.Clock{OffsetMS: 1})
			return y.seal(2000)
		}, "P12", "later than it may be at most"},
		"a job brought forward to in ten years": {func() *history.History {
			y := oneJobDone()
			own := storyWall(3_600_000)
			due := storyWall(60) + tenYears
			y.ask(39, "lost", &history.Job{Kind: "k", DueMS: own})
			y.batch(40, "w1.1", history.OpTick, history.Change{Job: "lost", Do: history.DoEnqueue, DueMS: own})
			y.batch(1200, "w2.1", history.OpTake)
			y.op(1210, 1230, "w2.1/k1", history.OK, history.Event{Op: history.OpCommand, Key: "lost", Details: &history.Details{Command: &history.Command{Queue: "q", Shard: storyShard, Do: history.DoRun}}}, history.Event{Result: past.ResultApplied})
			y.batch(1220, "w2.1", history.OpTick, history.Change{Job: "lost", Do: history.DoHasten, DueMS: due})
			y.pending("lost", due, 0, 0)
			return y.seal(2000)
		}, "P12", "later than now"},
		"an occurrence fired as due in ten years": {func() *history.History {
			y := oneJobDone()
			y.sched(35, 60, "w1.1/s1", storyKey, history.DoPut, past.ResultApplied, func(s *history.Schedule) { s.Kind = "now" })
			y.batch(40, "w1.1", history.OpTick, history.Change{Do: history.DoPut, Schedule: storyKey, LastMS: storyWall(40) - 1})
			due := storyWall(40) + tenYears
			y.batch(50, "w1.1", history.OpTick, history.Change{Job: "occ", Do: history.DoEnqueue, DueMS: due, Schedule: storyKey, NominalMS: storyWall(40)},
				history.Change{Do: history.DoFire, Schedule: storyKey, LastMS: storyWall(40)})
			y.pending("occ", due, 0, 0)
			return y.seal(2000)
		}, "P12", "later than it may be at most"},
		"a second retry of a job whose own time had come, the clock set back meanwhile": {func() *history.History { return thriceStarted(false) }, "", ""},
		"the same by another owner, whose clock had been set back before":               {func() *history.History { return thriceStarted(true) }, "P12", "before its own time"},
		"two holders by right clocks, and a third's clock that is wrong later":          {func() *history.History { return twoHolders(true) }, "P8", "was entitled until"},
		"the same without the third's clock":                                            {func() *history.History { return twoHolders(false) }, "P8", "was entitled until"},
		"an end refused alone, with that of its occurrence, and given up":               {func() *history.History { return refusedEnd(true) }, "", ""},
		"the same of a schedule that allows overlaps":                                   {func() *history.History { return refusedEnd(false) }, "", ""},
	})
}

// oneJobDone is a story in which one job has been done.
func oneJobDone() byHand {
	y := newByHand()
	y.batch(2, "w1.1", history.OpTake)
	run := y.claimed(3, "ok", 1, &history.Job{Kind: "k"})
	y.start(20, "w1.1/r1", "ok", run, 1)
	y.note(21, "w1.1/r1", history.Event{Op: history.NoteFinish, Key: "ok", Issuer: storyShard, Token: run})
	y.batch(22, "w1.1", history.OpTick, history.Change{Job: "ok", Do: history.DoComplete, Run: run, Attempt: 1})
	y.rows(2020, "ok", history.JobRow{Kind: history.RowJob, State: past.StateCompleted, Attempt: 1, Run: run}, history.JobRow{Kind: history.RowEnded})
	return y
}

// claimed: a job is asked for, enqueued and claimed as the n-th run of the shard's first owner, 1 and 11 ms
// after that.
func (y byHand) claimed(at int64, id string, n int64, job *history.Job) (run int64) {
	run = 1<<32 + n
	y.ask(at, id, job)
	y.batch(at+1, "w1.1", history.OpTick, history.Change{Job: id, Do: history.DoEnqueue, DueMS: storyWall(1)})
	y.batch(at+11, "w1.1", history.OpTick, history.Change{Job: id, Do: history.DoClaim, Run: run, Attempt: 1})
	return run
}

func (y byHand) pending(id string, due int64, attempt int, run int64) {
	y.rows(2020, id, history.JobRow{Kind: history.RowJob, State: past.StatePending, Attempt: attempt, Run: run, DueMS: due}, history.JobRow{Kind: history.RowPending, Attempt: attempt, Run: run, DueMS: due})
}

func (y byHand) sched(from, to int64, proc, key, do, result string, form func(*history.Schedule)) {
	s := &history.Schedule{Queue: "jobs", Shard: storyShard, Do: do}
	if do == history.DoPut {
		s.EveryMS, s.WindowMS = 1000, 60_000
		s.Job = &history.Job{Queue: "jobs", Shard: storyShard, Kind: "k", Resource: "job/jobs/", MaxAttempts: 3}
		if form != nil {
			form(s)
		}
	}
	y.op(from, to, proc, history.OK, history.Event{Op: history.OpSchedule, Key: key, Details: &history.Details{Schedule: s}}, history.Event{Result: result})
}

func noteClock(y *tiny, at int64, life string, c history.Clock) {
	y.note(at, history.Harness, history.Event{Op: history.NoteClock, Details: &history.Details{Clock: &c}})
	y.h.Events[len(y.h.Events)-1].Proc = life
}

// twoHolders: w2 takes the lock over while w1 is entitled, by right clocks; later w3 takes it over.
func twoHolders(clock bool) *history.History {
	y := newTiny("w1.1", "w2.1", "w3.1")
	y.expect(history.Expect{})
	y.cas(10, 20, "w1.1/c1", history.OpAcquire, history.OK)
	y.note(30, "w1.1/c1", history.Event{Op: history.NoteStart, Key: "a", Token: 1, DecidedAt: 25*1e6 + 1e9})
	y.cas(200, 210, "w2.1/c1", history.OpAcquire, history.OK) // early
	y.note(220, "w2.1/c1", history.Event{Op: history.NoteStart, Key: "a", Token: 2, DecidedAt: 215*1e6 + 1e9})
	y.note(500, "w1.1/c1", history.Event{Op: history.NoteFinish, Key: "a", Token: 1})
	y.note(500, "w2.1/c1", history.Event{Op: history.NoteFinish, Key: "a", Token: 2})
	y.cas(3000, 3010, "w3.1/c1", history.OpAcquire, history.OK)
	y.note(3020, "w3.1/c1", history.Event{Op: history.NoteStart, Key: "a", Token: 3, DecidedAt: 3015*1e6 + 1e9})
	y.note(3030, "w3.1/c1", history.Event{Op: history.NoteFinish, Key: "a", Token: 3})
	y.cas(3040, 3050, "w3.1/c1", history.OpRelease, history.OK)
	if clock {
		noteClock(y, 2900, "w3.1", history.Clock{RatePPM: 50_000})
	}
	return y.end(3600)
}

// refusedEnd: the handler of an occurrence cancels it, and the store refuses the note, three times alone.
func refusedEnd(exclusive bool) *history.History {
	y := oneJobDone()
	run := int64(1<<32 + 5)
	y.sched(35, 60, "w1.1/s1", storyKey, history.DoPut, past.ResultApplied, func(s *history.Schedule) {
		s.Kind, s.Overlap = "now", "allow"
		if exclusive {
			s.Overlap = "skip"
		}
	})
	y.batch(40, "w1.1", history.OpTick, history.Change{Do: history.DoPut, Schedule: storyKey, LastMS: storyWall(40) - 1})
	y.batch(50, "w1.1", history.OpTick, history.Change{Job: "occ", Do: history.DoEnqueue, DueMS: storyWall(40), Schedule: storyKey, NominalMS: storyWall(40)},
		history.Change{Do: history.DoFire, Schedule: storyKey, LastMS: storyWall(40)})
	y.batch(60, "w1.1", history.OpTick, history.Change{Job: "occ", Do: history.DoClaim, Run: run, Attempt: 1})
	y.note(70, "w1.1/r1", history.Event{Op: history.NoteStart, Key: "occ", Issuer: storyShard, Token: run, DecidedAt: 70*1e6 + 1e9,
		Details: &history.Details{Attempt: 1, DueMS: storyWall(40), WallMS: storyWall(70)}})
	y.note(75, "w1.1/r1", history.Event{Op: history.NoteFinish, Key: "occ", Issuer: storyShard, Token: run, Error: past.CancelPrefix + ": poison"})
	over := func(at int64) []history.Change {
		if !exclusive {
			return nil
		}
		return []history.Change{{Do: history.DoOver, Schedule: storyKey, NominalMS: storyWall(40), EndedMS: storyWall(75), LastMS: storyWall(40)}}
	}
	for n, at := range []int64{80, 90, 100} {
		from, to := y.head, history.Version{Fence: y.head.Fence, Beat: y.head.Beat + 1, Attempt: "refused" + string(rune('a'+n))}
		y.op(at, at+5, "w1.1/jobs:0", history.Fail, history.Event{Op: history.OpTick, Key: storyShard, From: &from, To: &to,
			Details: &history.Details{WallMS: storyWall(at), Changes: append([]history.Change{{Job: "occ", Do: history.DoCancel, Run: run, Attempt: 1}}, over(at)...)}},
			history.Event{Error: "invalid: mutation too large"})
	}
	y.batch(110, "w1.1", history.OpTick, append([]history.Change{{Job: "occ", Do: history.DoDLQ, Run: run, Attempt: 1}}, over(110)...)...)
	y.rows(2020, "occ", history.JobRow{Kind: history.RowJob, State: past.StateDLQ, Attempt: 1, Run: run}, history.JobRow{Kind: history.RowDLQ})
	return y.seal(2000)
}

// thriceStarted: a job with a time of its own fails twice. Its owner's clock is set back by ten minutes after
// its first start; it fails for the second time, or is rescued by another owner, long after that.
func thriceStarted(rescued bool) *history.History {
	y := newByHand()
	own, back := storyWall(20), int64(600_000)
	run := func(n, fence int64) int64 { return fence<<32 + n }
	begin := func(at int64, proc string, run int64, attempt int, wall int64) {
		y.note(at, proc, history.Event{Op: history.NoteStart, Key: "b", Issuer: storyShard, Token: run, DecidedAt: at*1e6 + 1e9,
			Details: &history.Details{Attempt: attempt, DueMS: own, WallMS: wall}})
	}
	fail := func(at int64, proc string, run int64) {
		y.note(at, proc, history.Event{Op: history.NoteFinish, Key: "b", Issuer: storyShard, Token: run, Error: "it fails"})
	}
	claim := func(at int64, life string, run int64, attempt int) {
		y.batch(at, life, history.OpTick, history.Change{Job: "b", Do: history.DoClaim, Run: run, Attempt: attempt, DueMS: own})
	}
	y.batch(2, "w1.1", history.OpTake)
	y.ask(13, "b", &history.Job{Kind: "k", DueMS: own})
	y.batch(14, "w1.1", history.OpTick, history.Change{Job: "b", Do: history.DoEnqueue, DueMS: own})
	claim(30, "w1.1", run(1, 1), 1)
	begin(40, "w1.1/r1", run(1, 1), 1, storyWall(40))
	fail(45, "w1.1/r1", run(1, 1))
	y.batch(50, "w1.1", history.OpTick, history.Change{Job: "b", Do: history.DoRetry, Run: run(1, 1), Attempt: 1, DueMS: own})
	life, fence := "w1.1", int64(1)
	if rescued {
		life, fence = "w2.1", 2
	}
	noteClock(y.tiny, 60, life, history.Clock{OffsetMS: -back})
	second := storyWall(110)
	if !rescued {
		second -= back
	}
	claim(100, "w1.1", run(2, 1), 2)
	begin(110, "w1.1/r2", run(2, 1), 2, second)
	if rescued {
		y.note(120, history.Harness, history.Event{Op: history.NoteCrash})
		y.h.Events[len(y.h.Events)-1].Proc = "w1.1"
		y.batch(3000, "w2.1", history.OpTake)
		y.batch(3050, "w2.1", history.OpTick, history.Change{Job: "b", Do: history.DoRescue, Run: run(2, 1), Attempt: 2, DueMS: own})
	} else {
		for at := int64(500); at < 3000; at += 500 {
			y.batch(at, "w1.1", history.OpTick)
		}
		fail(2990, "w1.1/r2", run(2, 1))
		y.batch(3000, "w1.1", history.OpTick, history.Change{Job: "b", Do: history.DoRetry, Run: run(2, 1), Attempt: 2, DueMS: own})
	}
	claim(3100, life, run(3, fence), 3)
	begin(3110, life+"/r3", run(3, fence), 3, storyWall(3110)-back)
	y.note(3115, life+"/r3", history.Event{Op: history.NoteFinish, Key: "b", Issuer: storyShard, Token: run(3, fence)})
	y.batch(3120, life, history.OpTick, history.Change{Job: "b", Do: history.DoComplete, Run: run(3, fence), Attempt: 3})
	y.rows(4020, "b", history.JobRow{Kind: history.RowJob, State: past.StateCompleted, Attempt: 3, Run: run(3, fence)}, history.JobRow{Kind: history.RowEnded})
	return y.seal(4000)
}
