package engine

import (
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
	DefaultTTL          = 30 * time.Second
	DefaultDriftBound   = 0.01
	DefaultMarginBase   = 100 * time.Millisecond
	DefaultMaxOps       = 100
	DefaultMaxRunning   = 100
	DefaultMaxWaiting   = 1000
	DefaultMaxPending   = 100000
	DefaultPendingBytes = 256 << 20
	DefaultHorizon      = time.Minute
	DefaultMaxLoaded    = 10000
	DefaultDedupeWindow = 24 * time.Hour
	DefaultDrainTimeout = 30 * time.Second
	DefaultLateAfter    = 4 * time.Second
)

// minBytes and minOps are the least that leave room for jobs.
const (
	minBytes = 4 << 10
	minOps   = 8
)

// Queue is a queue and its fixed number of shards.
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

// Options configure an Engine. Name, Queues and Executor are needed.
type Options struct {
	// Name is this life of the process, unique for ever; Addr is where other
	// processes forward enqueues to, "" for nowhere.
	Name, Addr string
	Queues     []Queue
	Executor   Executor

	// Forward enqueues a job by the process at addr if that owns the job's shard
	// (core/forward has one); nil: Submit goes to the inbox instead. The error says
	// by store.OutcomeOf whether the job certainly was not enqueued. It is given
	// RequestTimeout.
	Forward func(ctx context.Context, addr string, j job.Job) (Receipt, error)

	// TTL is how long a contender must see an owner's ticks stand still, in
	// whole milliseconds; default 30 s. An owner ticks every third of it.
	TTL time.Duration
	// RequestTimeout bounds the wait for the answer to one copy; default TTL/6.
	RequestTimeout time.Duration
	// DriftBound and MarginBase are the owner's safety margin,
	// 2 x drift x ttl + base; defaults 0.01 and 100 ms.
	DriftBound float64
	MarginBase time.Duration
	// Clock defaults to clock.System(), Wall to time.Now. Wall decides only when
	// a job is due, never who owns what.
	Clock clock.Clock
	Wall  func() time.Time
	// Rand gives jitter; default: randomly seeded. Used while New runs only.
	Rand *rand.Rand
	// NewID returns globally unique nonces; default: random UUIDs.
	NewID func() string
	// Rank is this process's place among those that should own the shard, from
	// 0: it waits that many eighths of the ttl longer. It is advice only, and may
	// change at any time. Default: 0 everywhere.
	Rank func(store.ShardID) int

	// MaxOps bounds a batch, MaxRunning the runs of a shard, MaxWaiting the
	// enqueues that wait for a tick, and likewise the commands; more are refused with ErrBusy.
	MaxOps, MaxRunning, MaxWaiting int
	// MaxBytes bounds the rows of a batch, as store.Batch measures them; default
	// store.MaxBytes, which is also the most. A job that could not be in a batch
	// alone is refused with a *job.InvalidError.
	MaxBytes int
	// MaxPending bounds the jobs of a shard that are in memory: with more,
	// enqueues are refused with ErrBusy and the inbox is left as it is.
	MaxPending int
	// MaxPendingBytes bounds the bodies of the jobs that are in memory, of all shards
	// together, likewise; default 256 MiB. What runs and what was asked for when
	// memory was full may come on top.
	MaxPendingBytes int
	// Horizon is how far ahead pending jobs are read, at most MaxLoaded of them, unless
	// deleted rows pile up behind them.
	Horizon   time.Duration
	MaxLoaded int
	// PageSize is the most rows that a read asks for; default 200. After a read that
	// failed the next one asks for half as many.
	PageSize int
	// DedupeWindow is how long a job's id is remembered after its end. It must
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
	// InboxPoll is how often the inbox is read; default TTL/6.
	InboxPoll time.Duration
	// DrainTimeout is how long runs may go on when the engine stops, before
	// their contexts end with job.ErrInterrupted; default 30 s.
	DrainTimeout time.Duration
	// TrimEvery is the number of deleted rows after which a range deletion
	// follows, so that reads pass few tombstones; default 100. If five times as many lie
	// behind rows that stay, those are moved; reads pass less than 1000 times
	// TrimEvery, of which Cassandra allows 100,000 (tombstone_failure_threshold).
	TrimEvery int

	// Late, if set, is called with what schedules did not do in time, when that is settled.
	// It must not block. An occurrence is late that is fired LateAfter after its
	// nominal time; default 4 s.
	Late      func(Lateness)
	LateAfter time.Duration
	// LateJob, if set, is called once per attempt that is late by more than LateAfter, while
	// the job waits or when its run starts. It must not block. An owner knows nothing of
	// what the one before has told (core/service/late tells once a process). A job that waits is
	// noticed with its shard's next batch, within TTL/3.
	LateJob func(LateJob)

	// Observer, if set, is called for every batch and every step.
	Observer Observer
	// Logger defaults to slog.Default().
	Logger *slog.Logger

	// anchor is the instant from which trust counts: the first send of the
	// batch. Tests put a wrong one in its place.
	anchor func(firstSend, answered time.Duration) time.Duration
	// decide is what a schedule does; the same.
	decide func(s *schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision
	// oneRoom lets commands wait among enqueues; the same.
	oneRoom bool
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func (o Options) withDefaults() (Options, error) {
	orDefault(&o.TTL, DefaultTTL)
	orDefault(&o.RequestTimeout, o.TTL/6)
	orDefault(&o.DriftBound, DefaultDriftBound)
	orDefault(&o.MarginBase, DefaultMarginBase)
	orDefault(&o.MaxOps, DefaultMaxOps)
	orDefault(&o.MaxBytes, store.MaxBytes)
	orDefault(&o.MaxRunning, DefaultMaxRunning)
	orDefault(&o.MaxWaiting, DefaultMaxWaiting)
	orDefault(&o.MaxPending, DefaultMaxPending)
	orDefault(&o.MaxPendingBytes, DefaultPendingBytes)
	orDefault(&o.Horizon, DefaultHorizon)
	orDefault(&o.MaxLoaded, DefaultMaxLoaded)
	orDefault(&o.DedupeWindow, DefaultDedupeWindow)
	orDefault(&o.InboxPoll, o.TTL/6)
	orDefault(&o.DrainTimeout, DefaultDrainTimeout)
	orDefault(&o.TrimEvery, 100)
	orDefault(&o.LateAfter, DefaultLateAfter)
	orDefault(&o.PageSize, 200)
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	if o.Rank == nil {
		o.Rank = func(store.ShardID) int { return 0 }
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Late == nil {
		o.Late = func(Lateness) {}
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
	switch {
	case o.Name == "":
		return bad("Name is empty: every life of a process needs a name of its own")
	case o.Executor == nil:
		return bad("Executor is missing")
	case o.TTL <= 0 || o.TTL%time.Millisecond != 0:
		return bad("TTL is %s: it must be positive and whole milliseconds", o.TTL)
	case o.DriftBound < 0 || o.DriftBound >= 0.25:
		return bad("DriftBound is %v: it must be in [0, 0.25)", o.DriftBound)
	case o.margin() > o.TTL/2 || o.MarginBase < 0:
		return bad("TTL %s leaves too little beside a margin of %s: use a longer TTL or a smaller MarginBase", o.TTL, o.margin())
	case o.MaxOps < minOps || o.MaxOps > store.MaxOps:
		return bad("MaxOps is %d: want %d to %d", o.MaxOps, minOps, store.MaxOps)
	case o.MaxBytes < minBytes || o.MaxBytes > store.MaxBytes:
		return bad("MaxBytes is %d: want %d to %d", o.MaxBytes, minBytes, store.MaxBytes)
	case o.MaxRunning < 1 || o.MaxWaiting < 1 || o.MaxLoaded < 1 || o.MaxPending < 1 || o.MaxPendingBytes < 1 || o.PageSize < 1:
		return bad("MaxRunning, MaxWaiting, MaxPending, MaxPendingBytes, PageSize and MaxLoaded must be at least 1")
	case o.Horizon < 2*time.Millisecond || o.DedupeWindow < time.Millisecond:
		return bad("Horizon and DedupeWindow must be some milliseconds at least")
	}
	return nil
}

func (o Options) margin() time.Duration {
	return time.Duration(2*o.DriftBound*float64(o.TTL)) + o.MarginBase
}
