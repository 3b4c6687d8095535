package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"fencepost/core/clock"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
)

// Arm is one thing that is measured, with one setting.
type Arm struct {
	ID   string // "L/32/6s"; unique in a plan
	Kind string // what it does over and over, in the suite's words
	// Letter and Name are what a table and a person call it: "L", "lock cycle".
	Letter, Name string
	// Threads is the number of closed loops, each with one operation at a time.
	Threads int
	// Processes is how many processes the threads are spread over; 0: they are in the
	// benchmark's own. See Joint.
	Processes  int
	Contention string        // of locks
	TTL        time.Duration // of locks
	Shards     int           // of a queue of jobs
	// Changes is how many changes of a row one operation makes when nothing gets in
	// its way; 0 counts as 1. Ratios to the ceiling compare changes, so that a lock
	// cycle, which must change its row twice, is measured by two updates.
	Changes float64
	// Parts are the names of the latencies that an operation consists of.
	Parts []string
	// Control is the arm that this is a copy of, "" for none: their ratio is
	// what the machine's noise makes of two equal things.
	Control string
	// Open, if set, makes the load an open one: operations come at a part of the rate that
	// another arm had in the rounds before, and their latencies count from when they were
	// meant to begin. Threads are then how many may be under way at a time.
	Open Open
	// Ceiling is the bare update that the arm is compared with, Baseline another
	// way to do the same work; "" for none.
	Ceiling, Baseline string
}

// Open is the rate of an open load: Part of the median rate of the arm Of.
type Open struct {
	Of   string
	Part float64
}

func (a Arm) changes() float64 {
	if a.Changes > 0 {
		return a.Changes
	}
	return 1
}

// Defaults of Config.
const (
	DefaultRounds = 8
	DefaultWindow = 2 * time.Second
	MinRounds     = 5
	DefaultBudget = 20 * time.Minute
)

// mostRounds bounds what a budget allows.
const mostRounds = 200

// Config is how often and for how long arms run.
type Config struct {
	// Rounds is how many there are, at least 5; default 8. With a Budget it must be 0.
	Rounds int
	// Budget, if any, is how long rounds may go on: until then, or until what arms cost is
	// known well enough (see wide). No round begins that would probably end later.
	Budget time.Duration
	Window time.Duration // of an arm in a round; default 2 s
	// Lead is how long an arm is under load before its window begins, for what needs
	// time to become steady; default none.
	Lead time.Duration
	Seed uint64
}

func (c Config) withDefaults() (Config, error) {
	if c.Budget != 0 {
		if c.Rounds != 0 {
			return c, fmt.Errorf("%d rounds and a budget of %s: give one of them", c.Rounds, c.Budget)
		}
		c.Rounds = mostRounds
	}
	if c.Rounds == 0 {
		c.Rounds = DefaultRounds
	}
	if c.Window == 0 {
		c.Window = DefaultWindow
	}
	switch {
	case c.Budget < 0:
		return c, fmt.Errorf("a budget of %s: use more than 0, and about 20m for numbers to quote", c.Budget)
	case c.Rounds < MinRounds:
		return c, fmt.Errorf("%d rounds: at least %d are needed for a spread that means something", c.Rounds, MinRounds)
	case c.Window < 100*time.Millisecond:
		return c, fmt.Errorf("an arm of %s: use at least 100ms, and about 2s for numbers to quote", c.Window)
	}
	return c, nil
}

// Plan is what is done in which order. It is drawn from the seed alone.
type Plan struct {
	Config
	Arms []Arm
	// Order holds, for each round, indexes into Arms in the order of that round.
	// Order[0] is the rehearsal: all arms once, shortened, and not counted.
	Order [][]int
}

// NewPlan draws the order of the arms.
//
// Within a round all arms of one group run one after the other, in random order,
// and so do the groups: what is compared with each other is then seconds apart, not
// half a minute. Without groups there is nothing to do in rounds.
func NewPlan(c Config, groups [][]Arm) (*Plan, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Plan{Config: c}
	if len(groups) == 0 {
		return p, nil
	}
	var at [][]int
	for _, g := range groups {
		var indexes []int
		for _, a := range g {
			indexes = append(indexes, len(p.Arms))
			p.Arms = append(p.Arms, a)
		}
		at = append(at, indexes)
	}
	rng := rand.New(rand.NewPCG(c.Seed, 1))
	for round := range c.Rounds + 1 {
		var order []int
		for _, g := range rng.Perm(len(at)) {
			begin := len(order)
			for _, i := range rng.Perm(len(at[g])) {
				order = append(order, at[g][i])
			}
			if round == 0 { // a rate is known only when the arm that has it was run
				slices.SortStableFunc(order[begin:], func(i, j int) int { return cmp.Compare(p.Arms[i].Open.Part, p.Arms[j].Open.Part) })
			}
		}
		p.Order = append(p.Order, order)
	}
	return p, nil
}

// Arm returns the arm of that ID.
func (p *Plan) Arm(id string) (Arm, error) {
	for _, a := range p.Arms {
		if a.ID == id {
			return a, nil
		}
	}
	return Arm{}, errors.New("no arm " + id)
}

// Rates are those of the samples of a round, in the order of the arms: "J/4 1500/s, P 120/s" for the unit "/s".
func (p *Plan) Rates(samples []Sample, unit string) string {
	var parts []string
	for _, a := range p.Arms {
		for _, s := range samples {
			if s.Arm == a.ID {
				parts = append(parts, fmt.Sprintf("%s %.0f%s", a.ID, s.Rate(), unit))
			}
		}
	}
	return strings.Join(parts, ", ")
}

