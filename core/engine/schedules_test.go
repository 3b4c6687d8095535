package engine

import (
	"encoding/json"
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

// newScheduleRig is a rig for schedules.
func newScheduleRig(t *testing.T, change ...func(*machineConfig)) *machineRig {
	t.Helper()
	return newRig(t, append([]func(*machineConfig){func(c *machineConfig) {
		c.lateAfter, c.decide = 4000, (*schedule.Schedule).Decide
		c.horizon = 1_000_000 // everything is in memory
	}}, change...)...)
}

// every is a schedule that fires each second, from the next one on.
func (r *machineRig) every(key string, change ...func(*schedule.Definition)) schedule.Definition {
	d := schedule.Definition{Queue: "q", Key: key, Timing: schedule.Timing{Kind: schedule.FixedRate, Every: time.Second, At: time.UnixMilli(r.now.wall + 1000)},
		Overlap: schedule.OverlapAllow, Job: job.Job{Kind: "k"}}
	for _, c := range change {
		c(&d)
	}
	return d
}

func (r *machineRig) order(c ScheduleCommand) *intent {
	r.t.Helper()
	e := &Engine{o: Options{Limits: Limits{MaxBytes: store.MaxBytes}}}
	if c.Queue == "" && c.Definition == nil {
		c.Queue = "q"
	}
	checked, err := e.check(c, func(string) (store.Queue, error) { return store.Queue{Name: "q", First: 1, Shards: 1}, nil })
	if err != nil {
		r.t.Fatal(err)
	}
	i := &intent{kind: doSchedule, command: checked, wait: newWaiter()}
	r.m.push(i)
	return i
}

func (r *machineRig) put(d schedule.Definition) *recurring {
	r.t.Helper()
	i := r.order(ScheduleCommand{Verb: PutSchedule, Definition: &d})
	r.tick(0)
	r.m.take()
	return r.m.schedules.byID[i.command.id]
}

// fires plans a batch in which schedules may fire.
func (r *machineRig) fires(free int) *plan {
	r.n++
	return r.m.next(tickInput{now: r.now, free: free, fires: true, owner: "w", nonce: fmt.Sprint("n", r.n)})
}

// what shows a batch: each operation with its kind of row.
func what(p *plan) string {
	if p == nil {
		return "nothing"
	}
	kinds := map[store.Kind]string{store.KindPending: "pending", store.KindRunning: "running", store.KindJob: "job", store.KindEnded: "ended", store.KindDLQ: "dlq", store.KindSchedule: "schedule"}
	verbs := map[store.OpKind]string{store.Put: "+", store.PutNew: "*", store.Delete: "-"}
	var out []string
	for _, op := range p.batch.Ops {
		name := verbs[op.Kind] + kinds[op.Row.Kind]
		if op.Row.Kind == store.KindSchedule && op.Row.At == AtState {
			name = verbs[op.Kind] + "state"
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

func (r *machineRig) wantOps(p *plan, want string) {
	r.t.Helper()
	if got := what(p); got != want {
		r.t.Fatalf("the batch is %q, want %q", got, want)
	}
}

// runs claims and returns what has started.
func (r *machineRig) runs(free int) (out []job.Run) {
	r.t.Helper()
	r.tick(free)
	for _, x := range r.m.take() {
		if x.kind == effStart {
			out = append(out, x.run)
		}
	}
	return out
}

func (r *machineRig) finish(run job.Run, err error) *plan {
	r.t.Helper()
	r.m.finished(run.Job.ID, run.ID, err, r.now, 0.5)
	return r.next(0)
}

func TestAScheduleFiresInOneBatch(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t)
	d := r.every("s")
	r.order(ScheduleCommand{Verb: PutSchedule, Definition: &d})
	p := r.next(0)
	r.wantOps(p, "+schedule +state")
	if c := p.changes(); len(c) != 1 || c[0].Kind != StepPut || c[0].Occurrence.Schedule != "s" {
		t.Errorf("%+v", c)
	}
	r.m.settled(p)
	r.pass(999)
	if p := r.fires(0); p != nil {
		t.Fatalf("early: %s", what(p))
	}
	if at := r.m.schedules.wake(); at != r.now.wall+1 {
		t.Errorf("it wakes at %d, in %d", at, at-r.now.wall)
	}
	r.pass(1)
	p = r.fires(5)
	r.wantOps(p, "+state *job +pending")
	o := job.Occurrence{Schedule: "s", Nominal: r.now.wall}
	if c := p.changes(); len(c) != 2 || c[0].Kind != StepEnqueue || c[0].Occurrence != o || c[0].Job != o.ID("q", 1) || c[1].Kind != StepFire || c[1].Last != o.Nominal {
		t.Errorf("%+v", c)
	}
	r.m.settled(p)
	if run := r.runs(5); len(run) != 1 || run[0].Job.Occurrence != o || run[0].Job.Key != "s@1970-01-01T00:00:11Z" {
		t.Errorf("%+v", run)
	}
	r.pass(999)
	if p := r.fires(0); p != nil {
		t.Errorf("twice: %s", what(p))
	}
}

// TestEndsOfOccurrencesFillABatch: the end of a job that its schedule waits for takes one operation
// more than another, and no more is kept free for it.
func TestEndsOfOccurrencesFillABatch(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t)
	const each = opsOf + 1
	n := r.m.cfg.maxOps / each
	for key := range n {
		r.put(r.every(fmt.Sprint(key), func(d *schedule.Definition) { d.Overlap = schedule.OverlapSkip }))
	}
	r.pass(1000)
	var runs []job.Run
	for range n {
		if p := r.fires(0); p != nil {
			r.m.settled(p)
		}
	}
	for len(runs) < n {
		runs = append(runs, r.runs(n)...)
	}
	for _, run := range runs {
		r.m.finished(run.Job.ID, run.ID, nil, r.now, 0)
	}
	if p := r.next(0); len(p.intents) != n || len(p.batch.Ops) != n*(each-1)+1 { // they share a row of the index
		t.Errorf("%d of %d ends are in a batch of %d: %s", len(p.intents), n, r.m.cfg.maxOps, what(p))
	}
}

// TestAFireWhoseJobExists: the schedule advances, and the job is not run again.
func TestAFireWhoseJobExists(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t, func(c *machineConfig) { c.maxOps = 40 })
	s := r.put(r.every("s"))
	r.pass(2000)
	p := r.fires(0)
	r.wantOps(p, "+state *job +pending *job +pending")
	first := job.Occurrence{Schedule: "s", Nominal: r.now.wall - 1000}
	if !r.m.rejected(p, exists(first.ID("q", 1))) {
		t.Fatal("a rejection by a job of it says nothing")
	}
	p = r.fires(0)
	r.wantOps(p, "+state *job +pending")
	r.m.settled(p)
	if s.state.Fired != 1 || s.state.Last != r.now.wall || len(r.m.jobs) != 1 || r.fires(0) != nil {
		t.Errorf("%+v, %d jobs", s.state, len(r.m.jobs))
	}
}

// TestARunDoesNotEndInTheFuture when the clock is set back before its end is settled: a
// schedule that counts from there would stand still.
func TestARunDoesNotEndInTheFuture(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t)
	s := r.put(r.every("s", func(d *schedule.Definition) { d.Kind, d.Overlap = schedule.FixedDelay, schedule.OverlapSkip }))
	r.pass(1000)
	r.m.settled(r.fires(0))
	run := r.runs(1)[0]
	r.m.finished(run.Job.ID, run.ID, nil, r.now, 0.5)
	r.now.wall -= 10 * minutes
	r.m.see(r.now)
	r.m.settled(r.next(0))
	if s.state.Ended != r.now.wall {
		t.Errorf("it ended %d ms from now", s.state.Ended-r.now.wall)
	}
}

