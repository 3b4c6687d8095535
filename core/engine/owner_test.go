package engine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"fencepost/core/clock"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
)

// standing is a clock that does not go on.
type standing struct {
	clock.Clock
	now time.Duration
}

func (s standing) Now() time.Duration { return s.now }

// TestNextWake: an owner looks again when there is something to do: when trust ends, a beat is due, a
// job or a schedule, when slots may be free, when the inbox is to be read, when the drain is over.
func TestNextWake(t *testing.T) {
	t.Parallel()
	const second = time.Second
	job := func(r *machineRig) { // due in half a second
		r.enqueue(1, 10_500)
		r.tick(0)
		r.m.waiting.due(r.now)
	}
	for name, c := range map[string]struct {
		change func(*owner, *machineRig)
		want   time.Duration
	}{
		"a beat":                     {func(*owner, *machineRig) {}, 79 * second},
		"the end of trust":           {func(o *owner, _ *machineRig) { o.trustUntil.Store(int64(75 * second)) }, 75 * second},
		"a job":                      {func(_ *owner, r *machineRig) { job(r) }, 70*second + 500*time.Millisecond},
		"a job that should have run": {func(_ *owner, r *machineRig) { job(r); r.now.wall += 900 }, 70*second + time.Millisecond},
		"a job, but it stops":        {func(o *owner, r *machineRig) { job(r); o.stopping = true }, 79 * second},
		"slots":                      {func(o *owner, _ *machineRig) { o.short, o.shortAt = true, 70*second }, 70*second + slotPoll},
		"a schedule":                 {func(_ *owner, r *machineRig) { r.put(r.every("s")) }, 71 * second},
		"a schedule, in half an hour": {func(o *owner, r *machineRig) {
			r.put(r.every("s", func(d *schedule.Definition) { d.At = time.UnixMilli(r.now.wall + 1_800_000) }))
			o.e.o.TTL = 3 * time.Hour
			o.trustUntil.Store(int64(4 * time.Hour))
			o.inbox.next = 4 * time.Hour
		}, 70*second + 30*time.Minute},
		"a schedule that is due":         {func(_ *owner, r *machineRig) { r.put(r.every("s")); r.now.wall += 9000 }, 70*second + time.Millisecond},
		"a schedule, but memory is full": {func(o *owner, r *machineRig) { r.put(r.every("s")); o.e.o.MaxPending = 0 }, 70*second + slotPoll},
		"a schedule, but it stops":       {func(o *owner, r *machineRig) { r.put(r.every("s")); o.stopping = true }, 79 * second},
		"no schedule, memory is full":    {func(o *owner, _ *machineRig) { o.e.o.MaxPending = 0 }, 79 * second},
		"the inbox":                      {func(o *owner, _ *machineRig) { o.inbox.next = 72 * second }, 72 * second},
		"the inbox, which is being read": {func(o *owner, _ *machineRig) { o.inbox.next, o.inbox.loading = 72*second, true }, 79 * second},
		"the inbox, but it stops":        {func(o *owner, _ *machineRig) { o.inbox.next, o.stopping = 72*second, true }, 79 * second},
		"the drain":                      {func(o *owner, _ *machineRig) { o.stopping, o.drained = true, 74*second }, 74 * second},
		"the drain is over":              {func(o *owner, _ *machineRig) { o.stopping, o.drained = true, 69*second }, 79 * second},
		"a batch is on its way": {func(o *owner, r *machineRig) {
			job(r)
			o.flight, o.short, o.shortAt = &flight{plan: &plan{}}, true, 70*second
		}, 100 * second},
	} {
		r := newScheduleRig(t)
		o := &owner{m: r.m, lastSend: 69 * second, inbox: inboxState{next: 200 * second}}
		o.e = &Engine{o: Options{Ownership: Ownership{TTL: 30 * second}, Limits: Limits{MaxPending: 100},
			World: World{Clock: standing{now: 70 * second}, Wall: func() time.Time { return time.UnixMilli(r.now.wall) }}}}
		o.trustUntil.Store(int64(100 * second))
		c.change(o, r)
		if got := o.nextWake(); got != c.want {
			t.Errorf("%s: at %s, want %s", name, got, c.want)
		}
	}
}

// TestTooLate: who asks an owner after its end is told so at once, and takes no room.
func TestTooLate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := &owner{m: r.m, s: &shard{}, notify: make(chan struct{}, 1)}
	o.e = &Engine{o: Options{Limits: Limits{MaxWaiting: 1}}}
	early := &intent{kind: doEnqueue, e: &entry{job: r.job(1)}, wait: newWaiter()}
	if err := o.ask(early, func() { r.m.push(early) }); err != nil {
		t.Fatal(err)
	}
	o.end()
	if a := <-early.wait.done; !errors.Is(a.err, ErrNotOwner) || store.OutcomeOf(a.err) != store.Fail {
		t.Errorf("who asked before: %v", a.err)
	}
	late := &intent{kind: doEnqueue, e: &entry{job: r.job(2)}, wait: newWaiter()}
	if err := o.ask(late, func() { t.Error("an owner that has ended takes it") }); !errors.Is(err, ErrNotOwner) {
		t.Errorf("who asks after it: %v", err)
	}
	if n := o.callers.Load(); n != 0 {
		t.Errorf("%d callers keep their room", n)
	}
}

