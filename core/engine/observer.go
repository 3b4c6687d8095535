package engine

import (
	"cmp"
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
	// Wall is what the owner's wall clock showed when a tick was planned, in ms since
	// 1970.
	Wall int64
	// Changes are what it does to jobs and schedules, made for an Observer only.
	Changes []Change
}

// Change is what a batch does to one job, or to one schedule. It is comparable.
type Change struct {
	// Kind is StepEnqueue, StepClaim, StepComplete, StepRetry, StepRescue, StepDLQ,
	// StepCancel, StepAbandon, StepRedrive, StepHasten or StepSweep; of a schedule StepPut,
	// StepRemove, StepEnable, StepDisable, StepTrigger, StepFire or StepOver; of the
	// whole shard StepPause or StepResume.
	Kind StepKind
	// Job is "" if a schedule is changed.
	Job job.ID
	// Run is the run that is claimed or has ended, or of a job that ends or is
	// hastened while it is pending its last one, and Attempt its number; 0 if it had none.
	Run     job.RunID
	Attempt int
	// Due is when the job is due from now on, in ms since 1970 (StepEnqueue,
	// StepRetry, StepRescue, StepRedrive, StepHasten), or when it was (StepClaim): earlier than
	// said before, if it was said by a clock that is ahead.
	Due int64
	// After is the job before it in its sequence (StepEnqueue).
	After job.ID
	// Occurrence is the one that the job stands for (StepEnqueue), that is triggered
	// (StepTrigger) or that has ended (StepOver). Of other changes of a schedule it
	// has the schedule's key only.
	Occurrence job.Occurrence
	// Last is up to where the schedule's nominal times are decided from now on, in ms
	// since 1970; Missed and Skipped are how many of them the batch passes over, and
	// Waiting how many occurrences wait for the end of another one after it.
	Last            int64
	Missed, Skipped int64
	Waiting         int
	// Ended is when the occurrence ended (StepOver), in ms since 1970, and Definition what is
	// put, as its row has it (StepPut).
	Ended      int64
	Definition string
}

// changes tells what a plan's batch does.
func (p *plan) changes() []Change {
	out := make([]Change, 0, len(p.intents))
	for _, i := range p.intents {
		switch i.kind {
		case doFire, doSchedule, doPlace:
		case doSweep:
			for _, id := range i.swept {
				out = append(out, Change{Kind: StepSweep, Job: id})
			}
		default:
			out = append(out, i.change())
		}
		for _, c := range i.enqueues {
			out = append(out, c.change())
		}
		if i.r != nil {
			out = append(out, i.scheduleChange())
		}
	}
	return out
}

// change is what an intent does to its job.
func (i *intent) change() Change {
	c := Change{Kind: stepOf(i), Job: i.job()}
	switch {
	case i.kind == doPause:
	case i.kind == doRedrive:
		c.Due = i.then.due
	case i.kind == doEnqueue:
		if c.Kind == StepEnqueue {
			c.Due, c.After, c.Occurrence = i.e.due, i.e.job.After, i.e.job.Occurrence
		}
	case c.Kind == StepClaim:
		c.Run, c.Attempt, c.Due = i.run, i.attempt, i.e.due
	default:
		c.Run, c.Attempt = i.e.run, i.e.attempt
		if c.Kind == StepRetry || c.Kind == StepRescue || c.Kind == StepHasten {
			c.Due = i.then.due
		}
	}
	return c
}

// scheduleChange is what an intent does to its schedule.
func (i *intent) scheduleChange() Change {
	c := Change{Kind: StepOver, Occurrence: job.Occurrence{Schedule: i.r.name()}}
	switch {
	case i.kind == doSchedule && i.command.Verb == RemoveSchedule:
		c.Kind = StepRemove
		return c
	case i.kind == doSchedule:
		c.Kind = scheduleSteps[i.command.Verb]
		if c.Kind == StepTrigger {
			c.Occurrence = job.Occurrence{Schedule: i.r.name(), Nominal: i.wall, Trigger: i.command.Trigger}
		}
		if c.Kind == StepPut {
			c.Definition = string(i.r.body)
		}
	case i.kind == doFire:
		c.Kind = StepFire
	default:
		c.Occurrence, c.Ended = i.r.state.Active, i.step.State.Ended
	}
	c.Last, c.Missed, c.Skipped, c.Waiting = i.step.State.Last, i.step.Missed, i.step.Skipped, len(i.step.State.Queue)
	return c
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
	StepHasten    StepKind = "hasten" // a pending job is due at once
	StepPause     StepKind = "pause"  // no run of the shard is claimed any more
	StepResume    StepKind = "resume"
	StepSweep     StepKind = "sweep"
	StepCopied    StepKind = "copied"  // an inbox row is about to be deleted
	StepRefused   StepKind = "refused" // the store refuses a job's row

	StepPut     StepKind = "put-schedule"
	StepRemove  StepKind = "remove-schedule"
	StepEnable  StepKind = "enable"
	StepDisable StepKind = "disable"
	StepTrigger StepKind = "trigger"
	StepFire    StepKind = "fire" // nominal times are decided
	StepOver    StepKind = "over" // an occurrence has ended, for which its schedule waits
)

var scheduleSteps = map[Verb]StepKind{PutSchedule: StepPut, RemoveSchedule: StepRemove, EnableSchedule: StepEnable,
	DisableSchedule: StepDisable, TriggerSchedule: StepTrigger}

// Step is a point that was reached.
type Step struct {
	Kind    StepKind
	Shard   store.ShardID
	Fence   int64
	Tick    int64
	Job     job.ID
	Run     job.RunID
	Attempt int
	// Schedule is the key of the schedule that was changed.
	Schedule string
	// Due is when the run was due, in ms since 1970 (StepBegin, StepStart, StepFinish).
	Due int64
	// Held is for how much of the time since then the shard was paused, in ms: for that
	// the run is not late.
	Held int64
	// Paused: the shard is, as it is taken (StepOwn).
	Paused bool
	// Applied: the answer says that the batch has happened, and nothing follows from it yet
	// (StepAnswer).
	Applied bool
	Err     error
	// Decided is when StepStart's look at the clock was, Until the trust
	// deadline that it was compared with; both by the engine's clock.
	Decided, Until time.Duration
}

// Observer watches an engine. Its methods are called from many goroutines and
// block the work: a Step that does not return holds its shard (or
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

// stepsOf names what settled intents did that have but one name, and what became of a run.
var (
	stepsOf = [...]StepKind{doEnqueue: StepEnqueue, doClaim: StepClaim, doSweep: StepSweep, doCancel: StepCancel,
		doRedrive: StepRedrive, doHasten: StepHasten, doFire: StepFire}
	stepsTo = map[job.State]StepKind{job.Completed: StepComplete, job.DLQ: StepDLQ, job.Cancelled: StepCancel, job.Abandoned: StepAbandon}
)

// stepOf names what a settled intent did.
func stepOf(i *intent) StepKind {
	switch {
	case i.kind == doSchedule:
		return scheduleSteps[i.command.Verb]
	case i.kind == doPause && i.pause:
		return StepPause
	case i.kind == doPause:
		return StepResume
	case i.kind != doFinish && i.condemned != "":
		return StepDLQ
	case i.kind != doFinish:
		return stepsOf[i.kind]
	case i.rescue && i.to == job.Pending:
		return StepRescue
	}
	return cmp.Or(stepsTo[i.to], StepRetry)
}
