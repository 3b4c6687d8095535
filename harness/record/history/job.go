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
	DoEnable  = "enable"  // it fires again, what comes from now on
	DoRemove  = "remove"  // forgets it
	DoOver    = "over"    // the occurrence for whose end it waits has ended
	DoTrigger = "trigger" // fires one by hand, or has it wait; the same batch enqueues its job
)

// What a Change does to its shard.
const (
	DoPause  = "pause"  // no run is claimed from now on, by this batch or a later one
	DoResume = "resume" // runs are claimed again
)

// What only a Command asks for.
const (
	// DoRun has a job run as soon as it can, whatever it waits for: it is hastened, or redriven, or
	// runs anyway.
	DoRun = "run"
	// DoRedriveDead redrives the first jobs of a queue's dead letter queue.
	DoRedriveDead = "redrive-dead"
)

// Change is one job's or one schedule's change in a shard's batch, or in an update, or
// one of the shard itself.
type Change struct {
	// the job that is changed
	Job string `json:"job,omitempty" is:"name"`
	// of a job: enqueue (to pending), claim (to running, as run, its attempt-th), complete,
	// retry (to pending: its run failed), rescue (to pending: its run's owner lost the shard),
	// dlq, cancel, abandon, redrive (dlq to pending, attempts at 0), hasten (due at once),
	// sweep (forgotten); of a schedule: put, fire, disable, enable, remove, over (the occurrence
	// that it waits for has ended), trigger (one is fired by hand, or waits); of the shard: pause, resume
	Do string `json:"do" of:"enqueue claim complete retry rescue dlq cancel abandon redrive hasten sweep put fire disable enable remove over trigger pause resume"`
	// the run that is claimed or has ended; of a job that ends or is hastened while it is
	// pending its last
	Run int64 `json:"run,omitempty" is:"count"`
	// the run's number among the job's claims since it was enqueued or redriven
	Attempt int `json:"attempt,omitempty" is:"span"`
	// when the job is due from now on, of a claim when it was: earlier than said before, if
	// another wall clock said that; ms since 1970
	DueMS int64 `json:"due_ms,omitempty" is:"date"`
	// the schedule that is changed, or whose nominal time the job is of
	Schedule string `json:"schedule,omitempty" is:"name"`
	// that nominal time; of a manual trigger when it was taken
	NominalMS int64 `json:"nominal_ms,omitempty" is:"date"`
	// the job that this one follows in a sequence: the same batch ends it
	After string `json:"after,omitempty" is:"name"`
	// up to where the schedule's nominal times are decided
	LastMS int64 `json:"last_ms,omitempty" is:"date"`
	// how many of them, the first ones, are passed over
	Missed int64 `json:"missed,omitempty" is:"date"`
	// how many of them are passed over as an occurrence before has not ended
	Skipped int64 `json:"skipped,omitempty" is:"date"`
	// how many occurrences wait for the end of another one after the batch
	Waiting int `json:"waiting,omitempty" is:"span"`
	// when the occurrence that is over had ended, by the wall clock of its owner
	EndedMS int64 `json:"ended_ms,omitempty" is:"date"`
	// which form of the schedule is put: a digest of its definition
	Form string `json:"form,omitempty" is:"name"`
	// the manual trigger that the occurrence is of; absent: the schedule fired by itself
	Trigger string `json:"trigger,omitempty" is:"name"`
}