func TestATriggerThatFiredBefore(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t)
	r.put(r.every("s"))
	i := r.order(ScheduleCommand{Verb: TriggerSchedule, Key: "s", Trigger: "t"})
	p := r.next(0)
	r.wantOps(p, "+state *job +pending")
	id := job.Occurrence{Schedule: "s", Trigger: "t"}.ID("q", 1)
	if !r.m.rejected(p, exists(id)) || r.next(0) != nil {
		t.Fatal("it is tried again")
	}
	if out := r.m.take(); len(out) != 1 || out[0].kind != effAck || out[0].i != i || !out[0].duplicate {
		t.Errorf("%+v", out)
	}
}

func TestCommandsOfSchedules(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t)
	answer := func(c ScheduleCommand) (duplicate bool, err error) {
		t.Helper()
		i := r.order(c)
		if p := r.next(0); p != nil {
			r.m.settled(p)
		}
		for _, x := range r.m.take() {
			if x.kind == effAck && x.i == i {
				return x.duplicate, x.err
			}
		}
		t.Fatalf("%s is not answered", c.Verb)
		return false, nil
	}
	key := func(v Verb) ScheduleCommand { return ScheduleCommand{Verb: v, Key: "s", Trigger: "t"} }
	for _, v := range []Verb{RemoveSchedule, EnableSchedule, DisableSchedule, TriggerSchedule} {
		if _, err := answer(key(v)); err != ErrUnknownSchedule {
			t.Errorf("%s of no schedule: %v", v, err)
		}
	}
	d := r.every("s", func(d *schedule.Definition) { d.Overlap = schedule.OverlapSkip })
	other := d
	other.Every = time.Minute
	for n, c := range []struct {
		cmd       ScheduleCommand
		duplicate bool
		err       error
	}{
		{ScheduleCommand{Verb: PutSchedule, Definition: &d}, false, nil},
		{ScheduleCommand{Verb: PutSchedule, Definition: &d}, true, nil},
		{ScheduleCommand{Verb: PutSchedule, Definition: &other}, false, nil},
		{key(EnableSchedule), true, nil}, {key(DisableSchedule), false, nil}, {key(DisableSchedule), true, nil},
		{key(TriggerSchedule), false, nil}, {key(TriggerSchedule), true, nil},
		{ScheduleCommand{Verb: TriggerSchedule, Key: "s", Trigger: "u"}, false, schedule.ErrOverlap},
		{key(EnableSchedule), false, nil}, {key(RemoveSchedule), false, nil}, {key(RemoveSchedule), false, ErrUnknownSchedule},
	} {
		if dup, err := answer(c.cmd); dup != c.duplicate || err != c.err {
			t.Errorf("%d, %s: duplicate %v, %v, want %v, %v", n, c.cmd.Verb, dup, err, c.duplicate, c.err)
		}
	}
	if len(r.m.schedules.byID)+len(r.m.schedules.wakes.list) != 0 {
		t.Errorf("left: %+v", r.m.schedules)
	}
}

