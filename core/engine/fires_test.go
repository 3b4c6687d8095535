package engine

import (
	"strings"
	"testing"
	"time"

	"fencepost/core/job"
	"fencepost/core/schedule"
)

// all has every occurrence made up for.
func all(d *schedule.Definition) { d.Misfire, d.Window = schedule.MisfireAll, time.Hour }

// TestFiresHaveAThird: a long list to make up for takes a third of a batch, at once or after
// other work.
func TestFiresHaveAThird(t *testing.T) {
	t.Parallel()
	for first := range turns {
		r := newScheduleRig(t, func(c *machineConfig) { c.maxOps = 60 })
		s := r.put(r.every("s", all))
		for n := range 60 {
			r.enqueue(n, 0)
		}
		r.pass(100_000)
		r.m.turn = first
		p := r.fires(0)
		fired := 0
		for _, i := range p.intents {
			fired += len(i.enqueues)
		}
		// Its state, and two rows for each job.
		if ops := 1 + 2*fired; ops > 60/int(turns) || ops < 60/int(turns)-2 || len(p.batch.Ops) > 60 {
			t.Errorf("turn %d: fires have %d operations of %d, at most 60 fit", first, ops, len(p.batch.Ops))
		}
		r.m.settled(p)
		if s.state.Fired != int64(fired) || s.next > r.now.wall {
			t.Errorf("turn %d: %d fired, the next at %d, now is %d", first, s.state.Fired, s.next, r.now.wall)
		}
	}
}

// TestALargeFireGoesAlone: what was taken by a process with another limit is fired one by one,
// so that no batch is larger than one occurrence has to be.
func TestALargeFireGoesAlone(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t, func(c *machineConfig) { c.maxOps, c.maxBytes = 60, 3000 })
	r.put(r.every("s", all, func(d *schedule.Definition) { d.Job.Payload = make([]byte, 6000) }))
	r.pass(3000)
	for range 3 {
		p := r.fires(0)
		r.wantOps(p, "+state *job +pending")
		r.m.settled(p)
	}
	if p := r.fires(0); p != nil {
		t.Errorf("a fourth: %s", what(p))
	}
}

// TestAFiredJobIsChangedOnce: a caller may choose the id of a job without a key. If that is what
// a schedule fires, they do not ride in one batch, which would insert its rows twice.
func TestAFiredJobIsChangedOnce(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t)
	r.put(r.every("s"))
	r.pass(1000)
	id := job.Occurrence{Schedule: "s", Nominal: r.now.wall}.ID("q", 1)
	same := r.job(1, func(j *job.Job) { j.ID, j.Key = id, "" })
	body, err := encode(same, 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	r.m.enqueue(same, body, r.now, newWaiter(), nil)
	p := r.fires(0)
	r.wantOps(p, "+state *job +pending")
	r.m.settled(p)
	r.m.take()
	if p := r.fires(0); p != nil {
		t.Errorf("once more: %s", what(p))
	}
	if out := r.m.take(); len(out) != 1 || out[0].kind != effAck || !out[0].duplicate {
		t.Errorf("the caller is answered with %+v", out)
	}
}

// TestWhatAnotherEnqueuesWaits: a job that a batch enqueues already, as its caller has chosen that
// id, is not fired, triggered or made to follow another by the same batch. The next one does that.
func TestWhatAnotherEnqueuesWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		every time.Duration
		begin func(r *machineRig) job.ID
		then  string
	}{
		"an occurrence": {time.Second, func(r *machineRig) job.ID {
			return job.Occurrence{Schedule: "s", Nominal: r.now.wall}.ID("q", 1)
		}, "+state *job +pending"},
		"a trigger": {time.Hour, func(r *machineRig) job.ID {
			r.order(ScheduleCommand{Verb: TriggerSchedule, Key: "s", Trigger: "t"})
			return job.Occurrence{Schedule: "s", Trigger: "t"}.ID("q", 1)
		}, "+state *job +pending"},
		"a follower": {time.Hour, func(r *machineRig) job.ID {
			j := r.job(1, func(j *job.Job) { j.Then = []job.Job{{Kind: "second"}} })
			r.m.enqueue(j, r.body(j), r.now, nil, nil)
			r.tick(0)
			run := r.runs(1)[0]
			r.m.finished(j.ID, run.ID, nil, r.now, 0)
			next, _ := j.Next(job.Completed, 1)
			return next.ID
		}, "+ended +job -running *job +pending"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newScheduleRig(t)
			r.put(r.every("s", func(d *schedule.Definition) { d.Every, d.At = c.every, time.UnixMilli(r.now.wall).Add(c.every) }))
			r.pass(1000)
			p := &plan{jobs: map[job.ID]bool{c.begin(r): true}}
			r.m.fill(p, tickInput{now: r.now, fires: true})
			if len(p.intents) > 0 {
				t.Errorf("beside it: %s", what(p))
			}
			r.wantOps(r.fires(0), c.then)
		})
	}
}

// TestStatesHaveRoom: what is reckoned for the state of a schedule is never less than it takes,
// with as many occurrences as may wait, be it from before its definition was changed, and numbers
// that are as long as any.
func TestStatesHaveRoom(t *testing.T) {
	t.Parallel()
	const long = -1 << 63
	for _, overlap := range []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapQueue} {
		for _, key := range []string{"s", strings.Repeat("<", schedule.MaxKey)} {
			r := newScheduleRig(t)
			s := r.put(r.every(key, func(d *schedule.Definition) { d.Overlap = overlap }))
			o := job.Occurrence{Schedule: key, Nominal: long, Trigger: strings.Repeat("t", schedule.MaxTrigger)}
			st := schedule.State{Active: o, Created: long, Last: long, Disabled: true, Ended: long, Fired: long, Missed: long, Skipped: long}
			for len(st.Queue) < schedule.MaxQueue {
				st.Queue = append(st.Queue, o)
			}
			if got := s.stateOp(st).Bytes(); got > s.stateBytes {
				t.Errorf("overlap %s, key %.5q: the state takes %d bytes, reckoned at %d", overlap, key, got, s.stateBytes)
			}
		}
	}
}
