package engine

import (
	"errors"
	"fmt"

	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
)

// Causes of a LostError and of enqueues that were not done.
var (
	// ErrExpired: the trust deadline passed without an applied tick.
	ErrExpired = errors.New("no tick was settled in time")
	// ErrTaken: the shard's header shows another owner, or an answer that
	// cannot be told apart.
	ErrTaken = errors.New("the shard was taken over")
	// errUsedUp: 2^32 runs were claimed in one ownership; the next one has a
	// fence of its own for more.
	errUsedUp = errors.New("the run ids of this ownership are used up")
	// ErrStopping: this process gives its shards away.
	ErrStopping = errors.New("the engine stops")
	// ErrNotOwner: this process does not own the job's shard.
	ErrNotOwner = errors.New("not the shard's owner")
	// ErrBusy: too many enqueues, or too many commands, wait already, or jobs for too long; try
	// again later (RetryAfter).
	ErrBusy = errors.New("too much waits already: try again later")
	// ErrStalled: the store does not answer the shard's owner in time, or that owner does not
	// answer this process; try again later (RetryAfter).
	ErrStalled = errors.New("the shard's owner waits for an answer: try again later")
	// ErrUnreachable: nobody answers at the address of the shard's owner.
	ErrUnreachable = errors.New("the shard's owner cannot be reached")
)

// LostError is the cause of the end of a shard's ownership, and of the contexts of
// the runs under it.
type LostError struct {
	Shard store.ShardID
	Fence int64
	Cause error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("engine: shard %s with fence %d is lost: %v", e.Shard, e.Fence, e.Cause)
}

// Unwrap returns the cause.
func (e *LostError) Unwrap() error { return e.Cause }

// EnqueueError says that a job was not acknowledged. store.OutcomeOf tells
// whether it certainly does not exist. The same job, with the same id, may be
// enqueued again whatever the outcome.
type EnqueueError struct {
	Job     job.ID
	Outcome store.Outcome // Fail or Unknown
	Cause   error
}

func (e *EnqueueError) Error() string {
	what := "may or may not have been enqueued: enqueue it again with the same id"
	if e.Outcome == store.Fail {
		what = "was not enqueued"
	}
	return fmt.Sprintf("engine: job %s %s: %v", e.Job, what, e.Cause)
}

// Unwrap returns the cause, wrapped so that store.OutcomeOf sees the outcome, and
// store.IsPermanent whether to ask again is in vain.
func (e *EnqueueError) Unwrap() error {
	return &store.Error{Op: "enqueue", Outcome: e.Outcome, Permanent: store.IsPermanent(e.Cause), Cause: e.Cause}
}

// ErrUnknownJob: the job is neither in its shard nor in the inbox. It was never
// enqueued, or its id is forgotten since its end.
var ErrUnknownJob = errors.New("the job is not known")

// StateError is a command that the job's state does not allow.
type StateError struct {
	Job   job.ID
	State job.State
}

func (e *StateError) Error() string { return fmt.Sprintf("job %s is %s", e.Job, e.State) }

// CommandError says that a job was not cancelled, redriven or hastened, or that a command
// on a schedule or a shard was not carried out. store.OutcomeOf tells whether that is certain.
// Its cause is ErrNotOwner, ErrUnknownJob, a *StateError, a *job.InvalidError (of a
// redrive whose job was not kept), one that Engine.Schedule names, or that of an
// enqueue.
type CommandError struct {
	Command  string        // cancel, redrive, hasten; put, remove, enable, disable, trigger; pause, resume; want, glance
	Job      job.ID        // "" of a command on a schedule or a shard
	Schedule string        // its key
	Shard    string        // that a command was about
	Outcome  store.Outcome // Fail or Unknown
	Cause    error
}

func (e *CommandError) Error() string {
	what := "may or may not have been done"
	if e.Outcome == store.Fail {
		what = "was not done"
	}
	whose := "job " + string(e.Job)
	if e.Schedule != "" {
		whose = "schedule " + e.Schedule
	} else if e.Shard != "" {
		whose = "shard " + e.Shard
	}
	return fmt.Sprintf("engine: %s of %s %s: %v", e.Command, whose, what, e.Cause)
}

// Unwrap returns the cause, wrapped so that store.OutcomeOf sees the outcome, and
// store.IsPermanent whether to ask again is in vain.
func (e *CommandError) Unwrap() error {
	return &store.Error{Op: e.Command, Outcome: e.Outcome, Permanent: store.IsPermanent(e.Cause), Cause: e.Cause}
}

// failed is the caller's error for an intent that was not done.
func (i *intent) failed(outcome store.Outcome, cause error) error {
	switch i.kind {
	case doCancel, doRedrive, doHasten:
		return &CommandError{Command: string(commands[i.kind].name), Job: i.job(), Outcome: outcome, Cause: cause}
	case doPause:
		return &CommandError{Command: PauseName(i.pause), Shard: i.shard.String(), Outcome: outcome, Cause: cause}
	case doSchedule:
		var invalid *schedule.InvalidError
		if errors.As(cause, &invalid) {
			return invalid
		}
		return &CommandError{Command: string(i.command.Verb), Schedule: i.command.Key, Outcome: outcome, Cause: cause}
	}
	return &EnqueueError{Job: i.job(), Outcome: outcome, Cause: cause}
}

func isInterrupted(err error) bool { return errors.Is(err, job.ErrInterrupted) }

// mostNote is how many bytes a row's note may have: the engine puts up to 60 before an error's.
const mostNote = store.MostNote + 60