// TestLateStart: a run is reported that starts late by more than LateAfter, the time of a pause not
// counted. If its job was while it waited, the next attempt is.
func TestLateStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		by, paused int64
		told       bool
		want       int64
	}{
		"in time":              {4000, 0, false, 0},
		"late":                 {4001, 0, false, 4001},
		"in time but a pause":  {4500, 500, false, 0},
		"late even so":         {4501, 500, false, 4001},
		"told while it waited": {4001, 0, true, 0},
	} {
		r := newRig(t)
		var told []int64
		o := &owner{m: r.m, e: &Engine{o: Options{
			World:   World{Clock: standing{now: ms(r.now.mono)}, Wall: func() time.Time { return time.UnixMilli(r.now.wall) }},
			Reports: Reports{LateAfter: 4 * time.Second, LateJob: func(l LateJob) { told = append(told, l.By.Milliseconds()) }},
		}}}
		r.m.head.Pause = store.Pause{Since: r.now.wall - 1000, Lasted: c.paused}
		i := &intent{e: &entry{toldLate: c.told}}
		o.lateStart(i, job.Run{Job: r.job(1), Due: r.now.wall - c.by})
		if c.want == 0 && len(told) != 0 || c.want > 0 && !slices.Equal(told, []int64{c.want}) {
			t.Errorf("%s: told of %v ms, want %d", name, told, c.want)
		}
		if i.e.toldLate {
			t.Errorf("%s: its next attempt is not told of", name)
		}
	}
}

// TestNotItsOwn: a process owns no shard that it does not know, counts nothing in one that it has
// only just taken over, and says why it does not trust one any more.
func TestNotItsOwn(t *testing.T) {
	t.Parallel()
	id := store.ShardID{Queue: "q"}
	o := &owner{ctx: t.Context(), notify: make(chan struct{}, 1)}
	s := &shard{id: id, owner: o}
	o.e = &Engine{o: Options{Queues: []Queue{{"q", 1}}, World: World{Clock: standing{now: time.Second}}},
		spread: spread{queues: []store.Queue{{Name: "q", First: 1, Shards: 1}}, shards: map[store.ShardID]*shard{id: s}, order: []*shard{s}}}
	o.trustUntil.Store(int64(2 * time.Second))
	if o.e.Owns(store.ShardID{Queue: "another"}) || !o.e.Owns(id) {
		t.Error("it owns another queue's shard, or not its own")
	}
	if d := o.e.Depths(); len(d) != 1 || d[0] != (Depth{Queue: "q"}) {
		t.Errorf("of what nobody has counted: %+v", d)
	}
	if err := o.expired(); !errors.Is(err, ErrExpired) {
		t.Errorf("it is lost as %v", err)
	}
	o.forbidden = errors.New("no permission")
	if err := o.expired(); !errors.Is(err, ErrExpired) || !errors.Is(err, o.forbidden) {
		t.Errorf("where the store refuses everything it is lost as %v", err)
	}
}

// TestWaiter: a caller is told once, unless he has gone before what he asked for was taken; then
// his room is another's.
func TestWaiter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(w *waiter)
		goes bool // he may go then, and knows that nothing was done
	}{
		"waits":              {func(*waiter) {}, true},
		"rides":              {func(w *waiter) { w.rides() }, false},
		"rides twice":        {func(w *waiter) { w.rides(); w.rides() }, false},
		"waits again":        {func(w *waiter) { w.rides(); w.waits() }, true},
		"was told":           {func(w *waiter) { w.tell(ack{}) }, false},
		"was told and rides": {func(w *waiter) { w.tell(ack{}); w.rides() }, false},
	} {
		o := &owner{}
		o.callers.Store(1)
		w := newWaiter()
		w.budget = &o.callers
		c.do(w)
		if got := w.goes(); got != c.goes || w.gone() != c.goes {
			t.Errorf("who %s goes: %v, is gone: %v", name, got, w.gone())
		}
		if c.goes && w.rides() {
			t.Errorf("who %s and goes still rides", name)
		}
		if len(w.done) == 0 {
			w.tell(ack{})
		}
		if told := len(w.done) == 1; told == c.goes || o.callers.Load() != 0 {
			t.Errorf("who %s: told %v, there is room for %d less", name, told, o.callers.Load())
		}
	}
	var nobody *waiter
	nobody.waits()
	nobody.tell(ack{})
	if !nobody.rides() || nobody.gone() {
		t.Error("what nobody waits for does not ride")
	}
}