// rehearsal is the part of the window that an arm gets in round 0.
const rehearsal = 4

// cut ends the plan after so many rounds, the first of which may not count.
func (p *Plan) cut(rounds, cold int) { p.Rounds, p.Order = rounds-cold, p.Order[:rounds+1] }

// Estimate is about how long the plan takes, or may take, without warm-up; between is what an arm
// takes beside its window: first operations, draining.
func (p *Plan) Estimate(between time.Duration) time.Duration {
	n := time.Duration(len(p.Arms))
	between += p.Lead
	if p.Budget > 0 {
		return p.Budget + n*(p.Window/rehearsal+between)
	}
	return n * (p.Window/rehearsal + between + time.Duration(p.Rounds)*(p.Window+between))
}

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
	// Name is short, and fit for a directory: "high", "jobs".
	Name string
	// Setting says in some words what is measured: "contention high (1 key)".
	Setting string
	// Legend says what the arms do.
	Legend []string
	// Plan is which arms are run in which order, Estimate about how long all takes.
	Plan     *Plan
	Estimate time.Duration
	// Turn is what an arm does in a round, "one check"; "": it works for the window.
	Turn string
	// WarmUp are arms that together use every kind of code that the plan's do; nil: there is
	// nothing to warm up.
	WarmUp []Arm
	// Then adds to r what is measured when the rounds are over; nil: nothing.
	Then func(ctx context.Context, r *Result, p *Progress) error
	// Targets are what results are measured by; nil: there are none.
	Targets func(r *Result) ([]Target, error)
	// Claim is what the headline says; nil: there is none.
	Claim *Claim
}

// EachTurn says what an arm does in a round.
func (d Design) EachTurn() string { return cmp.Or(d.Turn, d.Plan.Window.String()) }

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
	// Rate is that of an open load, in operations a second.
	Rate float64
	Seed uint64
	// PIDs are the database's processes on this machine, Clients those of clients beside this one.
	PIDs    []int
	Clients []int
	syncs   *syncs // of theirs; nil: not counted
	// First is the number of the first thread among those of all processes, and Company
	// are the other processes; nil: there are none.
	First   int
	Company Company
}

// Company are the processes in which the other threads of a window are.
type Company interface {
	// Start says that all is prepared here, and returns the instant at which all threads
	// start when it is everywhere.
	Start(ctx context.Context) (time.Time, error)
	// End says that no operation is under way here any more, and returns when none is
	// anywhere.
	End(ctx context.Context) error
}

// Env is where arms work.
type Env struct {
	Locks  store.Locks
	Shards store.Shards
	// Sink is a sink on connections of its own, SinkLWTs how many conditional
	// requests and SERIAL reads it has sent.
	Sink     sink.Sink
	SinkLWTs func() int64
	// Members are the heartbeats of schedulers.
	Members store.Members
	// Process is the number of this process among an arm's, from 1; 0: it is the
	// benchmark's own. Launch starts others; nil: it cannot.
	Process int
	Launch  *Launch
	// DB is the session of Locks and Shards, Session opens another one that is closed
	// in the end, with a configuration that may be changed; nil if the stores are simulated.
	DB      *cassandra.DB
	Session func(ctx context.Context, change ...func(*cassandra.Config)) (*cassandra.DB, error)
	// Nodes is how to connect to each node alone, for what it counts itself.
	Nodes []cassandra.Config
	// Addrs are where the nodes are reached. Dir is the directory of the result. Profile
	// has profiles made there.
	Addrs   []NodeAddr
	Dir     string
	Profile bool
	// Clock is that of leases, Logger takes what is written on the way; nil: those of
	// the core.
	Clock  clock.Clock
	Logger *slog.Logger
	// Seed is that of everything random.
	Seed uint64
	PIDs []int
}

// NodeAddr is where a node of the database is reached.
type NodeAddr struct {
	Name string // "n1"
	IP   string // in the ring
	Addr string // host:port where it is reached
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

// Meter counts what passes through a store.
type Meter struct{ lwts, rejected, unknown, plain atomic.Int64 }

// Read counts a read that is sent.
func (m *Meter) Read(serial bool) {
	if serial {
		m.lwts.Add(1)
	} else {
		m.plain.Add(1)
	}
}

// Conditional counts a conditional request that is sent; the function that it returns
// counts the answer.
func (m *Meter) Conditional() (answered func(applied bool, err error)) {
	m.lwts.Add(1)
	return func(applied bool, err error) {
		switch {
		case store.OutcomeOf(err) == store.Unknown:
			m.unknown.Add(1)
		case err == nil && !applied:
			m.rejected.Add(1)
		}
	}
}

// Traffic is what passed so far.
func (m *Meter) Traffic() Traffic {
	return Traffic{LWTs: m.lwts.Load(), Rejected: m.rejected.Load(), Unknown: m.unknown.Load(), Plain: m.plain.Load()}
}

// Plus is both together.
func (t Traffic) Plus(u Traffic) Traffic {
	return Traffic{t.LWTs + u.LWTs, t.Rejected + u.Rejected, t.Unknown + u.Unknown, t.Plain + u.Plain, t.SinkLWTs + u.SinkLWTs}
}

// Minus is what was sent since u.
func (t Traffic) Minus(u Traffic) Traffic {
	return Traffic{t.LWTs - u.LWTs, t.Rejected - u.Rejected, t.Unknown - u.Unknown, t.Plain - u.Plain, t.SinkLWTs - u.SinkLWTs}
}
