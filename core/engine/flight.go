package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
)

// flight is the one batch that is on its way.
type flight struct {
	plan   *plan
	kind   OpKind
	span   Span
	answer answer
	first  time.Duration
	copies int
	// refusals counts copies in a row that were refused with certainty.
	refusals  int
	permanent store.Refusals
	pending   bool // a copy is waiting for its answer
	cancel    func()
}

// left is the outcome of a batch that is given up now.
func (f *flight) left() store.Outcome {
	if f.pending || f.answer.unsure > 0 || f.answer.err != nil && store.OutcomeOf(f.answer.err) != store.Fail {
		return store.Unknown
	}
	return store.Fail
}

// refusalsToSplit is how many copies in a row a store must refuse before its word
// is about the batch.
const refusalsToSplit = 3

func (o *owner) launch(kind OpKind, p *plan) {
	b := &p.batch
	f := &flight{plan: p, kind: kind, cancel: func() {}}
	f.answer.from, f.answer.to = b.From, b.To.Stamp
	for _, op := range b.Ops {
		f.answer.rows = f.answer.rows || op.Kind == store.PutNew
	}
	op := Op{Kind: kind, Shard: o.id, From: b.From, To: b.To.Stamp, Rows: len(b.Ops), Wall: p.wall}
	if o.e.o.Observer != nil {
		op.Changes = p.changes()
	}
	f.span = o.e.begin(op)
	// Trust counts from before the first copy can be on its way.
	f.first = o.now()
	o.flight, o.lastSend = f, f.first
	o.census.sends(*b)
	o.admission.sends(f.first, p.enqueues(), p.crowded)
	o.ready.Store(false)
	o.send(f)
}

func (o *owner) send(f *flight) {
	b := &f.plan.batch
	o.e.step(Step{Kind: StepSend, Shard: o.id, Fence: b.To.Fence, Tick: b.To.Tick})
	if o.now() >= time.Duration(o.trustUntil.Load()) {
		return // the loop gives the shard up
	}
	n := f.copies
	f.copies++
	f.pending = true
	f.span.Sending(n)
	ctx, cancel := o.e.timeout(o.ctx, o.e.o.RequestTimeout)
	f.cancel = cancel
	o.e.wg.Go(func() {
		res, err := o.e.store.Commit(ctx, o.id, *b, n)
		cancel()
		o.post(func() {
			if o.flight == f {
				f.pending = false
				o.answered(f, res, err)
			}
		})
	})
}

func (o *owner) answered(f *flight, res store.CommitResult, err error) {
	b := &f.plan.batch
	f.answer.res, f.answer.err = res, err
	v := settle(f.answer)
	o.e.step(Step{Kind: StepAnswer, Shard: o.id, Fence: b.To.Fence, Tick: b.To.Tick, Err: err, Applied: v == applied})
	o.stalled = false
	switch v {
	case applied:
		o.admission.settles(o.now(), true)
		o.applied(f)
	case rejected:
		if !o.m.rejected(f.plan, res.Exists) {
			o.lose(ErrTaken)
			return
		}
		o.flight = nil
		o.admission.settles(o.now(), false)
		f.span.End(Result{Outcome: rejection(f.answer), Stamp: res.Stamp})
		o.effects()
	case refused:
		f.refusals++
		final := f.permanent.Final(err)
		if f.refusals < refusalsToSplit {
			o.resendLater(f)
			return
		}
		o.flight = nil
		o.admission.settles(o.now(), false)
		f.span.End(Result{Outcome: store.Fail, Err: err})
		o.m.refused(f.plan, err)
		if final && len(f.plan.intents) == 0 {
			o.forbid(err)
		}
		o.effects()
	case again:
		if err != nil && store.OutcomeOf(err) != store.Fail {
			f.answer.unsure++
		}
		o.resendLater(f)
	default:
		o.lose(ErrTaken)
	}
}

// resendLater sends the identical batch again after a short pause.
func (o *owner) resendLater(f *flight) {
	if o.now()-f.first >= o.e.o.RequestTimeout {
		o.stall()
	}
	pause := o.s.jittered(o.e.o.TTL / 100)
	o.e.o.Clock.AfterFunc(pause, func() {
		o.post(func() {
			if o.flight == f && !f.pending {
				o.send(f)
			}
		})
	})
}

