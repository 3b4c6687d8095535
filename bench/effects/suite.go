package effects

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/bench"
	postgressink "fencepost/core/sink/postgres"
	"fencepost/harness/env/postgres"
	"fencepost/reports"
)

// DefaultThreads are the numbers of threads.
var DefaultThreads = []int{4, 16, 1}

// mostThreads bounds them, as each is a connection.
const mostThreads = 40

// Config is what to measure.
type Config struct {
	bench.Config
	// Threads are how many effects are under way at a time, in an arm each; default DefaultThreads. The
	// control copies the first.
	Threads []int
}

// The kinds of arms.
const (
	kindEffect = "effect"
	kindPlain  = "transaction"
)

// Suite measures effects.
type Suite struct {
	Config
	plan   *bench.Plan
	server *postgres.Server
	arms   map[string]*arm
}

var _ bench.Suite = (*Suite)(nil)

// New lays out the arms.
func New(c Config) (*Suite, error) {
	if len(c.Threads) == 0 {
		c.Threads = DefaultThreads
	}
	c.Threads = slices.Clone(c.Threads)
	var groups [][]bench.Arm
	for i, n := range c.Threads {
		if n < 1 || n > mostThreads {
			return nil, fmt.Errorf("%d threads: use 1 to %d", n, mostThreads)
		}
		if slices.Contains(c.Threads[:i], n) {
			return nil, fmt.Errorf("%d threads are named twice", n)
		}
		plain := bench.Arm{ID: fmt.Sprintf("T/%d", n), Kind: kindPlain, Letter: "T", Name: "plain transaction", Threads: n}
		fenced := bench.Arm{ID: fmt.Sprintf("E/%d", n), Kind: kindEffect, Letter: "E", Name: "fenced effect", Threads: n, Baseline: plain.ID}
		group := []bench.Arm{fenced, plain}
		if i == 0 {
			control := fenced
			control.ID, control.Letter, control.Control = fmt.Sprintf("E2/%d", n), "E2", fenced.ID
			group = append(group, control)
		}
		groups = append(groups, group)
	}
	plan, err := bench.NewPlan(c.Config, groups)
	if err != nil {
		return nil, err
	}
	c.Config = plan.Config
	return &Suite{Config: c, plan: plan, arms: map[string]*arm{}}, nil
}

// Design implements bench.Suite.
func (s *Suite) Design() bench.Design {
	return bench.Design{
		Name: "effects", Setting: "effects (PostgreSQL)", Plan: s.plan, Estimate: s.plan.Estimate(100 * time.Millisecond),
		Targets: s.targets,
		Legend: []string{
			"fenced effect: Accept of the sink on PostgreSQL, with a new idempotency key each time; each thread has a resource of its own; the baseline is the plain transaction with as many threads",
			"plain transaction: it updates one row and inserts two, as large as those of an effect, and reads nothing: no token is compared",
			"the server is one process tree of this machine with the settings of runs with SINK=postgres; both wait for it to write to disk",
		},
	}
}

// Open implements bench.Suite: it starts the server.
func (s *Suite) Open(ctx context.Context, env *bench.Env) (err error) {
	if s.server, err = postgres.Start(ctx, postgres.Options{Log: filepath.Join(env.Dir, "postgres.log")}); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	for n, of := range s.plan.Arms {
		x, err := s.newArm(ctx, fmt.Sprintf("arm%d", n), of)
		if err != nil {
			return fmt.Errorf("%s: %w", of.ID, err)
		}
		s.arms[of.ID] = x
	}
	env.PIDs, err = bench.Tree(s.server.PID())
	return err
}

// newArm makes an arm with its tables and opens all its connections.
func (s *Suite) newArm(ctx context.Context, schema string, of bench.Arm) (*arm, error) {
	cfg, err := pgxpool.ParseConfig(postgres.ConnString(s.server.Address, s.server.Secret))
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.RuntimeParams["search_path"] = schema
	cfg.MaxConns = int32(of.Threads)
	cfg.MaxConnLifetime, cfg.MaxConnIdleTime = 24*time.Hour, 24*time.Hour // the tree of its processes has them all
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	x := &arm{pool: pool, of: of, done: make([]count, of.Threads)}
	if of.Kind == kindEffect {
		x.sink = postgressink.New(pool, postgressink.Options{})
	}
	if err := x.prepare(ctx, schema); err != nil {
		pool.Close()
		return nil, err
	}
	return x, nil
}

// stop ends the server.
func (s *Suite) stop() error {
	for _, x := range s.arms {
		x.pool.Close()
	}
	return s.server.Close()
}

// Subject implements bench.Suite.
func (s *Suite) Subject(a bench.Arm, _ uint64) (bench.Subject, error) { return s.arms[a.ID], nil }

// Finish implements bench.Suite: it counts what the database has, and stops the server.
func (s *Suite) Finish(ctx context.Context, r *bench.Result) error {
	var total int64
	for _, of := range s.plan.Arms {
		x := s.arms[of.ID]
		wrong, n, err := x.audit(ctx)
		if err != nil {
			return errors.Join(fmt.Errorf("audit of %s: %w", x.of.ID, err), s.stop())
		}
		total += n
		r.Violations = append(r.Violations, wrong...)
	}
	r.Note("PostgreSQL %s; %d rows of effects and transactions were counted in the end", s.server.Program.Version, total)
	return s.stop()
}

// Round implements bench.Suite.
func (s *Suite) Round(samples []bench.Sample) string { return s.plan.Rates(samples, "/s") }

// Headlines implements bench.Suite.
func (s *Suite) Headlines(r *bench.Result) (out []string) {
	for _, a := range s.plan.Arms {
		if a.Baseline == "" || a.Control != "" {
			continue
		}
		who := fmt.Sprintf(", %d %s", a.Threads, bench.Plural(a.Threads, "thread", "threads"))
		out = append(out, fmt.Sprintf("%s, %s times those of plain transactions", r.Headline(a, who), bench.Factor(r.Ratio(a.ID, a.Baseline, bench.Sample.Rate))))
	}
	return out
}

// leastOfPlain is the least part of the rate of plain transactions that effects are meant to reach.
const leastOfPlain = 0.9

func (s *Suite) targets(r *bench.Result) ([]bench.Target, error) {
	numbers, err := r.Numbers()
	if err != nil {
		return nil, err
	}
	var out []bench.Target
	for i, n := range numbers {
		a := s.plan.Arms[i]
		if a.Baseline == "" || a.Control != "" {
			continue
		}
		plain := numbers[slices.IndexFunc(numbers, func(n reports.ArmNumbers) bool { return n.Arm.ID == a.Baseline })]
		who := fmt.Sprintf("%d %s", a.Threads, bench.Plural(a.Threads, "thread", "threads"))
		out = append(out, bench.AtLeast("effects/s by plain transactions/s, "+who, n.ToBaseline.Estimate, leastOfPlain),
			bench.AtMost("processor time for an effect by that for a plain transaction, "+who, n.CostRatio(reports.CostCPU, plain), 1/leastOfPlain))
	}
	return out, nil
}
