package lockperjob

import (
	"fencepost/core/job"
	"fencepost/core/lock"
)

// Observer watches a Scheduler. Its methods are called from many goroutines and stand
// in the way of the work: one that does not return holds its run at that point.
//
// Of lock.Observer, Begin is called for every conditional request on a lock row; LeaseLost
// is never called, since nobody here finds out.
type Observer interface {
	lock.Observer
	// Update is called before a job's row is written, with all writes that belong to
	// the change; the function that it returns when they are over, with nil if all of
	// them were acknowledged.
	Update(Update) (over func(error))
	Step(Step)
}

// Do is what an Update does to its job.
type Do string

// The changes of a job's row.
const (
	DoClaim    Do = "claim" // it runs
	DoComplete Do = "complete"
	DoRetry    Do = "retry" // pending again
	DoDLQ      Do = "dlq"
	DoCancel   Do = "cancel"
)

// Update is one change of a job's row.
type Update struct {
	Do      Do
	Lock    string // the job's lock
	Holder  string
	Job     job.ID
	Run     job.RunID // the token
	Attempt int
	// Due is when the job is due from now on, in ms since 1970 (DoRetry).
	Due int64
}

// StepKind is a point of the scheduler's work.
type StepKind string

// The steps.
const (
	StepEnqueue  StepKind = "enqueue"  // a job's rows are about to be written
	StepEnqueued StepKind = "enqueued" // they are there, nobody knows
	StepClaimed  StepKind = "claimed"  // a job is locked and its row read; its pending row is still there
	StepStart    StepKind = "start"    // its handler is about to be called
	StepFinish   StepKind = "finish"   // the handler has returned, or was never called
)

// Step is a point that was reached. Of the enqueuing ones only Lock and Job are set.
type Step struct {
	Kind    StepKind
	Lock    string
	Holder  string
	Job     job.ID
	Run     job.RunID
	Attempt int
	Due     int64 // when the run was due, in ms since 1970
	Err     error // StepFinish
}

// blind is the Observer of a scheduler that nobody watches.
type blind struct{}

func (blind) Begin(lock.Op) lock.Span                { return blind{} }
func (blind) LeaseLost(string, string, int64, error) {}
func (blind) Sending(int)                            {}
func (blind) End(lock.Result)                        {}
func (blind) Update(Update) func(error)              { return func(error) {} }
func (blind) Step(Step)                              {}