// Schedule is what is asked for of a recurring schedule. What is not there nobody says: a
// schedule without a kind fires at a fixed rate from when it is put, whatever became of the
// occurrences before, and all that are late by less than its window.
type Schedule struct {
	// its queue
	Queue string `json:"queue" is:"name"`
	// the key of its shard
	Shard string `json:"shard" is:"name"`
	// what is asked for
	Do string `json:"do" of:"put disable enable remove trigger"`
	// how it finds its nominal times: once, when it is put or at an instant; by a cron expression, at
	// a distance from each other, or at one from the end of the occurrence before
	Kind string `json:"kind,omitempty" of:"now at cron fixed_rate fixed_delay"`
	// the instant of kind at, the first time of a rate or delay (without one: the instant of the put),
	// or from when on a cron expression fires
	AtMS int64 `json:"at_ms,omitempty" is:"date"`
	// before when it fires for the last time
	UntilMS int64 `json:"until_ms,omitempty" is:"date"`
	// the cron expression
	Cron string `json:"cron,omitempty" is:"name"`
	// the IANA name of its time zone
	Zone string `json:"zone,omitempty" is:"name"`
	// what becomes of a nominal time that comes before the occurrence before it has ended
	Overlap string `json:"overlap,omitempty" of:"allow skip queue"`
	// what becomes of nominal times that are late by more than the grace
	Misfire string `json:"misfire,omitempty" of:"skip once all"`
	// how late is still in time
	GraceMS int64 `json:"grace_ms,omitempty" is:"span"`
	// a digest of the definition
	Form string `json:"form,omitempty" is:"name"`
	// the distance of nominal times
	EveryMS int64 `json:"every_ms,omitempty" is:"span"`
	// by how much one may be late and still fires, if its misfire policy is all
	WindowMS int64 `json:"window_ms,omitempty" is:"span"`
	// what each nominal time's job is
	Job *Job `json:"job,omitempty"`
	// the name of a manual trigger, unique for the schedule
	Trigger string `json:"trigger,omitempty" is:"name"`
}

// Command is what is asked for of a job, a shard or a queue.
type Command struct {
	// its queue
	Queue string `json:"queue" is:"name"`
	// the key of its shard, or of the shard that is meant
	Shard string `json:"shard,omitempty" is:"name"`
	// what is asked for: of a job cancel, redrive, hasten or run (hastened, or redriven, or it runs
	// anyway), of a shard pause or resume, of a queue redrive-dead (redrive its first dead jobs)
	Do string `json:"do" of:"cancel redrive hasten run pause resume redrive-dead"`
	// the whole queue is meant by one command, of which there is an operation for each shard
	Whole bool `json:"whole,omitempty"`
}

// Answered is the answer for one job of a command on many.
type Answered struct {
	// the job
	Job string `json:"job" is:"name"`
	// the key of its shard
	Shard string `json:"shard" is:"name"`
	// ok: it was done; fail: it was not; unknown: nobody knows
	Outcome string `json:"outcome" of:"ok fail unknown"`
}

// ToldUnknown says in Told that there is no such job.
const ToldUnknown = "unknown"

// Arrivals counts the jobs that a worker's life was to enqueue, from its begin on.
type Arrivals struct {
	// how many came
	Came int64 `json:"came" is:"count zero"`
	// how many of them were left out, as too many enqueues were under way
	Dropped int64 `json:"dropped" is:"count zero"`
}

// Job is what is enqueued, as far as it is checked.
type Job struct {
	// its queue
	Queue string `json:"queue" is:"name"`
	// the issuer of its runs' tokens: its shard, or its lock
	Shard string `json:"shard" is:"name"`
	// its kind
	Kind string `json:"kind" is:"name"`
	// what its id is made from, with its queue; absent: none, or not said
	Key string `json:"key,omitempty"`
	// the sink resource of its effects; of a job that follows another, or is a schedule's, the
	// beginning of it, which ends with the job's id
	Resource string `json:"resource,omitempty" is:"name"`
	// the keys of the effects that it has had exactly once when it is completed
	Steps []string `json:"steps,omitempty" is:"names"`
	// keys of effects that it may have had instead
	May []string `json:"may,omitempty" is:"names"`
	// the order that it is a part of
	Order *Order `json:"order,omitempty"`
	// when it is due, ms since 1970; absent: at once
	DueMS int64 `json:"due_ms,omitempty" is:"date"`
	// of the jobs of its shard that are due, those with a higher one are claimed first; absent: 0
	Priority int `json:"priority,omitempty" is:"amount"`
	// how often it is tried
	MaxAttempts int `json:"max_attempts" is:"span"`
	// a run that is cut short is not followed by another
	AtMostOnce bool `json:"at_most_once,omitempty"`
	// how long it waits after a failed run; absent: nobody says
	Retry *Retry `json:"retry,omitempty"`
	// how long one run of it may take; absent: nobody says
	MaxDurationMS int64 `json:"max_duration_ms,omitempty" is:"span"`
	// its first run takes longer than it may, and cannot finish well
	Overruns bool `json:"overruns,omitempty"`
	// the jobs that follow it, one after the other, each when the one before has ended
	Then []Job `json:"then,omitempty"`
	// its failure does not end its sequence
	GoOn bool `json:"go_on,omitempty"`
}

