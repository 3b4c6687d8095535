package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"fencepost/harness/bench"
	"fencepost/harness/bench/locks"
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
	// InFlight is how many jobs are open at once for each shard; default 100.
	InFlight int
	// Steady is how long each load over time goes on; 0: there is none. Rate is that
	// of the first of them in jobs a second; default 1000.
	Steady time.Duration
	Rate   float64
	// NoRounds leaves the rounds out.
	NoRounds bool
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
	return c, nil
}

// Kinds of arms.
const (
	kindCAS     = "cas"
	kindJobs    = "jobs"
	kindEffects = "jobs+effect"
)

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

	mu    sync.Mutex
	books []audited
}

var (
	_ bench.Sequel   = (*Suite)(nil)
	_ bench.Targeted = (*Suite)(nil)
)

// audited is a book to look at in the end.
type audited struct {
	*book
	effects bool
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
	for _, n := range s.Shards {
		busy = append(busy, s.arm(kindJobs, n))
	}
	control := s.arm(kindJobs, s.Shards[0])
	control.Control = control.ID
	control.ID, control.Letter, control.Name = fmt.Sprintf("J2/%d", s.Shards[0]), "J2", "jobs, A/A copy"
	busy = append(busy, control)
	for _, n := range s.Shards {
		busy = append(busy, s.arm(kindEffects, n))
	}
	return [][]bench.Arm{busy, {locks.CeilingArm(1, locks.Low), s.single()}}
}

func (s *Suite) arm(kind string, shards int) bench.Arm {
	a := bench.Arm{
		ID: fmt.Sprintf("J/%d", shards), Kind: kind, Letter: "J", Name: "jobs",
		Threads: s.InFlight * shards, Shards: shards, Parts: partNames, Ceiling: ceilingID(ceilingThreads),
	}
	if kind == kindEffects {
		a.ID, a.Letter, a.Name = fmt.Sprintf("JS/%d", shards), "JS", "jobs with a fenced effect"
	}
	return a
}

// single is one job at a time.
func (s *Suite) single() bench.Arm {
	a := s.arm(kindJobs, s.Shards[0])
	a.ID, a.Letter, a.Name, a.Threads, a.Ceiling = fmt.Sprintf("J1/%d", s.Shards[0]), "J1", "one job at a time", 1, ceilingID(1)
	return a
}

func ceilingID(threads int) string { return locks.CeilingArm(threads, locks.Low).ID }

// Name implements bench.Suite.
func (s *Suite) Name() string { return "jobs" }

// Setting implements bench.Suite.
func (s *Suite) Setting() string {
	return fmt.Sprintf("jobs, %d open at once for each shard", s.InFlight)
}

// Plan implements bench.Suite.
func (s *Suite) Plan() *bench.Plan { return s.plan }

// Estimate implements bench.Suite.
func (s *Suite) Estimate() time.Duration {
	const startAndStop = time.Second
	return s.plan.Estimate(startAndStop) + 2*s.Steady
}

// WarmUp implements bench.Suite.
func (s *Suite) WarmUp() []bench.Arm {
	cas := locks.CeilingArm(bench.WarmUpThreads, locks.Low)
	jobs, effects := s.arm(kindJobs, s.Shards[0]), s.arm(kindEffects, s.Shards[0])
	out := []bench.Arm{cas, jobs, effects}
	for i := range out {
		out[i].ID = "warmup-" + out[i].Letter
	}
	return out
}

// Open implements bench.Suite.
func (s *Suite) Open(_ context.Context, env *bench.Env) error {
	const unused = time.Minute // a lease time that nobody looks at
	s.env, s.ceiling = env, locks.NewCeiling(env.Locks, unused)
	return nil
}

// Subject implements bench.Suite.
func (s *Suite) Subject(a bench.Arm, stream uint64) (bench.Subject, error) {
	if a.Kind == kindCAS {
		return s.ceiling.Subject(), nil
	}
	return &arm{suite: s, Arm: a, stream: stream}, nil
}

// audit takes a book to look at in the end.
func (s *Suite) audit(b *book, effects bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.books = append(s.books, audited{b, effects})
}

// Finish implements bench.Suite: every job of every queue is accounted for.
func (s *Suite) Finish(ctx context.Context, r *bench.Result) error {
	violations, bare, err := s.ceiling.Verify(ctx)
	if err != nil {
		return err
	}
	r.Violations = append(r.Violations, violations...)
	completed, effects, lost := 0, 0, 0
	for _, b := range s.books {
		f := &findings{queue: b.queue}
		b.judge(f)
		if err := b.verifyRows(ctx, s.env.Shards, f); err != nil {
			return err
		}
		if b.effects {
			if err := b.verifyEffects(ctx, s.env.Sink, f); err != nil {
				return err
			}
			effects += b.ended
		}
		completed, lost = completed+b.ended, lost+b.lost
		r.Violations = append(r.Violations, f.all()...)
	}
	if lost > 0 {
		r.Note("%d times a shard was lost while it was measured: its jobs were rescued, and some ran twice", lost)
	}
	if len(r.Violations) == 0 {
		r.Note("checked: %d jobs of %d queues, every one that was acknowledged completed once and by its row, %d effects accepted once each; %s", completed, len(s.books), effects, bare)
	}
	return nil
}

// arm runs the production scheduler, a new one on a new queue in every round.
type arm struct {
	bench.Arm
	suite  *Suite
	stream uint64
	// miscounts are reported when the arm is closed.
	miscounts error
}

// Window implements bench.Subject.
func (a *arm) Window(ctx context.Context, w bench.Window) (bench.Sample, error) {
	p, err := a.start(ctx, fmt.Sprintf("%s_%d", a.ID, w.Round))
	if err != nil {
		return bench.Sample{}, err
	}
	sample, err := w.Loop(ctx, &operator{book: p.book, submit: p.submit, traffic: p.traffic})
	return sample, errors.Join(err, a.stop(p))
}

func (a *arm) start(ctx context.Context, queue string) (*process, error) {
	p, err := start(ctx, a.suite.env, queue, a.Shards, a.Kind == kindEffects, a.stream)
	if err == nil {
		a.suite.audit(p.book, a.Kind == kindEffects)
	}
	return p, err
}

// stop ends a process. A wrong count is no reason to measure nothing else.
func (a *arm) stop(p *process) error {
	err := p.close()
	var wrong *miscount
	if errors.As(err, &wrong) {
		a.miscounts = errors.Join(a.miscounts, err)
		return nil
	}
	return err
}

// Close implements bench.Subject.
func (a *arm) Close(context.Context) error { return a.miscounts }
