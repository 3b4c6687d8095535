package history

// What a Change does to its job.
const (
	DoEnqueue  = "enqueue"  // puts it into the shard, pending
	DoClaim    = "claim"    // pending to running, as Run, which is its Attempt-th
	DoComplete = "complete" // running to completed
	DoRetry    = "retry"    // running to pending, as its run failed
	DoRescue   = "rescue"   // running to pending, as its run's owner lost the shard
	DoDLQ      = "dlq"      // to the dead letter queue
	DoCancel   = "cancel"   // to cancelled
	DoAbandon  = "abandon"  // running to abandoned
	DoRedrive  = "redrive"  // dlq to pending; attempts are counted from 0 again
	DoHasten   = "hasten"   // pending to pending: due at once, its own time is over
	DoSweep    = "sweep"    // forgets a job that ended
)

// What a Change does to its schedule.
const (
	DoPut     = "put"     // creates it
	DoFire    = "fire"    // decides nominal times up to LastMS; the same batch enqueues their jobs
	DoDisable = "disable" // it fires no more
)

// What a Change does to its shard.
const (
	DoPause  = "pause"  // no run is claimed from now on, by this batch or a later one
	DoResume = "resume" // runs are claimed again
)

// Change is one job's or one schedule's change in a shard's batch, or in an update, or
// one of the shard itself.
type Change struct {
	// Job is "" if a schedule is changed, or the shard itself.
	Job string `json:"job,omitempty"`
	Do  string `json:"do"`
	// Run is the run that is claimed or has ended, or of a job that ends or is
	// hastened while it is pending its last one, Attempt its number among the job's claims since it
	// was enqueued or redriven; 0 without one.
	Run     int64 `json:"run,omitempty"`
	Attempt int   `json:"attempt,omitempty"`
	// DueMS is when the job is due from now on (enqueue, retry, rescue, redrive, hasten), or
	// when it was (claim): earlier than said before, if another wall clock said that.
	DueMS int64 `json:"due_ms,omitempty"`
	// Schedule is the key of the schedule that is changed, or whose job is enqueued, for
	// its nominal time NominalMS.
	Schedule  string `json:"schedule,omitempty"`
	NominalMS int64  `json:"nominal_ms,omitempty"`
	// After is the job whose end enqueues this one, in its sequence; the same batch ends it.
	After string `json:"after,omitempty"`
	// LastMS is up to where the nominal times of the schedule are decided from now on, and
	// Missed how many of them the batch passes over.
	LastMS int64 `json:"last_ms,omitempty"`
	Missed int64 `json:"missed,omitempty"`
}

// Schedule is what is asked for of a recurring schedule: to fire at a fixed rate from
// when it is put, whatever became of the occurrences before.
type Schedule struct {
	Queue string `json:"queue"`
	Shard string `json:"shard"` // its shard's key
	Do    string `json:"do"`    // put, disable
	// EveryMS is the distance of nominal times, the first of which is the instant of the
	// put. One that is late by more than WindowMS is missed, any other fires.
	EveryMS  int64 `json:"every_ms,omitempty"`
	WindowMS int64 `json:"window_ms,omitempty"`
	// Job is the job of each nominal time; its Resource is the beginning of theirs, which
	// ends with the job's id.
	Job *Job `json:"job,omitempty"`
}

// Job is what is enqueued, as far as it is checked.
type Job struct {
	Queue string `json:"queue"`
	// Shard is the key of what issues the tokens of its runs: its shard, or its lock
	// where each job has one.
	Shard string `json:"shard"`
	Kind  string `json:"kind"`
	// Resource is the sink resource of the job's effects, Steps the keys of those that
	// it has had exactly once when it is completed, and May of others that it may have had.
	Resource    string   `json:"resource,omitempty"`
	Steps       []string `json:"steps,omitempty"`
	May         []string `json:"may,omitempty"`
	Order       *Order   `json:"order,omitempty"`  // that it is a part of
	DueMS       int64    `json:"due_ms,omitempty"` // 0: at once
	MaxAttempts int      `json:"max_attempts"`
	AtMostOnce  bool     `json:"at_most_once,omitempty"`
	// Then are the jobs that follow it, one after the other, each when the one before has
	// ended; their Resource is the beginning of theirs, which ends with the job's id. The
	// next one follows a completed job, and with GoOn also one that has failed.
	Then []Job `json:"then,omitempty"`
	GoOn bool  `json:"go_on,omitempty"`
}

// Kinds of rows of a shard.
const (
	RowPending = "pending"
	RowRunning = "running"
	RowJob     = "job"   // a job's state, found by its id
	RowEnded   = "ended" // index by which job rows are swept
	RowDLQ     = "dlq"
	RowInbox   = "inbox"
)

// JobRow is a row of a shard, or of a job with a lock of its own (kinds pending and
// job), when all processes have ended.
type JobRow struct {
	Kind    string `json:"kind"`
	State   string `json:"state,omitempty"` // kind job: pending, running, completed, dlq, cancelled, abandoned
	Attempt int    `json:"attempt,omitempty"`
	Run     int64  `json:"run,omitempty"`
	DueMS   int64  `json:"due_ms,omitempty"`
	EndedMS int64  `json:"ended_ms,omitempty"`
}
