package workload

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/lock"
	"fencepost/core/schedule"
	"fencepost/core/store"
	"fencepost/core/worker"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/system/lockperjob"
)

// notebook keeps what is recorded.
type notebook struct {
	mu     sync.Mutex
	ids    int64
	events []history.Event
}

func (n *notebook) Now() int64 { return 1 }

func (n *notebook) NewID() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids++
	return n.ids
}

func (n *notebook) Record(e history.Event) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, e)
	return 0
}

// TestJobLockRecord: a run is recorded in the line of the lock's holder, with the
// lock's token, and can be stopped at each of its points.
func TestJobLockRecord(t *testing.T) {
	t.Parallel()
	const life, holder, id = "w1.1", "w1.1/r3", job.ID("0-ab")
	name := lockperjob.LockName("q", id)
	rec := &notebook{}
	var hits []string
	var p *process
	gate := control.NewGate(func(m control.Message) error {
		hits = append(hits, string(m.Point)+" "+m.Proc+" "+m.Key)
		p.gate.Go(m)
		return nil
	})
	p = &process{cfg: Config{Life: life}, rec: rec, gate: gate, clock: NewClock(clock.System()), counts: &counters{}}
	lanes := newLanes(life)
	o := &jobLockObserver{lockObserver: &lockObserver{ctx: t.Context(), rec: rec, gate: gate, points: jobLockPoints}, process: p, lanes: lanes}
	for n, point := range []control.Point{control.EnqueueSent, control.EnqueueSettled, control.ClaimSent, control.ClaimSettled, control.RetrySent, control.CompleteSent, control.CompleteSettled, control.DLQSent} {
		gate.Arm(n, point, "")
	}
	version := lockperjob.Version(holder, 7, time.UnixMilli(5000), time.Second)

	o.Step(lockperjob.Step{Kind: lockperjob.StepEnqueue, Lock: name, Job: id})
	o.Step(lockperjob.Step{Kind: lockperjob.StepEnqueued, Lock: name, Job: id})
	span := o.Begin(lock.Op{Kind: lock.Acquire, Resource: name, Holder: holder, To: version})
	span.Sending(0)
	span.End(lock.Result{Outcome: store.OK})
	s := lockperjob.Step{Kind: lockperjob.StepClaimed, Lock: name, Holder: holder, Job: id, Run: 7, Attempt: 2, Due: 11}
	o.Step(s)
	update := func(do lockperjob.Do, err error) {
		o.Update(lockperjob.Update{Do: do, Lock: name, Holder: holder, Job: id, Run: 7, Attempt: 2})(err)
	}
	update(lockperjob.DoClaim, nil)
	s.Kind = lockperjob.StepStart
	o.Step(s)
	if l := lanes.of(runKey{name, 7}); l == nil || l.proc != holder || !l.started || l.decided == 0 {
		t.Fatalf("the run's lane is %+v", l)
	}
	s.Kind, s.Err = lockperjob.StepFinish, errors.New("no luck")
	o.Step(s)
	update(lockperjob.DoRetry, nil)
	update(lockperjob.DoComplete, &store.Error{Outcome: store.Unknown, Cause: errors.New("cut")})
	if n := p.counts.cycles.Load(); n != 0 {
		t.Errorf("%d cycles without an acknowledged completion", n)
	}
	update(lockperjob.DoComplete, nil)
	update(lockperjob.DoDLQ, nil)

	want := []string{
		"invoke acquire", "ok acquire", "invoke update claim", "ok update", "note start", "note finish",
		"invoke update retry", "ok update", "invoke update complete", "unknown update", "invoke update complete", "ok update", "invoke update dlq", "ok update",
	}
	var got []string
	for _, e := range rec.events {
		text := string(e.Type) + " " + string(e.Op)
		for _, c := range e.Changes() {
			text += " " + c.Do
			if c.Job != string(id) || c.Run != 7 || c.Attempt != 2 {
				t.Errorf("change %+v", c)
			}
		}
		got = append(got, text)
		switch {
		case e.Proc != holder:
			t.Errorf("%s by %s", text, e.Proc)
		case e.Type == history.Note && (e.Key != string(id) || e.Issuer != name || e.Token != 7):
			t.Errorf("%+v", e)
		case e.Op == history.NoteStart && (e.Attempt() != 2 || e.DueMS() != 11 || e.WallMS() == 0 || e.DecidedAt == 0):
			t.Errorf("%+v", e)
		case e.Op == history.NoteFinish && e.Error == "":
			t.Error("the end of the run has no error")
		case e.Type != history.Note && e.Key != name:
			t.Errorf("%s of %s", text, e.Key)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
	if n := p.counts.cycles.Load(); n != 1 {
		t.Errorf("%d cycles", n)
	}
	wantHits := []string{
		"enqueue-sent w1.1 ", "enqueue-settled w1.1 ", "claim-sent " + holder + " ", "claim-settled " + holder + " ", "retry-sent " + holder + " ",
		"complete-sent " + holder + " ", "complete-settled " + holder + " ", "dlq-sent " + holder + " ",
	}
	for i := range wantHits {
		wantHits[i] += name
	}
	if !slices.Equal(hits, wantHits) {
		t.Errorf("stopped at %q, want %q", hits, wantHits)
	}
	if lanes.of(runKey{name, 7}) != nil || lanes.names.used() != 0 {
		t.Error("the lane has not ended, or a name was made for it")
	}
}

// TestLanes: run ids of two shards are the same number, a lane is given to one run
// at a time, and a free one is used again.
func TestLanes(t *testing.T) {
	t.Parallel()
	l := newLanes("w1.1")
	a, b := runKey{"shard/q/0", 1 << 32}, runKey{"shard/q/1", 1 << 32}
	la, lb := l.begin(a), l.begin(b)
	if la == lb || la.proc == lb.proc || l.of(a) != la || l.of(b) != lb {
		t.Fatalf("two shards' runs share a lane: %+v, %+v", la, lb)
	}
	la.started = true
	l.end(a)
	l.end(a)
	if l.of(a) != nil {
		t.Error("a run that ended has a lane")
	}
	c := runKey{"shard/q/0", 1<<32 | 1}
	if lc := l.begin(c); lc.proc != la.proc || lc.started {
		t.Errorf("the free lane is not used, or not new: %+v", lc)
	}
	lent := runKey{"lock/q/j", 7}
	if e := l.enter(lent, "w1.1/x"); e.proc != "w1.1/x" || l.of(lent) != e {
		t.Errorf("a lane that the scheduler names: %+v", e)
	}
	l.end(lent)
	if d := l.begin(a); d.proc == la.proc || d.proc == lb.proc || d.proc == "w1.1/x" {
		t.Errorf("a lane was free twice: %+v", d)
	}
}

func recurringJobs(shards int) *Jobs {
	return &Jobs{Queue: "q", Shards: shards, Every: time.Second, Steps: 2, Length: 20 * time.Millisecond, MaxAttempts: 5, RetryBase: time.Second, Window: 10 * time.Second, Sequence: 2}
}

// TestScheduleKeys: each shard has one schedule, the same for every worker.
func TestScheduleKeys(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 8, 32} {
		keys := recurringJobs(shards).keys("q")
		if len(keys) != shards || !slices.Equal(keys, recurringJobs(shards).keys("q")) {
			t.Errorf("%d shards: %v", shards, keys)
		}
		for n, key := range keys {
			if got, err := job.ScheduleID("q", key, shards).Shard(); err != nil || got != n {
				t.Errorf("%d shards: %s is in shard %d, %v", shards, key, got, err)
			}
		}
	}
}

// TestScheduleAsked: the schedule is valid, and the history says of it what its jobs
// are like.
func TestScheduleAsked(t *testing.T) {
	t.Parallel()
	j := recurringJobs(8)
	key := j.keys("q")[3]
	s, err := schedule.New(j.definition("q", key), j.Shards)
	if err != nil {
		t.Fatal(err)
	}
	made := s.JobOf(job.Occurrence{Schedule: key, Nominal: 5000})
	if s.Grace > s.Window || s.Window != j.Window {
		t.Errorf("its grace is %s, its window %s", s.Grace, s.Window)
	}
	a := j.asked(order{verb: engine.PutSchedule, of: j.definition("q", key)})
	if a.Do != history.DoPut || a.Shard != "shard/q/3" || a.EveryMS != 1000 || a.WindowMS != 10_000 {
		t.Errorf("it is asked for %+v", a)
	}
	if got := a.Job.Resource + string(made.ID); got != worker.Resource(made) {
		t.Errorf("the resource of %s is %s, and that of the history %s", made.ID, worker.Resource(made), got)
	}
	if !slices.Equal(a.Job.Steps, []string{"s1", "s2"}) || a.Job.MaxAttempts != made.MaxAttempts || a.Job.Kind != made.Kind {
		t.Errorf("its jobs are %+v, and the history says %+v", made, a.Job)
	}
	if body, err := s.Encode(); err != nil || a.Form == "" || a.Form != formOf(string(body)) {
		t.Errorf("its form is %s, and that of its row %s, %v", a.Form, formOf(string(body)), err)
	}
	next, ok := made.Next(job.Completed, j.Shards)
	if len(a.Job.Then) != 2 || !ok || !slices.Equal(a.Job.Then[0].Steps, []string{"s1", "s2"}) || a.Job.Then[0].Resource+string(next.ID) != worker.Resource(next) {
		t.Errorf("what follows is %+v, and the history says %+v", next, a.Job.Then)
	}
	if d := j.asked(order{verb: engine.DisableSchedule, of: j.definition("q", key)}); d.Do != history.DoDisable || d.Job != nil || d.Shard != a.Shard {
		t.Errorf("to disable it is %+v", d)
	}
}

// TestScheduleChanges: what a batch does to a schedule is written down with its nominal
// times; a job that follows another one is not one of them.
func TestScheduleChanges(t *testing.T) {
	t.Parallel()
	o := job.Occurrence{Schedule: "k", Nominal: 5000}
	for name, c := range map[string]struct {
		in   engine.Change
		want history.Change
	}{
		"fire":    {engine.Change{Kind: engine.StepFire, Occurrence: job.Occurrence{Schedule: "k"}, Last: 5000, Missed: 2}, history.Change{Do: history.DoFire, Schedule: "k", LastMS: 5000, Missed: 2}},
		"its job": {engine.Change{Kind: engine.StepEnqueue, Job: "0-a", Due: 5000, Occurrence: o}, history.Change{Job: "0-a", Do: history.DoEnqueue, DueMS: 5000, Schedule: "k", NominalMS: 5000}},
		"over": {engine.Change{Kind: engine.StepOver, Occurrence: o, Last: 6000, Skipped: 1, Waiting: 3, Ended: 6100},
			history.Change{Do: history.DoOver, Schedule: "k", NominalMS: 5000, LastMS: 6000, Skipped: 1, Waiting: 3, EndedMS: 6100}},
		"put": {engine.Change{Kind: engine.StepPut, Occurrence: job.Occurrence{Schedule: "k"}, Last: 5000, Definition: "{}"},
			history.Change{Do: history.DoPut, Schedule: "k", LastMS: 5000, Form: formOf("{}")}},
		"remove":       {engine.Change{Kind: engine.StepRemove, Occurrence: job.Occurrence{Schedule: "k"}}, history.Change{Do: history.DoRemove, Schedule: "k"}},
		"what follows": {engine.Change{Kind: engine.StepEnqueue, Job: "0-b", Due: 7, After: "0-a", Occurrence: o}, history.Change{Job: "0-b", Do: history.DoEnqueue, DueMS: 7, After: "0-a"}},
	} {
		if got := change(c.in); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
