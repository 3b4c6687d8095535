package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"fencepost/bench"
	"fencepost/bench/locks"
	"fencepost/core/engine"
	"fencepost/core/worker"
	"fencepost/harness/target/system/lockperjob"
)

// Defaults of Config.
const (
	DefaultInFlight = 100
	DefaultLead     = time.Second
	DefaultRate     = 1000.0
)

// DefaultShards are the numbers of shards.
var DefaultShards = []int{4, 1, 16}

// Config is what to measure.
type Config struct {
	bench.Config
	// Shards of a queue, an arm each; default 4, 1, 16. The control, the single job
	// and the loads over time have as many as the first.
	Shards []int
	// Schedulers are the numbers of processes that share the first number of shards, an arm
	// each; default none.
	Schedulers []int
	// InFlight is how many jobs are open at once for each shard; default 100.
	InFlight int
	// Steady is how long each load over time goes on; 0: there is none. Rate is that
	// of the first of them in jobs a second; default 1000.
	Steady time.Duration
	Rate   float64
	// NoRounds leaves the rounds out.
	NoRounds bool
	// withoutRival leaves out what needs a database.
	withoutRival bool
}

// Limits of Config.
const (
	maxShards   = 64
	maxInFlight = 1000 // of a shard: an engine's default limit of waiting enqueues
	maxRate     = 100_000
	minSteady   = 5 * bucket
)

func (c Config) withDefaults() (Config, error) {
	if len(c.Shards) == 0 {
		c.Shards = DefaultShards
	}
	if c.InFlight == 0 {
		c.InFlight = DefaultInFlight
	}
	if c.Lead == 0 {
		c.Lead = DefaultLead
	}
	if c.Rate == 0 {
		c.Rate = DefaultRate
	}
	switch {
	case c.InFlight < 1 || c.InFlight > maxInFlight:
		return c, fmt.Errorf("%d jobs in flight a shard: use 1 to %d", c.InFlight, maxInFlight)
	case c.Rate < 1 || c.Rate > maxRate:
		return c, fmt.Errorf("a rate of %v jobs/s: use 1 to %d", c.Rate, maxRate)
	case c.Steady != 0 && c.Steady < minSteady:
		return c, fmt.Errorf("a load of %s: use at least %s, so that its first and last fifth are %s each", c.Steady, minSteady, bucket)
	case c.NoRounds && c.Steady == 0:
		return c, errors.New("no rounds and no load over time: nothing to measure")
	}
	for i, n := range c.Shards {
		if n < 1 || n > maxShards {
			return c, fmt.Errorf("%d shards: use 1 to %d", n, maxShards)
		}
		if slices.Contains(c.Shards[:i], n) {
			return c, fmt.Errorf("%d shards are named twice", n)
		}
	}
	for i, n := range c.Schedulers {
		if n < 1 || n > c.Shards[0] {
			return c, fmt.Errorf("%d schedulers: use 1 to %d, so that each has one of the %d shards", n, c.Shards[0], c.Shards[0])
		}
		if slices.Contains(c.Schedulers[:i], n) {
			return c, fmt.Errorf("%d schedulers are named twice", n)
		}
	}
	return c, nil
}

// Kinds of arms, beside the ceiling's.
const (
	kindJobs        = "jobs"
	kindEffects     = "jobs+effect"
	kindRival       = "lock per job"
	kindRivalEffect = "lock per job+effect"
)

// kinds say what they do.
var kinds = map[string]struct{ rival, effects bool }{
	kindJobs:        {},
	kindEffects:     {effects: true},
	kindRival:       {rival: true},
	kindRivalEffect: {rival: true, effects: true},
}

// ceilingThreads are enough for the bare updates to use all processors.
const ceilingThreads = 32

// partNames name the parts of a job's latency, in the order of book.parts.
var partNames = []string{"enqueue to start", "start to done", "done to completed"}

// Suite measures the job scheduler.
type Suite struct {
	Config
	plan    *bench.Plan
	env     *bench.Env
	ceiling *locks.Ceiling
	rivals  *rivals

	mu    sync.Mutex
	books []kept
}

var _ bench.Joint = (*Suite)(nil)

// kept is a book to look at in the end.
type kept struct {
	*book
	kind string
}

