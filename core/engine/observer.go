package engine

import (
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
)

// OpKind is the kind of a conditional request.
type OpKind string

// The kinds.
const (
	OpTick     OpKind = "tick"
	OpTakeover OpKind = "takeover"
	OpHandover OpKind = "handover"
)

// Op is one conditional batch with all its copies.
type Op struct {
	Kind     OpKind
	Shard    store.ShardID
	From, To store.Stamp
	Rows     int // operations beside the header
	// Changes are what it does to jobs, made for an Observer only.
	Changes []Change
}

// Change is what a batch does to one job.
type Change struct {
	// Kind is StepEnqueue, StepClaim, StepComplete, StepRetry, StepRescue, StepDLQ,
	// StepCancel, StepAbandon, StepRedrive or StepSweep.
	Kind StepKind
	Job  job.ID
	// Run is the run that is claimed or has ended, or of a job that ends while it
	// is pending its last one, and Attempt its number; 0 if it had none.
	Run     job.RunID
	Attempt int
	// Due is when the job is due from now on, in ms since 1970 (StepEnqueue,
	// StepRetry, StepRescue, StepRedrive), or when it was (StepClaim): earlier than
	// said before, if it was said by a clock that is ahead.
	Due int64
}

// changes tells what a plan's batch does.
func (p *plan) changes() []Change {
	out := make([]Change, 0, len(p.intents))
	for _, i := range p.intents {
		c := Change{Kind: stepOf(i), Job: i.job()}
		switch {
		case i.kind == doSweep:
		case i.kind == doRedrive:
			c.Due = i.then.due
		case i.kind == doEnqueue:
			if c.Kind == StepEnqueue {
				c.Due = i.e.due
			}
		case c.Kind == StepClaim:
			c.Run, c.Attempt, c.Due = i.run, i.attempt, i.e.due
		default:
			c.Run, c.Attempt = i.e.run, i.e.attempt
			if c.Kind == StepRetry || c.Kind == StepRescue {
				c.Due = i.then.due
			}
		}
		out = append(out, c)
	}
	return out
}

// Result is the end of an Op.
type Result struct {
	Outcome store.Outcome
	Err     error
	// Stamp is what a rejection showed.
	Stamp *store.Stamp
}

// StepKind is a point of the protocol.
type StepKind string

// The steps. Those of a job come when the tick that carries them is settled,
// except Start and Finish, which are the executor's.
const (
	StepOwn       StepKind = "own"       // a takeover is settled
	StepLost      StepKind = "lost"      // an ownership has ended without a hand-over
	StepHanded    StepKind = "handed"    // a hand-over is settled
	StepSend      StepKind = "send"      // a copy of a batch is about to be sent
	StepAnswer    StepKind = "answer"    // an answer has come
	StepSettled   StepKind = "settled"   // a tick is settled as applied, nothing is told yet
	StepEnqueue   StepKind = "enqueue"   // a job is in the shard
	StepDuplicate StepKind = "duplicate" // it was there before
	StepClaim     StepKind = "claim"
	StepBegin     StepKind = "begin" // a run is about to look at the clock
	StepStart     StepKind = "start" // it has looked, and its handler is called
	StepFinish    StepKind = "finish"
	StepComplete  StepKind = "complete"
	StepRetry     StepKind = "retry"
	StepRescue    StepKind = "rescue"
	StepDLQ       StepKind = "dlq"
	StepCancel    StepKind = "cancel"
	StepAbandon   StepKind = "abandon"
	StepRedrive   StepKind = "redrive"
	StepSweep     StepKind = "sweep"
	StepCopied    StepKind = "copied"  // an inbox row is about to be deleted
	StepRefused   StepKind = "refused" // the store refuses a job's row
)

// Step is a point that was reached.
type Step struct {
	Kind    StepKind
	Shard   store.ShardID
	Fence   int64
	Tick    int64
	Job     job.ID
	Run     job.RunID
	Attempt int
	// Due is when the run was due, in ms since 1970 (StepBegin, StepStart, StepFinish).
	Due int64
	Err error
	// Decided is when StepStart's look at the clock was, Until the trust
	// deadline that it was compared with; both by the engine's clock.
	Decided, Until time.Duration
}

// Observer watches an engine. Its methods are called from many goroutines and
// stand in the way of the work: a Step that does not return holds its shard (or
// its run) at that point, which is how a harness stops a process there.
type Observer interface {
	// Begin is called before the first copy of a batch is sent.
	Begin(Op) Span
	Step(Step)
}

// Span watches one Op.
type Span interface {
	// Sending is called immediately before each copy is handed to the store.
	// The clock for the trust anchor is read before Sending(0).
	Sending(copyNo int)
	// End is called once, when the outcome is settled or given up.
	End(Result)
}

// Watch returns an observer that tells step of every step before o, which may be nil.
func Watch(o Observer, step func(Step)) Observer { return watch{o, step} }

type watch struct {
	o    Observer
	step func(Step)
}

func (w watch) Begin(op Op) Span {
	if w.o == nil {
		return noSpan{}
	}
	return w.o.Begin(op)
}

func (w watch) Step(s Step) {
	w.step(s)
	if w.o != nil {
		w.o.Step(s)
	}
}

type noSpan struct{}

func (noSpan) Sending(int) {}
func (noSpan) End(Result)  {}

// stepOf names what a settled intent did.
func stepOf(i *intent) StepKind {
	switch {
	case i.kind == doSweep:
		return StepSweep
	case i.condemned != "" && i.kind != doFinish:
		return StepDLQ
	case i.kind == doEnqueue:
		return StepEnqueue
	case i.kind == doClaim:
		return StepClaim
	case i.kind == doCancel:
		return StepCancel
	case i.kind == doRedrive:
		return StepRedrive
	}
	switch i.to {
	case job.Completed:
		return StepComplete
	case job.DLQ:
		return StepDLQ
	case job.Cancelled:
		return StepCancel
	case job.Abandoned:
		return StepAbandon
	}
	if i.rescue {
		return StepRescue
	}
	return StepRetry
}
