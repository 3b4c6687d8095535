package engine

import (
	"errors"
	"testing"

	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
)

// TestTheEndOfAnOccurrence rides with the end of its job, once at a time.
func TestTheEndOfAnOccurrence(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t)
	s := r.put(r.every("s", func(d *schedule.Definition) { d.Overlap, d.Job.MaxAttempts = schedule.OverlapQueue, 1 }))
	r.pass(1000)
	r.m.settled(r.fires(0))
	run := r.runs(5)[0]
	r.pass(1000)
	p := r.fires(0)
	r.wantOps(p, "+state")
	r.m.settled(p)
	if len(s.state.Queue) != 1 {
		t.Fatalf("%+v", s.state)
	}
	r.pass(500)
	p = r.finish(run, errors.New("no"))
	r.wantOps(p, "+job +dlq -running +state")
	if c := p.changes(); len(c) != 2 || c[1].Kind != StepOver || c[1].Occurrence != run.Job.Occurrence || c[1].Waiting != 1 {
		t.Errorf("%+v", c)
	}
	r.m.settled(p)
	if !s.state.Active.IsZero() || s.state.Ended != r.now.wall || s.next > r.now.wall {
		t.Errorf("%+v, next %d", s.state, s.next)
	}
	p = r.fires(0)
	r.wantOps(p, "+state *job +pending")
	r.m.settled(p)
	if run := r.runs(5); len(run) != 1 || run[0].Job.Occurrence.Nominal != r.now.wall-500 {
		t.Errorf("%+v", run)
	}
}

// TestEndsWaitForSchedules: what ends before the schedules are read waits, and so does
// what ends while another change of its schedule rides.
func TestEndsWaitForSchedules(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t)
	s := r.put(r.every("s", func(d *schedule.Definition) { d.Overlap = schedule.OverlapSkip }))
	r.pass(1000)
	r.m.settled(r.fires(0))
	run := r.runs(5)[0]
	r.m.schedules.loaded = false
	if p := r.finish(run, nil); p != nil {
		t.Fatalf("%s before the schedules are read", what(p))
	}
	r.m.schedules.loaded = true
	r.order(ScheduleCommand{Verb: DisableSchedule, Key: "s"})
	r.m.turn = restFirst
	p := r.next(0)
	r.wantOps(p, "+state")
	r.m.settled(p)
	p = r.next(0)
	r.wantOps(p, "+job +ended -running +state")
	r.m.settled(p)
	if !s.state.Disabled || !s.state.Active.IsZero() {
		t.Errorf("%+v", s.state)
	}
}

func TestSequences(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t)
	start := func(change func(*job.Job)) job.Run {
		t.Helper()
		j := r.job(r.n+100, func(j *job.Job) {
			j.Then, j.MaxAttempts = []job.Job{{Kind: "second", Payload: []byte("p")}, {Kind: "third"}}, 1
			change(j)
		})
		r.m.enqueue(j, r.body(j), r.now, nil, nil)
		r.tick(0)
		return r.runs(5)[0]
	}
	first := start(func(*job.Job) {})
	p := r.finish(first, nil)
	r.wantOps(p, "+job +ended -running *job +pending")
	if c := p.changes(); len(c) != 2 || c[1].Kind != StepEnqueue || c[1].After != first.Job.ID {
		t.Errorf("%+v", c)
	}
	r.m.settled(p)
	second := r.runs(5)[0]
	if second.Job.Kind != "second" || second.Job.After != first.Job.ID || string(second.Job.Payload) != "p" {
		t.Errorf("%+v", second.Job)
	}
	r.m.settled(r.finish(second, nil))
	third := r.runs(5)[0]
	r.wantOps(r.finish(third, nil), "+job +ended -running")

	r.m.settled(r.finish(start(func(*job.Job) {}), errors.New("no")))
	if p := r.next(5); p != nil {
		t.Errorf("a failed job is followed: %s", what(p))
	}
	// What follows a failed job does not follow it again when it is redriven.
	failed := start(func(j *job.Job) { j.OnFailure = job.GoOn })
	p = r.finish(failed, errors.New("no"))
	r.wantOps(p, "+job +dlq -running *job +pending")
	for _, op := range p.batch.Ops {
		if j, err := job.Decode(op.Row.Body); op.Row.Kind == store.KindDLQ && (err != nil || len(j.Then) > 0 || j.ID != failed.Job.ID) {
			t.Errorf("in the dead letter queue: %s, %v", op.Row.Body, err)
		}
	}
	// The follower is there already, for whatever reason.
	follower, _ := failed.Job.Next(job.DLQ, 1)
	if !r.m.rejected(p, exists(follower.ID)) {
		t.Fatal("a rejection by the follower says nothing")
	}
	r.wantOps(r.next(0), "+job +dlq -running")
}

// TestAnOccurrenceLastsAsLongAsItsSequence: its schedule waits for the last job.
func TestAnOccurrenceLastsAsLongAsItsSequence(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t)
	s := r.put(r.every("s", func(d *schedule.Definition) {
		d.Overlap, d.Job.Then = schedule.OverlapSkip, []job.Job{{Kind: "second"}}
	}))
	r.pass(1000)
	r.m.settled(r.fires(0))
	p := r.finish(r.runs(5)[0], nil)
	r.wantOps(p, "+job +ended -running *job +pending")
	r.m.settled(p)
	if s.state.Active.IsZero() {
		t.Error("it has ended with its first job")
	}
	p = r.finish(r.runs(5)[0], nil)
	r.wantOps(p, "+job +ended -running +state")
	r.m.settled(p)
	if !s.state.Active.IsZero() {
		t.Error("it has not ended")
	}
}

// TestCancelledOccurrences: a cancellation ends the sequence and the occurrence.
func TestCancelledOccurrences(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t)
	r.put(r.every("s", func(d *schedule.Definition) {
		d.Overlap, d.Job.Then, d.Job.OnFailure = schedule.OverlapSkip, []job.Job{{Kind: "second"}}, job.GoOn
	}))
	r.pass(1000)
	p := r.fires(0)
	r.m.settled(p)
	r.command(doCancel, p.intents[0].enqueues[0].job())
	r.wantOps(r.next(0), "+job +ended -pending +state")
}

// TestAnUnreadableJobEndsItsOccurrence: or its schedule would wait for ever.
func TestAnUnreadableJobEndsItsOccurrence(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t)
	s := r.put(r.every("s", func(d *schedule.Definition) { d.Overlap = schedule.OverlapSkip }))
	r.pass(1000)
	p := r.fires(0)
	id := p.intents[0].enqueues[0].job()
	r.m.settled(p)
	r.m.forget(id)
	r.m.waiting = newWaiting()
	r.m.unreadable(store.Row{Key: store.Key{Kind: store.KindPending, At: 1, ID: string(id)}, Body: []byte("{")}, errors.New("bad"))
	p = r.next(0)
	r.wantOps(p, "+job +dlq -pending +state")
	r.m.settled(p)
	if !s.state.Active.IsZero() {
		t.Errorf("%+v", s.state)
	}
}