// Retry is how long a job waits after a failed run.
type Retry struct {
	// the waits after attempts 1, 2, …, of which the last one repeats
	DelaysMS []int64 `json:"delays_ms,omitempty" is:"spans"`
	// without such a list: the wait after the first attempt
	BaseMS int64 `json:"base_ms,omitempty" is:"span"`
	// by how much it grows with each further one
	Factor float64 `json:"factor,omitempty" below:"101"`
	// up to this
	MaxMS int64 `json:"max_ms,omitempty" is:"span"`
	// the part of a wait by which it varies either way
	Jitter float64 `json:"jitter,omitempty" below:"1.001"`
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
	// which row: job (the job's state, found by its id), pending, running, ended (by which job
	// rows are swept), dlq, inbox
	Kind string `json:"kind" of:"job pending running ended dlq inbox"`
	// the job's
	State string `json:"state,omitempty" of:"pending running completed dlq cancelled abandoned"`
	// the number of its last run among its claims
	Attempt int `json:"attempt,omitempty" is:"span"`
	// its last run
	Run int64 `json:"run,omitempty" is:"count"`
	// when it is due
	DueMS int64 `json:"due_ms,omitempty" is:"date"`
	// when it ended
	EndedMS int64 `json:"ended_ms,omitempty" is:"date"`
}

// Order is what a customer asks for; each of its jobs has it.
type Order struct {
	// the order
	ID string `json:"id" is:"name"`
	// what is bought
	Item string `json:"item" is:"name"`
	// how much of it
	Quantity int64 `json:"quantity" is:"span"`
	// the price of all of it
	Cents int64 `json:"cents" is:"span"`
}

// Kinds of an order's jobs, in the order in which they follow each other.
const (
	OrderReserve = "reserve" // takes the items from the stock, or rejects the order
	OrderPay     = "pay"     // takes the money, or cancels the order
	OrderFulfil  = "fulfil"
)

// The shop's tables, and BookEnd, which is no row but says that all have been noted.
const (
	BookStock    = "stock"    // Item, Quantity, Version: what is left
	BookMove     = "move"     // Item, Version, Delta, Quantity (left after it), Order: "" for a delivery
	BookOrder    = "order"    // Order, Item, Quantity, Cents, State
	BookPayment  = "payment"  // Order, Cents, Token
	BookShipment = "shipment" // Order
	BookEnd      = "end"
)

// States of an order.
const (
	OrderReserved  = "reserved"
	OrderPaid      = "paid"
	OrderShipped   = "shipped"   // an end
	OrderRejected  = "rejected"  // an end: there was not enough in stock
	OrderCancelled = "cancelled" // an end: not paid in time
)

// Book is a row of the shop's tables when all processes have ended.
type Book struct {
	// which table; end is no row: all have been noted
	Table string `json:"table" of:"stock move order payment shipment end"`
	// the order; of a move none for a delivery
	Order string `json:"order,omitempty" is:"name"`
	// what is sold
	Item string `json:"item,omitempty" is:"name"`
	// how much of it: in stock, left after the move, ordered
	Quantity int64 `json:"quantity,omitempty" is:"amount"`
	// of the stock, one more with each move
	Version int64 `json:"version,omitempty" is:"count"`
	// by how much the move changed the stock
	Delta int64 `json:"delta,omitempty" is:"amount"`
	// the price, or what was charged
	Cents int64 `json:"cents,omitempty" is:"amount"`
	// of the run that paid
	Token int64 `json:"token,omitempty" is:"count"`
	// the order's
	State string `json:"state,omitempty" of:"reserved paid shipped rejected cancelled"`
}
