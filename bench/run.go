package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"fencepost/core/clock"
	cassandrasink "fencepost/core/sink/cassandra"
	"fencepost/core/store/cassandra"
	"fencepost/harness/env/cluster"
	"fencepost/harness/record/progress"
	"fencepost/reports"
	"fencepost/reports/stat"
)

// Options say where a suite is measured.
type Options struct {
	Suite Suite
	// Access says how the nodes are reached.
	Access cluster.Access
	// PIDs are the nodes' processes on this machine, if they are on it: the
	// processor time of others is told apart from theirs.
	PIDs []int
	// Profile has a profile made of each arm, in the directory ProfileDir of Dir.
	Profile bool
	// Launch starts the processes over which arms are spread; its keyspace is filled in.
	// nil: there are no such arms.
	Launch *Launch
	// Addrs are where the nodes are reached. Dir is the directory of the result.
	Addrs []NodeAddr
	Dir   string
	// Progress is told how it goes on; its owner closes it. nil: nobody is told.
	Progress *progress.Log
}

// Target is what a result is measured by.
type Target = reports.BenchTarget

// Result is what a benchmark measured.
type Result struct {
	Suite Suite
	Design
	Started, Ended time.Time
	Warmed         WarmUp
	Samples        []Sample // in the order in which they were taken
	// Runs over time, beside the rounds.
	Steady []reports.BenchSteady
	// Met are the targets, met or missed: neither changes the exit code.
	Met []Target
	// Violations of what is promised; the numbers of what is unsafe are void.
	Violations []string
	// Problems are reasons not to quote the numbers.
	Problems []string
	// Notes are what a reader should know and nothing is wrong with.
	Notes []string
}

// limits of steps that have no load behind them.
const (
	setUpTimeout = time.Minute
	closeTimeout = time.Minute
	// auditTimeout is for a look at everything that was ever written.
	auditTimeout = 10 * time.Minute
)

type bench struct {
	suite    Suite
	plan     *Plan
	env      *Env
	subjects map[string]Subject   // by arm ID
	rates    map[string][]float64 // of all windows so far, by arm ID
	syncs    *syncs
	agents   agents // in the order of their numbers
	progress *Progress
	result   *Result
}

// Run measures a suite in a keyspace of its own, which it drops at the end. When
// ctx ends early it ends in order, and the result says so among its problems, as it
// does of what could not be measured or looked at. An error means that there is no
// result.
func Run(ctx context.Context, opt Options) (res *Result, err error) {
	p := NewProgress(opt.Progress)
	cfg := opt.Access.Config
	cfg.Keyspace = fmt.Sprintf("fp_bench_%s_%s", time.Now().UTC().Format("20060102_150405"), strings.ReplaceAll(opt.Suite.Design().Name, "-", "_"))
	p.Line("setting up keyspace %s", cfg.Keyspace)
	env, drop, err := setUp(ctx, cfg, opt.Access)
	defer func() { err = errors.Join(err, drop()) }()
	if err != nil {
		return nil, err
	}
	env.Seed, env.PIDs = opt.Suite.Design().Plan.Seed, opt.PIDs
	env.Addrs, env.Dir, env.Profile = opt.Addrs, opt.Dir, opt.Profile
	if opt.Launch != nil {
		l := *opt.Launch
		l.Reach.Keyspace = cfg.Keyspace
		env.Launch = &l
	}
	res, err = Measure(ctx, opt.Suite, env, p)
	if res != nil {
		res.Notes = append(res.Notes, opt.Access.Notes...)
	}
	return res, err
}