func TestReadingSchedules(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t, func(c *machineConfig) { c.page = 2 })
	r.m.schedules = newSchedules()
	var rows []store.Row
	row := func(id job.ID, at int64, v any) {
		body, _ := json.Marshal(v)
		rows = append(rows, store.Row{Key: store.Key{Kind: store.KindSchedule, At: at, ID: string(id)}, Body: body})
	}
	for _, key := range []string{"good", "without state", "bad zone", "stray"} {
		d := r.every(key)
		if key == "bad zone" {
			d.Timing = schedule.Timing{Kind: schedule.Cron, Cron: "@daily", Zone: "Nowhere/Land"}
		}
		id := job.ScheduleID("q", key, 1)
		if key != "stray" {
			row(id, AtDefinition, d)
		}
		if key != "without state" {
			row(id, AtState, schedule.State{Last: r.now.wall + 1000})
		}
	}
	row("garbage", AtDefinition, "what?")
	row(job.ScheduleID("q", "other", 1), AtDefinition, r.every("another"))
	slices.SortFunc(rows, func(a, b store.Row) int {
		if a.Key.Less(b.Key) {
			return -1
		}
		return 1
	})
	failures := 2
	for !r.m.schedules.loaded {
		rng, ok := r.m.scheduleRange()
		if _, twice := r.m.scheduleRange(); !ok || twice {
			t.Fatalf("asked %v, twice %v", ok, twice)
		}
		if failures--; failures >= 0 {
			r.m.schedulesRead(nil, true)
			continue
		}
		var page []store.Row
		for _, row := range rows {
			if (store.Key{Kind: rng.Kind, At: rng.AfterAt, ID: rng.AfterID}).Less(row.Key) && row.At <= rng.UpTo && len(page) < rng.Limit {
				page = append(page, row)
			}
		}
		r.m.schedulesRead(page, false)
	}
	broken := map[string]bool{}
	for _, x := range r.m.take() {
		if x.kind == effLate && x.late.Err != nil {
			broken[x.late.Schedule] = true
		}
	}
	if len(broken) != 4 || !broken["without state"] || !broken["garbage"] {
		t.Errorf("broken are %v", broken)
	}
	r.pass(2000)
	p := r.fires(0)
	r.wantOps(p, "+state *job +pending")
	if key := p.intents[0].scheduleKey(); key != "good" {
		t.Errorf("%s fires", key)
	}
	r.m.settled(p)
	r.m.take()
	for _, key := range []string{"without state", "bad zone"} {
		i := r.order(ScheduleCommand{Verb: EnableSchedule, Key: key})
		r.next(0)
		if out := r.m.take(); len(out) != 1 || out[0].i != i || !errors.As(out[0].err, new(*BrokenError)) {
			t.Errorf("%s: %+v", key, out)
		}
		if s := r.put(r.every(key)); s.broken != nil || s.next == schedule.Never {
			t.Errorf("%s put again: %+v", key, s)
		}
	}
}

