package bench

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"fencepost/core/clock"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
)

// Suite is what is measured: arms that are compared, and how each is run.
type Suite interface {
	Design() Design
	// Open prepares what the arms share.
	Open(ctx context.Context, env *Env) error
	// Subject makes an arm; stream is that of its random numbers.
	Subject(a Arm, stream uint64) (Subject, error)
	// Finish looks at everything once more when all subjects are closed, and adds
	// what it found to r: violations, problems, notes.
	Finish(ctx context.Context, r *Result) error
	// Round says in a line how the samples of a round went, Headlines in a sentence each
	// what came out.
	Round(samples []Sample) string
	Headlines(r *Result) []string
}

// Design is what a suite is before it runs.
type Design struct {
	// Name is short, and fit for a keyspace and a directory: "high", "jobs".
	Name string
	// Setting says in some words what is measured: "contention high (1 key)".
	Setting string
	// Legend says what the arms do.
	Legend []string
	// Plan is which arms are run in which order, Estimate about how long all takes.
	Plan     *Plan
	Estimate time.Duration
	// WarmUp are arms that together use every kind of code that the plan's do.
	WarmUp []Arm
	// Then adds to r what is measured when the rounds are over; nil: nothing.
	Then func(ctx context.Context, r *Result, p *Progress) error
	// Targets are what results are measured by; nil: there are none.
	Targets func(r *Result) ([]Target, error)
}

// Subject is an arm at work.
type Subject interface {
	// Window measures for a window.
	Window(ctx context.Context, w Window) (Sample, error)
	// Close settles what is in the background.
	Close(ctx context.Context) error
}

// Window is an arm's turn in a round.
type Window struct {
	Arm    Arm
	Round  int
	Lead   time.Duration
	Length time.Duration
	Seed   uint64
	// PIDs are the database's processes on this machine.
	PIDs []int
}

// Env is where arms work.
type Env struct {
	Locks  store.Locks
	Shards store.Shards
	// Sink is a sink on connections of its own, SinkLWTs how many conditional
	// requests and SERIAL reads it has sent.
	Sink     sink.Sink
	SinkLWTs func() int64
	// DB is the session of Locks and Shards, Session opens another one that is closed
	// in the end; nil if the stores are simulated.
	DB      *cassandra.DB
	Session func(context.Context) (*cassandra.DB, error)
	// Clock is that of leases, Logger takes what is written on the way; nil: those of
	// the core.
	Clock  clock.Clock
	Logger *slog.Logger
	// Seed is that of everything random.
	Seed uint64
	PIDs []int
}

// Rand is a stream of random numbers.
func (e *Env) Rand(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(e.Seed, 1<<32|stream)) }

// Traffic counts requests.
type Traffic struct {
	LWTs     int64 // conditional requests sent, resends and SERIAL reads too
	Rejected int64 // of them answered "not applied"
	Unknown  int64 // of them without a certain answer
	Plain    int64 // requests without a condition, where they are counted
	SinkLWTs int64 // conditional requests and SERIAL reads of the sink, beside LWTs
}

// Minus is what was sent since u.
func (t Traffic) Minus(u Traffic) Traffic {
	return Traffic{t.LWTs - u.LWTs, t.Rejected - u.Rejected, t.Unknown - u.Unknown, t.Plain - u.Plain, t.SinkLWTs - u.SinkLWTs}
}