// setUp makes the keyspace and the sessions.
func setUp(ctx context.Context, cfg cassandra.Config, access cluster.Access) (env *Env, drop func() error, err error) {
	end := func() {}
	taken := false // the keyspace is somebody else's
	drop = func() error {
		end()
		if taken {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), setUpTimeout)
		defer cancel()
		if err := cassandra.DropKeyspace(ctx, cfg); err != nil {
			return fmt.Errorf("drop keyspace %s: %w", cfg.Keyspace, err)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	create := cassandra.Migrate
	if access.Shared {
		create = cassandra.Create
	}
	if err := create(ctx, cfg, access.Replication); err != nil {
		taken = cassandra.Refused(err) == cassandra.Exists
		return nil, drop, fmt.Errorf("create keyspace %s: %w", cfg.Keyspace, err)
	}
	env, end, err = open(ctx, cfg)
	return env, drop, err
}

// open opens the sessions in a keyspace that is there; end closes them, always.
func open(ctx context.Context, cfg cassandra.Config) (env *Env, end func(), err error) {
	var sessions []*cassandra.DB
	end = func() {
		for _, db := range sessions {
			db.Close()
		}
	}
	session := func(ctx context.Context, change ...func(*cassandra.Config)) (*cassandra.DB, error) {
		cfg := cfg
		for _, f := range change {
			f(&cfg)
		}
		db, err := cassandra.Open(ctx, cfg)
		if err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
		sessions = append(sessions, db)
		return db, nil
	}
	rows, err := session(ctx)
	if err != nil {
		return nil, end, err
	}
	// The sink has a session of its own, as in production.
	effects, err := session(ctx)
	if err != nil {
		return nil, end, err
	}
	var nodes []cassandra.Config
	for _, ip := range cfg.ContactPoints {
		one := cfg
		one.Pin, one.Keyspace = ip, ""
		nodes = append(nodes, one)
	}
	return &Env{
		Nodes: nodes, DB: rows, Session: session, Locks: cassandra.NewLocks(rows), Shards: cassandra.NewShards(rows), Members: cassandra.NewMembers(rows),
		Sink:     cassandrasink.New(effects, cassandrasink.Options{}),
		SinkLWTs: func() int64 { s := effects.Sent(); return s.Conditional + s.Serial },
	}, end, nil
}

// Measure measures a suite where env says; see Run.
func Measure(ctx context.Context, suite Suite, env *Env, p *Progress) (*Result, error) {
	d := suite.Design()
	b := &bench{
		suite: suite, plan: d.Plan, env: env, subjects: map[string]Subject{}, rates: map[string][]float64{}, progress: p,
		result: &Result{Suite: suite, Design: d, Started: time.Now().UTC()},
	}
	err := b.open(ctx)
	defer func() { b.agents.end(context.WithoutCancel(ctx)) }()
	if err != nil {
		return nil, err
	}
	if len(env.PIDs) > 0 {
		var err error
		if b.syncs, err = countSyncs(env.PIDs); err != nil {
			b.result.Note("fsyncs of the nodes are not counted: %v (it takes root and a mounted tracefs)", err)
		}
		defer b.syncs.close()
	} else if env.DB != nil {
		b.result.Note("the nodes' processes are not this tool's to read: their processor time, bytes and fsyncs are not in the costs")
	}
	if len(d.WarmUp) > 0 {
		if err := b.warmUp(ctx, d.WarmUp); err != nil && ctx.Err() == nil {
			return nil, fmt.Errorf("warm-up: %w", err)
		}
	}
	b.rounds(ctx)
	if env.Profile && ctx.Err() == nil {
		if err := b.profiles(ctx, filepath.Join(env.Dir, ProfileDir)); err != nil {
			b.result.Problem("profiles: %v", err)
		}
	}
	if d.Then != nil && ctx.Err() == nil {
		if err := d.Then(ctx, b.result, p); err != nil {
			b.result.Problem("after the rounds: %v", err)
		}
	}
	b.finish()
	b.result.Ended = time.Now().UTC()
	return b.result, b.result.judge()
}

func (b *bench) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	if err := b.suite.Open(ctx, b.env); err != nil {
		return err
	}
	if err := b.launch(ctx); err != nil {
		return err
	}
	for i, a := range b.plan.Arms {
		if a.Processes > 0 {
			b.subjects[a.ID] = &spread{a, b.agents[:a.Processes]}
			continue
		}
		s, err := b.suite.Subject(a, uint64(i))
		if err != nil {
			return err
		}
		b.subjects[a.ID] = s
	}
	return nil
}

func (b *bench) window(a Arm, round int, length time.Duration) Window {
	w := Window{Arm: a, Round: round, Lead: b.plan.Lead, Length: length, Seed: b.plan.Seed, PIDs: b.env.PIDs, syncs: b.syncs}
	if a.Open.Part > 0 {
		w.Rate = a.Open.Part * stat.Median(b.rates[a.Open.Of])
	}
	return w
}

