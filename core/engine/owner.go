package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
)

// owner is one ownership of a shard: the runtime around its machine. All of its
// fields but those said otherwise are used by the loop's goroutine only; what
// happens elsewhere is posted to the loop as a function.
type owner struct {
	e     *Engine
	s     *shard
	id    store.ShardID
	fence int64
	m     *machine

	// ctx ends with the ownership, runCtx also when the drain is over.
	ctx        context.Context
	cancel     context.CancelCauseFunc
	runCtx     context.Context
	interrupt  context.CancelCauseFunc
	trustUntil atomic.Int64 // by the clock; for everybody

	mu     sync.Mutex
	box    []func()
	closed bool
	notify chan struct{}

	flight   *flight
	lastSend time.Duration
	over     bool
	stopping bool
	drained  time.Duration // when interrupted at the latest
	giving   *giving       // nil: it is not handed over by a process that goes on
	inbox    inboxState
	census   census
	// admission decides whether an enqueue may wait.
	admission admission
	// callers and commanders are those who wait: commands have room of their own, so that
	// a flood of enqueues keeps nobody from pausing a queue.
	callers, commanders atomic.Int64
	// stalled: the batch on its way was not answered within RequestTimeout. Enqueues are
	// refused until it is settled: their callers have other shards to go on with.
	stalled bool
	// forbidden is why the store refuses even empty batches for good; nil: it does not.
	forbidden error
	counted   int // of the machine's bytes, in the engine's
	// warned: somebody was told at warnedAt of what goes wrong.
	warned   bool
	warnedAt time.Duration
	runs     map[job.RunID]context.CancelCauseFunc
	// ready: it could use slots now, as none of its batches is in flight.
	ready atomic.Bool
	// short: the executor had fewer slots than there is to claim, at shortAt.
	short   bool
	shortAt time.Duration
}

func newOwner(s *shard, head store.Header, first, trust time.Duration) *owner {
	o := &owner{e: s.e, s: s, id: s.id, fence: head.Fence, notify: make(chan struct{}, 1), lastSend: first,
		admission: newAdmission(), runs: map[job.RunID]context.CancelCauseFunc{}}
	o.ctx, o.cancel = context.WithCancelCause(context.Background())
	o.runCtx, o.interrupt = context.WithCancelCause(o.ctx)
	o.trustUntil.Store(int64(trust))
	opt := s.e.o
	o.m = newMachine(machineConfig{
		maxOps: opt.MaxOps, maxBytes: opt.MaxBytes, maxRunning: opt.MaxRunning, trimEvery: opt.TrimEvery,
		horizon: millis(opt.Horizon), maxLoaded: opt.MaxLoaded, page: opt.PageSize, dedupe: millis(opt.DedupeWindow),
		full:  func() bool { return o.bytes() >= int64(opt.MaxPendingBytes) },
		first: s.e.first(s.id.Queue), lateAfter: millis(opt.LateAfter), lateJobs: opt.LateJob != nil, decide: opt.decide,
	}, head, o.moment())
	o.inbox, o.census.next = newInboxState(o.now(), opt.PageSize), o.now()
	return o
}

// moment reads the clocks for the machine, which has to know first if the wall clock
// was set back: what it is given with this reading may be rows from before.
func (o *owner) moment() moment {
	now := moment{wall: o.e.o.Wall().UnixMilli(), mono: millis(o.now())}
	if o.m != nil {
		o.m.see(now)
	}
	return now
}

func (o *owner) now() time.Duration { return o.e.o.Clock.Now() }

func (o *owner) valid() bool {
	return o.ctx.Err() == nil && o.now() < time.Duration(o.trustUntil.Load())
}

// post hands f to the loop; false: the ownership has ended.
func (o *owner) post(f func()) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	o.box = append(o.box, f)
	o.wake()
	return true
}

func (o *owner) wake() {
	select {
	case o.notify <- struct{}{}:
	default:
	}
}

func (o *owner) drainBox() {
	o.mu.Lock()
	box := o.box
	o.box = nil
	o.mu.Unlock()
	for _, f := range box {
		if !o.over {
			f()
		}
	}
}

