package engine

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"fencepost/core/clock"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
)

// Defaults of Options.
const (
	DefaultTTL          = 6 * time.Second
	DefaultDriftBound   = clock.DefaultDriftBound
	DefaultMarginBase   = clock.DefaultMarginBase
	DefaultDrainTimeout = 30 * time.Second
	DefaultMaxOps       = 100
	DefaultMaxRunning   = 100
	DefaultMaxWaiting   = 1000
	DefaultMaxWait      = time.Second
	DefaultMaxOverdue   = 30 * time.Second
	DefaultMaxPending   = 100000
	DefaultPendingBytes = 256 << 20
	DefaultHorizon      = time.Minute
	DefaultMaxLoaded    = 10000
	DefaultPageSize     = 200
	DefaultTrimEvery    = 100
	DefaultDedupeWindow = 24 * time.Hour
	DefaultLateAfter    = 4 * time.Second
)

// minBytes and minOps are the least that leave room for jobs.
const (
	minBytes = 4 << 10
	minOps   = mostOps
)

// Queue is a queue and its number of shards: how many it is created with, or has by now.
type Queue struct {
	Name   string
	Shards int
}

// Execution is a settled claim, ready to run.
type Execution struct {
	Run job.Run
	// Issuer names the shard, whose fencing tokens the run's ids are.
	Issuer string
	// Begin is called immediately before the handler. It returns the
	// *LostError if the shard is no longer owned; then the handler must not run.
	Begin func() error
	// Valid looks at the clock: whether the shard is still trusted.
	Valid func() bool
}

// Executor runs claimed jobs (core/worker). Safe for concurrent use.
type Executor interface {
	// Reserve takes up to n free slots and returns how many; Release gives
	// slots back that Start did not use.
	Reserve(n int) int
	Release(n int)
	// Start runs the job in a reserved slot and returns at once. ctx ends with
	// the ownership. done is called exactly once, after the handler returned.
	Start(ctx context.Context, x Execution, done func(error))
}

// Options configure an Engine. Name, Queues and Executor are needed. The zero value of each
// other field is its default.
type Options struct {
	// Name is this life of the process, unique for ever; Addr is where other
	// processes forward enqueues to, "" for nowhere.
	Name, Addr string
	Queues     []Queue
	// AllQueues: the queues that others have created in the store are served too, and those that
	// are created later. Handlers are needed for the jobs of all of them.
	AllQueues bool
	Executor  Executor

	// Forward enqueues a job by the process at addr if that owns the job's shard
	// (core/forward has one); nil: Submit goes to the inbox instead. The error is an
	// *EnqueueError, or a *job.InvalidError; if the job certainly was not enqueued, by
	// ErrNotOwner or ErrUnreachable, Submit goes to the inbox. ctx ends after MaxWait and
	// RequestTimeout.
	Forward func(ctx context.Context, addr string, j job.Job) (Receipt, error)

	Ownership
	Limits
	Reads
	Retention
	Reports
	World
	planted
}

// Ownership is how shards are owned.
type Ownership struct {
	// TTL is how long a contender must see an owner's ticks stand still, in
	// whole milliseconds; default 6 s. An owner ticks every third of it.
	TTL time.Duration
	// RequestTimeout bounds the wait for the answer to one copy; default TTL/6.
	RequestTimeout time.Duration
	// DriftBound and MarginBase are the owner's safety margin (clock.Drift),
	// 2 x drift x ttl + base; defaults 0.01 and 100 ms.
	DriftBound float64
	MarginBase time.Duration
	// Rank is this process's place among those that should own the shard, from
	// 0: it waits that many eighths of the ttl longer. It is advice only, and may
	// change at any time. Default: 0 everywhere.
	Rank func(store.ShardID) int
	// DrainTimeout is how long runs may go on when the engine stops, before
	// their contexts end with job.ErrInterrupted; default 30 s.
	DrainTimeout time.Duration
}