// rounds does the rehearsal and the rounds.
func (b *bench) rounds(ctx context.Context) {
	begin := time.Now()
	for round, order := range b.plan.Order {
		b.forgetCold(round - 1)
		if b.enough(round, time.Since(begin)) {
			b.plan.cut(round-1, len(b.result.Warmed.Cold))
			return
		}
		length := b.plan.Window
		if round == 0 {
			length /= rehearsal
		}
		for position, i := range order {
			if ctx.Err() != nil {
				b.result.Problem("interrupted in %s", b.plan.round(round))
				b.plan.cut(round, len(b.result.Warmed.Cold))
				return
			}
			arm := b.plan.Arms[i]
			s, err := b.subjects[arm.ID].Window(ctx, b.window(arm, round, length))
			switch {
			case ctx.Err() != nil:
				continue // a cut window is no sample
			case err != nil:
				b.result.Problem("%s, round %d: %v", arm.ID, round, err)
				b.progress.Line("%s, round %d: %v", arm.ID, round, err)
				continue
			}
			s.Position = position
			b.rates[arm.ID] = append(b.rates[arm.ID], s.Rate())
			b.progress.sample(b.plan, arm, s)
			if round > 0 {
				b.result.Samples = append(b.result.Samples, s)
			}
		}
		b.sayRound(round)
	}
}

func (b *bench) sayRound(round int) {
	if round == 0 {
		b.progress.Line("rehearsal done, %s", b.plan.follow())
		return
	}
	var samples []Sample
	for _, s := range b.result.Samples {
		if s.Round == round {
			samples = append(samples, s)
		}
	}
	b.progress.Line("%s  %s", b.plan.round(round), b.suite.Round(samples))
}

// finish settles what is in the background and has the suite look at everything.
func (b *bench) finish() {
	b.progress.Line("looking at everything once more")
	for _, a := range b.plan.Arms {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		if err := b.subjects[a.ID].Close(ctx); err != nil {
			b.result.Problem("%s: %v", a.ID, err)
		}
		cancel()
	}
	ctx, cancel := context.WithTimeout(context.Background(), auditTimeout)
	defer cancel()
	if err := b.agents.audit(ctx, b.suite); err != nil {
		b.result.Problem("what was done in several processes could not be looked at: %v", err)
	}
	if err := b.suite.Finish(ctx, b.result); err != nil {
		b.result.Problem("not everything could be looked at in the end: %v", err)
	}
}

// samples returns an arm's samples in the order of rounds.
func (r *Result) samples(arm string) []Sample {
	var out []Sample
	for _, s := range r.Samples {
		if s.Arm == arm {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Sample) int { return a.Round - b.Round })
	return out
}

// warmed says how the warm-up went, if there was to be one.
func (r *Result) warmed() []string {
	if len(r.Design.WarmUp) == 0 {
		return nil
	}
	return []string{r.Warmed.String()}
}

// Problem adds a reason not to quote the numbers.
func (r *Result) Problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// Note adds what a reader should know.
func (r *Result) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// A suite looks at every row in the end. readTimeout bounds a read, readTries how often it
// is repeated: it has no effect. readers work at the same time.
const (
	readTimeout = 10 * time.Second
	readPause   = 200 * time.Millisecond
	readTries   = 5
	readers     = 16
)

// Read repeats a read that failed.
func Read[T any](ctx context.Context, f func(context.Context) (T, error)) (out T, err error) {
	for range readTries {
		rctx, cancel := context.WithTimeout(ctx, readTimeout)
		out, err = f(rctx)
		cancel()
		if err == nil || clock.Go().Sleep(ctx, readPause) != nil {
			return out, err
		}
	}
	return out, err
}

// Each calls f for 0 to n-1, some at a time, until one fails.
func Each(n int, f func(i int) error) error {
	g, ctx := errgroup.WithContext(context.Background())
	g.SetLimit(readers)
	for i := 0; i < n && ctx.Err() == nil; i++ {
		g.Go(func() error { return f(i) })
	}
	return g.Wait()
}