// TestLevels: as soon as so many schedules as make a range deletion were removed between two that
// are left, their places are deleted as a range.
func TestLevels(t *testing.T) {
	t.Parallel()
	for _, every := range []int{1, 3} {
		r := newScheduleRig(t, func(c *machineConfig) { c.trimEvery = every })
		for n := range every + 1 {
			ops := r.m.levels(&plan{})
			if (n == every) != (len(ops) == 2) || len(ops) != 0 && len(ops) != 2 {
				t.Errorf("after %d were removed, of %d: %+v", n, every, ops)
			}
			r.m.schedules.graves.dig(fmt.Sprint(n))
		}
	}
}

// TestLevelsOfABusyShard: the range waits for the next batch if one of its places is written by
// this one, and for nothing else.
func TestLevelsOfABusyShard(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t, func(c *machineConfig) { c.trimEvery = 1 })
	r.m.schedules.graves.dig("s")
	definition := store.Key{Kind: store.KindSchedule, At: AtDefinition, ID: "s"}
	state := store.Key{Kind: store.KindSchedule, At: AtState, ID: "s"}
	row := func(k store.Key) store.Op { return put(store.Row{Key: k}) }
	for name, c := range map[string]struct {
		op   store.Op
		goes bool
	}{
		"a definition":      {row(definition), false},
		"a state":           {row(state), false},
		"a removed one":     {remove(state), true},
		"a job":             {row(jobKey("s")), true},
		"a job that is new": {store.Op{Kind: store.PutNew, Row: store.Row{Key: jobKey("s")}}, true},
	} {
		if ops := r.m.levels(&plan{batch: store.Batch{Ops: []store.Op{c.op}}}); (len(ops) == 2) != c.goes {
			t.Errorf("beside %s: %+v", name, ops)
		}
	}
}
