package lockperjob

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"fencepost/core/clock"
	"fencepost/core/job"
	"fencepost/core/lock"
	"fencepost/core/sink"
	"fencepost/core/store/cassandra"
	"fencepost/core/worker"
)

// Defaults of Options.
const (
	DefaultTTL          = 30 * time.Second
	DefaultBuckets      = 8
	DefaultPoll         = 250 * time.Millisecond
	DefaultPage         = 100
	DefaultSlots        = 100
	DefaultDrainTimeout = 30 * time.Second
)

// Options configure a Scheduler. DB, Name, Queue and Handlers are needed.
type Options struct {
	// DB is a session with the keyspace that holds the tables (CreateTables).
	DB *cassandra.DB
	// Name is this life of the process, unique for ever; its locks are held by
	// Name/r1, Name/r2, ….
	Name  string
	Queue string
	// Buckets is the number of partitions over which pending jobs are spread, the same
	// in all processes, for ever (WORKER_BUCKETS); default 8. Job ids name theirs.
	Buckets int
	// TTL is for how long a lock is taken, in whole milliseconds; default 30 s. It is
	// renewed every third of it.
	TTL time.Duration
	// RequestTimeout bounds the wait for the answer to one request; default TTL/6.
	RequestTimeout time.Duration
	// Poll is the pause between two looks at all buckets if they held little
	// (WORKER_POLL_INTERVAL_MS); default 250 ms.
	Poll time.Duration
	// Page is how many rows one look at a bucket reads; default 100.
	Page int
	// Slots is how many jobs may be in progress at once (WORKER_MAX_IN_PROGRESS);
	// default 100.
	Slots int
	// BlockSize is how many tokens the process takes at once (LOCK_SEQ_BLOCK_SIZE);
	// default cassandra.DefaultBlockSize.
	BlockSize int64
	// DrainTimeout is how long runs may go on when the scheduler stops, before their
	// contexts end with job.ErrInterrupted; default 30 s.
	DrainTimeout time.Duration
	// Clock measures pauses and renewals; default clock.System().
	Clock clock.Clock
	// Wall decides what is due and which locks have expired; default time.Now.
	Wall func() time.Time
	// Rand gives order and jitter; default: randomly seeded. Used while New runs only.
	Rand *rand.Rand
	// Handlers by kind of job.
	Handlers map[string]worker.Handler
	// Sink takes the handlers' effects (see NewSink); nil if none has any.
	Sink sink.Sink
	// Observer, if set, is called for every conditional request and every step.
	Observer Observer
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	o.Buckets = cmp.Or(o.Buckets, DefaultBuckets)
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, o.TTL/6)
	o.Poll = cmp.Or(o.Poll, DefaultPoll)
	o.Page = cmp.Or(o.Page, DefaultPage)
	o.Slots = cmp.Or(o.Slots, DefaultSlots)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, DefaultDrainTimeout)
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if o.Observer == nil {
		o.Observer = blind{}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	bad := func(format string, args ...any) (Options, error) {
		return o, fmt.Errorf("lockperjob: "+format, args...)
	}
	switch {
	case o.Name == "" || o.Queue == "":
		return bad("name %q, queue %q: both are needed", o.Name, o.Queue)
	case len(o.Handlers) == 0:
		return bad("Handlers are missing: no job could run")
	case o.TTL < 0 || o.TTL%time.Millisecond != 0:
		return bad("TTL is %s: it must be positive and whole milliseconds", o.TTL)
	case o.RequestTimeout < 0 || o.Poll < 0 || o.DrainTimeout < 0 || o.BlockSize < 0:
		return bad("RequestTimeout, Poll, DrainTimeout and BlockSize must not be negative")
	case o.Buckets < 1 || o.Page < 1 || o.Slots < 1:
		return bad("Buckets, Page and Slots must be at least 1")
	}
	return o, nil
}

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