// Limits bound what is at work and in memory.
type Limits struct {
	// MaxOps bounds a batch, in changes of rows (default 100), MaxRunning the runs of a
	// shard (100), MaxWaiting the enqueues that wait for a tick, and likewise the commands
	// (1000); more are refused with ErrBusy.
	MaxOps, MaxRunning, MaxWaiting int
	// MaxWait is how long an enqueue may have to wait for its tick, as far as one can tell when
	// it comes; default 1 s. One that would wait longer is refused with ErrBusy, before it costs
	// anything; with ErrStalled if a tick has been on its way for longer.
	MaxWait time.Duration
	// MaxOverdue is how long the job that is to be claimed next may have been due; default
	// 30 s. Beyond that more is asked for than is done, and enqueues are refused with ErrBusy,
	// but those of a higher priority.
	MaxOverdue time.Duration
	// MaxBytes bounds the rows of a batch, as store.Batch measures them; default
	// store.MaxBytes, which is also the most. A job that could not be in a batch
	// alone is refused with a *job.InvalidError.
	MaxBytes int
	// MaxPending bounds the jobs of a shard that are in memory (default 100,000): with more,
	// enqueues are refused with ErrBusy and the inbox is left as it is.
	MaxPending int
	// MaxPendingBytes bounds the bodies of the jobs that are in memory, of all shards
	// together, likewise; default 256 MiB. What runs and what was asked for when
	// memory was full may come on top.
	MaxPendingBytes int
}

// Reads are what is read of a shard, and how its reads stay short.
type Reads struct {
	// Horizon is how far ahead pending jobs are read (default 1 min), at most MaxLoaded of
	// them (10,000), unless deleted rows pile up behind them.
	Horizon   time.Duration
	MaxLoaded int
	// PageSize is the most rows that a read asks for; default 200. After a read that
	// failed the next one asks for half as many.
	PageSize int
	// InboxPoll is how often the inbox is read; default TTL/6.
	InboxPoll time.Duration
	// TrimEvery is the number of deleted rows after which a range deletion
	// follows, so that reads pass few tombstones; default 100. If five times as many lie
	// behind rows that stay, those are moved; reads pass less than 1000 times
	// TrimEvery, of which Cassandra allows 100,000 (tombstone_failure_threshold).
	TrimEvery int
}

// Retention is for how long ended jobs are remembered.
type Retention struct {
	// DedupeWindow is how long a job's id is remembered after its end; default 24 h. It must
	// be longer than any request can stay on its way and any client retries.
	DedupeWindow time.Duration
	// Retire, if set, is called with jobs of a shard whose ids are about to be forgotten, so
	// that what they have left elsewhere can be removed for good (worker.Retire); nil:
	// nothing is. No run of them is at work any more or will be, nor is any of the shard
	// below the run that is named. They are forgotten when it has returned without an error;
	// else, or if it has not returned within TTL, it is asked for them again after
	// InboxPoll. It may be asked for a job more than once, also after that was done. A run
	// of longer than DedupeWindow keeps what was claimed after it from being forgotten.
	Retire func(ctx context.Context, shard store.ShardID, below job.RunID, ended []job.ID) error
}