// loop ticks until the shard is lost or handed over.
func (o *owner) loop(stop context.Context) {
	defer context.AfterFunc(stop, func() { o.post(o.stop) })()
	for {
		o.drainBox()
		if !o.over && o.now() >= time.Duration(o.trustUntil.Load()) {
			o.lose(o.expired())
		}
		if o.over {
			o.end()
			return
		}
		o.work()
		if o.over {
			continue
		}
		unarm := o.e.o.Clock.AfterFunc(max(o.nextWake()-o.now(), 0)+1, o.wake)
		<-o.notify
		unarm()
		if o.e.o.Settle != nil {
			o.e.o.Settle()
		}
	}
}

// end closes the box; what was posted too late is refused.
func (o *owner) end() {
	o.mu.Lock()
	o.closed = true
	box := o.box
	o.box = nil
	o.mu.Unlock()
	for _, f := range box {
		f()
	}
	o.keep(o.giving, ErrNotOwner)
	o.failWaiting()
	o.e.reserve(o, 0)
	o.e.bytes.Add(-int64(o.counted))
}

// bytes is what the bodies of jobs take that the engine has in memory.
func (o *owner) bytes() int64 { return o.e.bytes.Load() + int64(o.m.bytes-o.counted) }

func (o *owner) count() {
	o.e.bytes.Add(int64(o.m.bytes - o.counted))
	o.counted = o.m.bytes
	o.publish()
}

// warn tells of what goes wrong again and again, once a ttl.
func (o *owner) warn(what string, err error) {
	if now := o.now(); !o.warned || now-o.warnedAt >= o.e.o.TTL {
		o.warned, o.warnedAt = true, now
		o.e.o.Logger.Warn(what, "shard", o.id.String(), "fence", o.fence, "error", err)
	}
}

// work starts whatever can be started now.
func (o *owner) work() {
	o.count()
	if r, ok := o.m.scheduleRange(); ok {
		o.scan(r, o.m.schedulesRead)
	}
	if !o.stopping {
		o.reads()
	}
	if o.stopping && o.now() >= o.drained {
		o.interrupt(job.ErrInterrupted)
	}
	if g := o.giving; g != nil && o.flight == nil && o.now() >= g.until {
		o.keep(g, ErrRunsGoOn)
	}
	if o.flight != nil {
		return
	}
	if o.m.seq == job.MaxSeq {
		o.lose(errUsedUp)
		return
	}
	o.takeCensus()
	now := o.moment()
	if r, ok := o.m.deadRange(now); ok {
		o.scan(r, o.m.deadRead)
	}
	in := tickInput{now: now, owner: o.e.o.Name, addr: o.e.o.Addr, nonce: o.e.o.NewID(),
		beat: o.now() >= o.lastSend+o.e.o.TTL/3 || o.m.probe, fires: !o.stopping && !o.full()}
	wanted := 0
	if !o.leaving() {
		wanted = o.m.wanted(now)
	}
	in.free = o.e.reserve(o, wanted)
	kind := OpTick
	if o.last() {
		kind, in.beat, in.owner, in.addr = OpHandover, true, "", o.nextOwner()
	}
	p := o.m.next(in)
	used := 0
	if p != nil {
		used = p.slots
	}
	if in.free > used {
		o.e.o.Executor.Release(in.free - used)
	}
	o.short, o.shortAt = wanted > in.free, o.now()
	o.m.lateWaiting(now)
	o.admission.waits(o.m.waiting.ready.list)
	o.effects()
	if p != nil {
		o.launch(kind, p)
	}
}

// slotPoll is how often an executor without free slots is asked again: other
// shards' runs free them too.
const slotPoll = 50 * time.Millisecond

// nextWake is when work must be called again if nothing is posted.
func (o *owner) nextWake() time.Duration {
	at := time.Duration(o.trustUntil.Load())
	now := o.now()
	if o.flight == nil {
		at = min(at, o.lastSend+o.e.o.TTL/3)
		if left, ok := o.m.waiting.next(o.moment()); ok && !o.leaving() {
			at = min(at, now+time.Duration(max(left, 1))*time.Millisecond)
		}
		if o.short {
			at = min(at, o.shortAt+slotPoll)
		}
		at = min(at, now+o.untilFire())
		if o.giving != nil {
			at = min(at, o.giving.until)
		}
	}
	if !o.stopping && !o.inbox.loading {
		at = min(at, o.inbox.next)
	} else if o.stopping && now < o.drained {
		at = min(at, o.drained)
	}
	return at
}