// New lays out the arms: those that work as fast as they can are a group, those that
// do one thing at a time another.
func New(c Config) (*Suite, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Suite{Config: c}
	var groups [][]bench.Arm
	if !c.NoRounds {
		groups = s.groups()
	}
	if s.plan, err = bench.NewPlan(c.Config, groups); err != nil {
		return nil, err
	}
	s.Config.Config = s.plan.Config
	return s, nil
}

func (s *Suite) groups() [][]bench.Arm {
	busy := []bench.Arm{locks.CeilingArm(ceilingThreads, locks.Low)}
	if !s.withoutRival {
		busy = append(busy, s.rival(kindRival))
	}
	for _, n := range s.Shards {
		busy = append(busy, s.arm(kindJobs, n))
	}
	control := s.arm(kindJobs, s.Shards[0])
	control.Control = control.ID
	control.ID, control.Letter, control.Name = fmt.Sprintf("J2/%d", s.Shards[0]), "J2", "jobs, A/A copy"
	busy = append(busy, control)
	for _, n := range s.Schedulers {
		busy = append(busy, s.spread(n))
	}
	if !s.withoutRival {
		busy = append(busy, s.rival(kindRivalEffect))
	}
	for _, n := range s.Shards {
		busy = append(busy, s.arm(kindEffects, n))
	}
	return [][]bench.Arm{busy, {locks.CeilingArm(1, locks.Low), s.single()}}
}

// arm is the production scheduler's with so many shards.
func (s *Suite) arm(kind string, shards int) bench.Arm {
	a := bench.Arm{
		ID: fmt.Sprintf("J/%d", shards), Kind: kind, Letter: "J", Name: "jobs",
		Threads: s.InFlight * shards, Shards: shards, Parts: partNames, Ceiling: ceilingID(ceilingThreads), Baseline: rivalID(kindRival),
	}
	if kind == kindEffects {
		a.ID, a.Letter, a.Name, a.Baseline = fmt.Sprintf("JS/%d", shards), "JS", "jobs with a fenced effect", rivalID(kindRivalEffect)
	}
	if s.withoutRival {
		a.Baseline = ""
	}
	return a
}

// single is one job at a time.
func (s *Suite) single() bench.Arm {
	a := s.arm(kindJobs, s.Shards[0])
	a.ID, a.Letter, a.Name, a.Threads = fmt.Sprintf("J1/%d", s.Shards[0]), "J1", "one job at a time", 1
	a.Ceiling, a.Baseline = ceilingID(1), ""
	return a
}

// rival is the arm of the scheduler that takes a lock for every job.
func (s *Suite) rival(kind string) bench.Arm {
	a := bench.Arm{
		ID: rivalID(kind), Kind: kind, Letter: "P", Name: "lock per job",
		Threads: rivalInFlight, Shards: lockperjob.DefaultBuckets, Parts: partNames, Ceiling: ceilingID(ceilingThreads),
	}
	if kind == kindRivalEffect {
		a.Letter, a.Name = "PS", "lock per job with an unfenced effect"
	}
	return a
}

func rivalID(kind string) string {
	if kinds[kind].effects {
		return "PS"
	}
	return "P"
}

func ceilingID(threads int) string { return locks.CeilingArm(threads, locks.Low).ID }

// Design implements bench.Suite.
func (s *Suite) Design() bench.Design {
	const startAndDrain = 2 * time.Second
	d := bench.Design{
		Name: "jobs", Setting: fmt.Sprintf("jobs, %d in flight for each shard", s.InFlight),
		Plan: s.plan, Estimate: s.plan.Estimate(startAndDrain) + 2*s.Steady, WarmUp: s.warmUp(), Then: s.then, Targets: s.targets, Claim: s.claim(),
		Legend: []string{
			locks.LegendCeiling,
			fmt.Sprintf("jobs: the production scheduler in one process, a new one on a new queue in every round, its handler does nothing; %d jobs are in flight for each shard, and the next is enqueued when one is completed; the A/A copy is the same once more and shows the noise", s.InFlight),
			"jobs with a fenced effect: the handler has one effect in the Cassandra sink",
			fmt.Sprintf("lock per job: a scheduler that takes a lock in the database for every job, %d slots in one process, %d jobs in flight in %d buckets (its shards here); its effects carry a token that nobody compares", rivalSlots, rivalInFlight, lockperjob.DefaultBuckets),
			"one job at a time: the next is enqueued when the last is completed",
			fmt.Sprintf("an arm is under load for %s before its window; its requests are counted within it, once by the store and once by the engine, which must agree", s.Lead),
			"job rows outlive their jobs by the dedupe window (24 h); forgetting them takes two more of a batch's changes for each job, which is in no number here",
		},
	}
	if len(s.Schedulers) > 0 {
		d.Legend = append(d.Legend, legendSpread)
	}
	return d
}