func (o *owner) applied(f *flight) {
	now := o.now()
	lapsed := now >= time.Duration(o.trustUntil.Load())
	if !lapsed {
		// A lapsed ownership is never revived, not even by a late answer.
		trust := o.e.o.anchor(f.first, now) + o.e.o.TTL - o.e.o.margin()
		o.trustUntil.Store(max(o.trustUntil.Load(), int64(trust)))
	}
	o.flight, o.forbidden = nil, nil
	o.e.taken()
	f.span.End(Result{Outcome: store.OK})
	o.e.step(Step{Kind: StepSettled, Shard: o.id, Fence: o.fence, Tick: f.plan.batch.To.Tick})
	o.m.settled(f.plan)
	o.effects()
	if f.kind == OpHandover {
		o.handed(f.plan.batch.To.Addr)
		o.over = true
		o.cancel(&LostError{Shard: o.id, Fence: o.fence, Cause: ErrStopping})
		o.e.step(Step{Kind: StepHanded, Shard: o.id, Fence: o.fence})
	}
}

// effects carries out the machine's consequences.
func (o *owner) effects() {
	for _, x := range o.m.take() {
		switch x.kind {
		case effDone:
			o.e.step(Step{Kind: stepOf(x.i), Shard: o.id, Fence: o.fence, Tick: o.m.head.Tick,
				Job: x.run.Job.ID, Run: x.run.ID, Attempt: x.run.Attempt, Schedule: x.i.scheduleKey(), Err: x.err})
		case effAck:
			if x.duplicate {
				o.e.step(Step{Kind: StepDuplicate, Shard: o.id, Fence: o.fence, Tick: o.m.head.Tick, Job: x.i.job()})
			}
			a := ack{duplicate: x.duplicate}
			if x.err != nil {
				if !x.i.isCommand() {
					o.e.step(Step{Kind: StepRefused, Shard: o.id, Fence: o.fence, Job: x.i.job(), Err: x.err})
				}
				a.err = x.i.failed(store.Fail, x.err)
			}
			x.i.wait.tell(a)
		case effSlot:
			o.e.o.Executor.Release(1)
		case effCopied:
			o.e.step(Step{Kind: StepCopied, Shard: o.id, Fence: o.fence, Job: x.i.job()})
			o.deleteCopied(*x.i.inbox)
		case effStart:
			o.lateStart(x.i, x.run)
			o.start(x.run)
		case effCancel:
			if end := o.runs[x.run.ID]; end != nil {
				end(job.ErrCancelled)
			}
		case effLookup:
			o.lookup(x.i.job(), x.lookup)
		case effCopy:
			if err := o.copyRow(*x.inbox); err == nil {
				o.wake()
			} else {
				o.m.queue.commands.keep(func(i *intent) bool { return i != x.i })
				x.i.wait.tell(ack{err: x.i.failed(store.Fail, err)})
			}
		case effLate:
			x.late.Shard = o.id
			o.e.o.Late(x.late)
		case effLateJob:
			x.lateJob.Shard = o.id
			o.e.o.LateJob(x.lateJob)
		}
	}
}

// Issuer is the name under which a shard's run ids are fencing tokens.
func Issuer(id store.ShardID) string { return "shard/" + id.String() }

func (o *owner) start(run job.Run) {
	step := Step{Shard: o.id, Fence: o.fence, Job: run.Job.ID, Run: run.ID, Attempt: run.Attempt, Due: run.Due, Held: held(o.m.head.Pause, run.Due)}
	x := Execution{Run: run, Issuer: Issuer(o.id), Valid: o.valid, Begin: func() error {
		s := step
		s.Kind = StepBegin
		o.e.step(s)
		s.Until = time.Duration(o.trustUntil.Load())
		s.Decided = o.now()
		if s.Decided >= s.Until || o.ctx.Err() != nil {
			return &LostError{Shard: o.id, Fence: o.fence, Cause: ErrExpired}
		}
		s.Kind = StepStart
		o.e.step(s)
		return nil
	}}
	jitter := o.s.rnd.Float64()
	ctx, end := context.WithCancelCause(o.runCtx)
	o.runs[run.ID] = end
	o.e.o.Executor.Start(ctx, x, func(err error) {
		end(nil)
		s := step
		s.Kind, s.Err = StepFinish, err
		o.e.step(s)
		o.post(func() {
			delete(o.runs, run.ID)
			o.m.finished(run.Job.ID, run.ID, err, o.moment(), jitter)
		})
	})
}