// Reports are the callbacks of an engine. Late, LateJob and Refused must not block.
type Reports struct {
	// Observer, if set, is called for every batch and every step.
	Observer Observer
	// Late, if set, is called with what schedules did not do in time, when that is settled.
	// An occurrence is late that is fired LateAfter after its nominal time; default 4 s.
	Late      func(Lateness)
	LateAfter time.Duration
	// LateJob, if set, is called once per attempt that is late by more than LateAfter, while
	// the job waits or when its run starts. An owner knows nothing of what the one before
	// has told (core/service/late tells once a process). A job that waits is noticed with
	// its shard's next batch, within TTL/3.
	LateJob func(LateJob)
	// Refused, if set, is called with each enqueue that is refused, of a shard that this process
	// owns, as there is too much to do or the store does not answer (RetryAfter).
	Refused func(shard store.ShardID, cause error)
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// World is what a process has of clocks and chance.
type World struct {
	// Clock defaults to clock.System(), Wall to time.Now. Wall decides only when
	// a job is due, never who owns what.
	Clock clock.Clock
	Wall  func() time.Time
	// Rand gives jitter; default: randomly seeded. Used while New runs only.
	Rand *rand.Rand
	// NewID returns globally unique nonces; default: random UUIDs.
	NewID func() string
	// Settle returns when all that happens at the present instant has happened; default nil: nobody
	// waits for that. It is for tests whose clock stands still while anything runs: with it, the
	// order in which goroutines run does not matter.
	Settle func()
}

// planted are places where tests put mistakes.
type planted struct {
	// anchor is the instant from which trust counts: the first send of the batch.
	anchor func(firstSend, answered time.Duration) time.Duration
	// decide is what a schedule does.
	decide func(s *schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision
	// oneRoom lets commands wait among enqueues.
	oneRoom bool
}

func (o Options) withDefaults() (Options, error) {
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, o.TTL/6)
	o.DriftBound = cmp.Or(o.DriftBound, DefaultDriftBound)
	o.MarginBase = cmp.Or(o.MarginBase, DefaultMarginBase)
	o.MaxOps = cmp.Or(o.MaxOps, DefaultMaxOps)
	o.MaxBytes = cmp.Or(o.MaxBytes, store.MaxBytes)
	o.MaxRunning = cmp.Or(o.MaxRunning, DefaultMaxRunning)
	o.MaxWaiting = cmp.Or(o.MaxWaiting, DefaultMaxWaiting)
	o.MaxWait = cmp.Or(o.MaxWait, DefaultMaxWait)
	o.MaxOverdue = cmp.Or(o.MaxOverdue, DefaultMaxOverdue)
	o.MaxPending = cmp.Or(o.MaxPending, DefaultMaxPending)
	o.MaxPendingBytes = cmp.Or(o.MaxPendingBytes, DefaultPendingBytes)
	o.Horizon = cmp.Or(o.Horizon, DefaultHorizon)
	o.MaxLoaded = cmp.Or(o.MaxLoaded, DefaultMaxLoaded)
	o.DedupeWindow = cmp.Or(o.DedupeWindow, DefaultDedupeWindow)
	o.InboxPoll = cmp.Or(o.InboxPoll, o.TTL/6)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, DefaultDrainTimeout)
	o.TrimEvery = cmp.Or(o.TrimEvery, DefaultTrimEvery)
	o.LateAfter = cmp.Or(o.LateAfter, DefaultLateAfter)
	o.PageSize = cmp.Or(o.PageSize, DefaultPageSize)
	o.Clock = cmp.Or(o.Clock, clock.System())
	if o.Wall == nil {
		o.Wall = time.Now
	}
	o.Rand = cmp.Or(o.Rand, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	if o.Rank == nil {
		o.Rank = func(store.ShardID) int { return 0 }
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Late == nil {
		o.Late = func(Lateness) {}
	}
	if o.Refused == nil {
		o.Refused = func(store.ShardID, error) {}
	}
	if o.decide == nil {
		o.decide = (*schedule.Schedule).Decide
	}
	if o.anchor == nil {
		o.anchor = func(firstSend, _ time.Duration) time.Duration { return firstSend }
	}
	return o, o.check()
}

func (o Options) check() error {
	bad := func(format string, args ...any) error { return fmt.Errorf("engine: "+format, args...) }
	named := map[string]bool{}
	for _, q := range o.Queues {
		if q.Name == "" || q.Shards < 1 {
			return bad("queue %q with %d shards: a queue needs a name and at least one shard", q.Name, q.Shards)
		}
		if named[q.Name] {
			return bad("queue %q is named twice: it would contend with itself", q.Name)
		}
		named[q.Name] = true
	}
	if err := o.drift().Check(o.TTL); err != nil {
		return bad("%w", err)
	}
	switch {
	case o.Name == "":
		return bad("Name is empty: every life of a process needs a name of its own")
	case o.Executor == nil:
		return bad("Executor is missing")
	case o.MaxOps < minOps || o.MaxOps > store.MaxOps:
		return bad("MaxOps is %d: want %d to %d", o.MaxOps, minOps, store.MaxOps)
	case o.MaxBytes < minBytes || o.MaxBytes > store.MaxBytes:
		return bad("MaxBytes is %d: want %d to %d", o.MaxBytes, minBytes, store.MaxBytes)
	case o.MaxRunning < 1 || o.MaxWaiting < 1 || o.MaxLoaded < 1 || o.MaxPending < 1 || o.MaxPendingBytes < 1 || o.PageSize < 1 || o.TrimEvery < 1:
		return bad("MaxRunning, MaxWaiting, MaxPending, MaxPendingBytes, PageSize, TrimEvery and MaxLoaded must be at least 1")
	case o.MaxWait < time.Millisecond || o.MaxOverdue < time.Millisecond:
		return bad("MaxWait and MaxOverdue must be some milliseconds at least")
	case o.Horizon < 2*time.Millisecond || o.DedupeWindow < time.Millisecond:
		return bad("Horizon and DedupeWindow must be some milliseconds at least")
	}
	return nil
}

// drift is how wrong clocks may be.
func (o Ownership) drift() clock.Drift { return clock.Drift{Bound: o.DriftBound, Base: o.MarginBase} }

// margin is the part of the ttl for which an owner does not trust its shard.
func (o Ownership) margin() time.Duration { return o.drift().Margin(o.TTL) }