// claim is that of the first number of shards, by the scheduler that takes a lock per job.
func (s *Suite) claim() *bench.Claim {
	if s.withoutRival || s.NoRounds {
		return nil
	}
	a := s.arm(kindJobs, s.Shards[0])
	return &bench.Claim{Arm: a.ID, To: a.Baseline, Unit: "job", Whom: "one lock per job", Setting: a.Setting()}
}

// warmUp is every kind of arm at once, so with little in flight each.
func (s *Suite) warmUp() []bench.Arm {
	out := []bench.Arm{locks.CeilingArm(bench.WarmUpThreads, locks.Low), s.arm(kindJobs, s.Shards[0]), s.arm(kindEffects, s.Shards[0])}
	out[1].Threads, out[2].Threads = DefaultInFlight, bench.WarmUpThreads
	if !s.withoutRival {
		for _, kind := range []string{kindRival, kindRivalEffect} {
			a := s.rival(kind)
			a.Threads = bench.WarmUpThreads
			out = append(out, a)
		}
	}
	for i := range out {
		out[i].ID = "warmup-" + out[i].Letter
	}
	return out
}

// Open implements bench.Suite.
func (s *Suite) Open(ctx context.Context, env *bench.Env) (err error) {
	const unused = time.Minute // a lease time that nobody looks at
	s.env, s.ceiling = env, locks.NewCeiling(env.Locks, unused)
	if !s.withoutRival && env.Process == 0 {
		s.rivals, err = newRivals(ctx, env)
	}
	return err
}

// Subject implements bench.Suite.
func (s *Suite) Subject(a bench.Arm, stream uint64) (bench.Subject, error) {
	if _, ok := kinds[a.Kind]; !ok {
		return s.ceiling.Subject(), nil
	}
	return &arm{suite: s, Arm: a, stream: stream}, nil
}

// open opens a book, to be looked at in the end.
func (s *Suite) open(a bench.Arm, queue string) *book {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := newBook(queue, uint32(s.env.Process)<<processBits|uint32(len(s.books)+1), a.Shards)
	b.shared = a.Processes > 0
	s.books = append(s.books, kept{b, a.Kind})
	return b
}

// arm runs a scheduler, a new one on a new queue in every round.
type arm struct {
	bench.Arm
	suite  *Suite
	stream uint64
	// miscounts are reported when the arm is closed: a wrong count is no reason to
	// measure nothing else.
	miscounts error
}

// Window implements bench.Subject.
func (a *arm) Window(ctx context.Context, w bench.Window) (bench.Sample, error) {
	p, err := a.start(ctx, fmt.Sprintf("%s_%d", strings.ReplaceAll(a.ID, "/", "_"), w.Round))
	if err != nil {
		return bench.Sample{}, err
	}
	sample, err := w.Loop(ctx, p)
	return sample, errors.Join(err, a.stop(p))
}

// Slots of the production scheduler. With fewer than its shards may claim at once its
// batches are not full; but so many effects on their way at once are more than the
// database answers in time.
const maxEffects = 400

func slots(shards int, effects bool) int {
	n := shards * engine.DefaultMaxRunning
	if effects {
		n = min(n, maxEffects)
	}
	return n
}

func (a *arm) start(ctx context.Context, queue string) (*process, error) {
	s, does := a.suite, kinds[a.Kind]
	handler := worker.Handler(nothing)
	if does.effects {
		handler = effect
	}
	b := s.open(a.Arm, queue)
	if does.rival {
		return s.rivals.start(ctx, s.env, b, handler, does.effects, a.stream)
	}
	share := a.Shards
	if a.Processes > 0 {
		share = (a.Shards + a.Processes - 1) / a.Processes
	}
	return startEngine(ctx, s.env, b, handler, a.Processes, slots(share, does.effects), a.stream)
}

func (a *arm) stop(p *process) error {
	err := p.stop()
	var wrong *miscount
	if errors.As(err, &wrong) {
		a.miscounts = errors.Join(a.miscounts, err)
		return nil
	}
	return err
}

// Close implements bench.Subject.
func (a *arm) Close(context.Context) error { return a.miscounts }