// verdict is what the owner of a shard concludes from the answer to a batch.
type verdict int

const (
	// applied: the batch happened, by this copy or an earlier one.
	applied verdict = iota + 1
	// rejected: a row that must not exist exists; nothing happened and no
	// copy that is still on its way can be applied before the tick moves.
	rejected
	// refused: no copy ever happened or will.
	refused
	// again: send the identical batch and nothing else.
	again
	// lost: the shard is another's, or the answer cannot be told apart.
	lost
)

// answer is what came back for the last copy of a batch.
type answer struct {
	from, to store.Stamp
	res      store.CommitResult
	err      error
	// unsure counts the earlier copies that ended without certainty.
	unsure int
	// rows: the batch has PutNew operations.
	rows bool
}

// failed reads an error: "did not happen" is a property of the batch only if it is
// one of every copy.
func (a answer) failed() verdict {
	if store.OutcomeOf(a.err) == store.Fail && a.unsure == 0 {
		return refused
	}
	return again
}

// settle reads an answer, the fence first: a takeover moves the tick too.
func settle(a answer) verdict {
	if a.err != nil {
		return a.failed()
	}
	if a.res.Applied {
		return applied
	}
	switch s := a.res.Stamp; {
	case s == nil || s.Fence != a.from.Fence:
		return lost
	case *s == a.to:
		return applied
	case *s == a.from && a.rows && len(a.res.Exists) > 0:
		return rejected
	}
	return lost
}

// settleTakeover reads the answer to a takeover. The shard is mine only if the
// header carries the nonce of this very try: a contender who was faster has set
// the same fence and tick.
func settleTakeover(a answer) verdict {
	if a.err != nil {
		return a.failed()
	}
	if a.res.Applied || a.res.Stamp != nil && *a.res.Stamp == a.to {
		return applied
	}
	return lost
}

// refusedPause is how long a process leaves a shard alone of which the store refuses every
// request for good: somebody has to change that, and is told once.
const refusedPause = time.Minute

// refused tells once of what the store refuses for good, until it takes something again.
func (e *Engine) refused(id store.ShardID, err error) {
	if e.forbidden.CompareAndSwap(false, true) {
		e.o.Logger.Error("the store permanently refuses this process: no job runs here until this is fixed", "shard", id.String(), "error", err)
	}
}

// taken: the store took a batch.
func (e *Engine) taken() {
	if e.forbidden.Load() {
		e.forbidden.Store(false)
	}
}

// forbid ends the requests that wait, and those that come, with what the store says: it
// refuses even an empty batch for good. The ownership lasts as long as it is trusted, as
// others may not take the shard before that, and batches are tried until then.
func (o *owner) forbid(err error) {
	o.e.refused(o.id, err)
	o.forbidden = err
	o.refuseCallers("", err)
}

// refuseCallers refuses those who wait for what rides in nothing: of one job, or of all if
// that is "". What nobody waits for stays.
func (o *owner) refuseCallers(of job.ID, cause error) {
	o.refuse(cause, func(i *intent) bool { return i.wait != nil && (of == "" || i.job() == of) })
}

// refuse takes out what is meant of all that rides in nothing, and tells its callers why.
func (o *owner) refuse(cause error, meant func(*intent) bool) {
	stays := o.staying(cause, meant)
	for _, l := range o.m.queue.all() {
		l.keep(stays)
	}
	o.m.singles = slices.DeleteFunc(o.m.singles, func(i *intent) bool { return !stays(i) })
}

// staying refuses what is meant as it comes by, and reports of the rest that it stays.
func (o *owner) staying(cause error, meant func(*intent) bool) func(*intent) bool {
	return func(i *intent) bool {
		if !meant(i) {
			return true
		}
		o.m.over(i)
		i.wait.tell(ack{err: i.failed(store.Fail, cause)})
		return false
	}
}

// expired is why an ownership ends that is not trusted any more.
func (o *owner) expired() error {
	if o.forbidden != nil {
		return fmt.Errorf("%w: %w", ErrExpired, o.forbidden)
	}
	return ErrExpired
}

// stall refuses the enqueues that wait, and those that come, while a batch is not settled.
func (o *owner) stall() {
	o.stalled = true
	rest := &o.m.queue.rest
	rest.gone = 0
	rest.keep(o.staying(ErrStalled, func(i *intent) bool { return i.kind == doEnqueue && i.wait != nil }))
}
