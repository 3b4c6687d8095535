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