// untilFire is how long no schedule fires.
func (o *owner) untilFire() time.Duration {
	left := o.m.schedules.wake() - o.moment().wall
	switch {
	case o.stopping || left > millis(time.Hour):
		return time.Hour
	case o.full():
		return slotPoll
	}
	return ms(max(left, 1))
}

// stop begins the hand-over: no new claims, runs end, then one last tick.
func (o *owner) stop() {
	o.stopping = true
	o.drained = o.now() + o.e.o.DrainTimeout
	o.keep(o.giving, ErrStopping)
	o.failQueue(ErrStopping)
}

// lose ends the ownership at once. What rode in an unsettled batch is unknown.
func (o *owner) lose(cause error) {
	err := &LostError{Shard: o.id, Fence: o.fence, Cause: cause}
	o.over = true
	o.cancel(err)
	if f := o.flight; f != nil {
		o.flight = nil
		f.cancel()
		outcome := f.left()
		f.span.End(Result{Outcome: outcome, Err: err, Stamp: f.answer.res.Stamp})
		o.e.o.Executor.Release(f.plan.slots)
		for _, i := range f.plan.intents {
			i.wait.tell(ack{err: i.failed(outcome, err)})
			if i.kind == doFinish {
				for _, c := range o.m.parkedFor(i.job()) {
					c.wait.tell(ack{err: c.failed(outcome, err)})
				}
			}
		}
	}
	o.e.step(Step{Kind: StepLost, Shard: o.id, Fence: o.fence, Err: err})
}

// failQueue takes out what was asked for and rides in nothing.
func (o *owner) failQueue(cause error) {
	o.refuse(cause, func(i *intent) bool { return i.kind == doEnqueue || i.isCommand() })
}

func (o *owner) failWaiting() {
	why := &LostError{Shard: o.id, Fence: o.fence, Cause: ErrNotOwner}
	o.failQueue(why)
	for _, i := range o.m.parked {
		i.wait.tell(ack{err: i.failed(store.Fail, why)})
	}
	o.m.parked = nil
}

// await waits until an intent is settled or ctx ends. What no batch has taken by then is
// certainly not done.
func (o *owner) await(ctx context.Context, i *intent) ack {
	select {
	case a := <-i.wait.done:
		return a
	case <-ctx.Done():
	}
	if i.wait.goes() {
		o.post(func() { o.m.left(i) })
		return ack{err: i.failed(store.Fail, context.Cause(ctx))}
	}
	select {
	case a := <-i.wait.done:
		return a
	default:
		o.post(func() { o.m.unpark(i.wait) })
		return ack{err: i.failed(store.Unknown, context.Cause(ctx))}
	}
}

func (o *owner) enqueue(i *intent) error {
	if err := o.admit(i.e.job.Priority); err != nil {
		return err
	}
	return o.ask(i, func() {
		switch {
		case o.stalled:
			i.wait.tell(ack{err: i.failed(store.Fail, ErrStalled)})
			return
		case o.full():
			i.wait.tell(ack{err: i.failed(store.Fail, ErrBusy)})
			return
		}
		o.m.enqueue(i.e.job, i.e.body, o.moment(), i.wait, nil)
	})
}

// ask hands what a caller waits for to the loop.
func (o *owner) ask(i *intent, take func()) error {
	i.wait.budget = &o.callers
	if i.isCommand() && !o.e.o.oneRoom {
		i.wait.budget = &o.commanders
	}
	if i.wait.budget.Add(1) > int64(o.e.o.MaxWaiting) {
		i.wait.release()
		return ErrBusy
	}
	ok := o.post(func() {
		switch {
		case i.wait.gone():
		case o.stopping:
			i.wait.tell(ack{err: i.failed(store.Fail, ErrStopping)})
		case o.forbidden != nil:
			i.wait.tell(ack{err: i.failed(store.Fail, o.forbidden)})
		default:
			take()
		}
	})
	if !ok {
		i.wait.release()
		return ErrNotOwner
	}
	return nil
}

// full: the shard has as many jobs in memory as it may, or the engine as many bytes.
func (o *owner) full() bool {
	n := len(o.m.jobs) + o.m.queue.len()
	if o.flight != nil {
		n += len(o.flight.plan.intents)
	}
	return n >= o.e.o.MaxPending || o.m.full()
}
