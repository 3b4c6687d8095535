package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
	r.wantOps(p, "+ended +job -running +state")
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
	r.wantOps(p, "+ended +job -running *job +pending")
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
	r.wantOps(r.finish(third, nil), "+ended +job -running")

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
	r.wantOps(p, "+ended +job -running *job +pending")
	r.m.settled(p)
	if s.state.Active.IsZero() {
		t.Error("it has ended with its first job")
	}
	p = r.finish(r.runs(5)[0], nil)
	r.wantOps(p, "+ended +job -running +state")
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
	r.wantOps(r.next(0), "+ended +job -pending +state")
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

func TestARefusedFire(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t)
	s := r.put(r.every("s"))
	r.put(r.every("t"))
	r.pass(1000)
	why := &store.Error{Outcome: store.Fail, Cause: errors.New("poison")}
	told := 0
	for range 30 {
		p := r.fires(0)
		if p == nil {
			r.n++
			p = r.m.next(tickInput{now: r.now, beat: true, fires: true, nonce: fmt.Sprint("n", r.n)})
		}
		if slices.ContainsFunc(p.intents, func(i *intent) bool { return i.r == s }) {
			r.m.refused(p, why)
		} else {
			r.m.settled(p)
		}
		for _, x := range r.m.take() {
			if x.kind == effLate && x.late.Err != nil {
				told++
				if x.late.Schedule != "s" || !strings.Contains(x.late.Err.Error(), "poison") {
					t.Errorf("%+v", x.late)
				}
			}
		}
	}
	if told != 1 || s.next != schedule.Never || s.state.Fired != 0 {
		t.Fatalf("told %d times, next %d, %+v", told, s.next, s.state)
	}
	if other := r.m.schedules.byID[job.ScheduleID("q", "t", 1)]; other.state.Fired != 1 {
		t.Errorf("the other schedule: %+v", other.state)
	}
	// Another definition is tried.
	s = r.put(r.every("s", func(d *schedule.Definition) { d.Job.Kind = "better" }))
	r.pass(1000)
	if p := r.fires(0); s.next == schedule.Never || p == nil {
		t.Errorf("next %d, %s", s.next, what(p))
	}
}

// TestFiresLeaveRoom: with hundreds due, and a long list to make up for, jobs end
// meanwhile, batches stay small, and everything comes to its turn.
func TestFiresLeaveRoom(t *testing.T) {
	t.Parallel()
	const most = 8 << 10
	r := newScheduleRig(t, func(c *machineConfig) { c.maxOps, c.maxBytes = 20, most })
	for n := range 50 {
		r.put(r.every(fmt.Sprint("s", n), func(d *schedule.Definition) {
			d.Job.Payload, d.Misfire, d.Grace = make([]byte, 400), schedule.MisfireSkip, time.Second
		}))
	}
	long := r.put(r.every("long", func(d *schedule.Definition) { d.Misfire, d.Window = schedule.MisfireAll, time.Hour }))
	r.pass(60_000)
	for n := range 30 {
		r.enqueue(n, 0)
	}
	enqueued := 0
	for n := range 200 {
		p := r.fires(0)
		if p == nil {
			break
		}
		if b := p.batch.Bytes(); len(p.batch.Ops) > 20 || b > most || b != p.bytes {
			t.Fatalf("batch %d has %d operations and %d bytes, counted %d", n, len(p.batch.Ops), b, p.bytes)
		}
		for _, i := range p.intents {
			if i.kind == doEnqueue {
				enqueued++
			}
		}
		if n == 10 && enqueued < 20 {
			t.Errorf("%d of 30 jobs are enqueued after ten batches", enqueued)
		}
		r.m.settled(p)
	}
	if long.state.Fired != 60 {
		t.Errorf("%+v", long.state)
	}
	for _, s := range r.m.schedules.byID {
		if s.next <= r.now.wall || s.state.Fired == 0 {
			t.Errorf("%s: %+v, next %d", s.name(), s.state, s.next)
		}
	}
}

func TestLateness(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t)
	r.put(r.every("s", func(d *schedule.Definition) { d.Misfire, d.Grace = schedule.MisfireSkip, 5*time.Second }))
	late := func() (out []Lateness) {
		r.m.settled(r.fires(0))
		for _, x := range r.m.take() {
			if x.kind == effLate {
				out = append(out, x.late)
			}
		}
		return out
	}
	r.pass(4000)
	for r.m.schedules.wake() <= r.now.wall {
		if l := late(); len(l) != 0 {
			t.Errorf("in time: %+v", l)
		}
	}
	r.pass(7000)
	l := late()
	if len(l) != 1 || l[0].Missed != 1 || len(l[0].Late) != 1 || l[0].By != 5*time.Second || l[0].Schedule != "s" {
		t.Errorf("%+v", l)
	}
}
