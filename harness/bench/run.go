package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"fencepost/core/store"
	"fencepost/core/store/cassandra"
)

// Options say where a plan is carried out.
type Options struct {
	Plan *Plan
	// DB names the nodes; its Keyspace is ignored.
	DB cassandra.Config
	// PIDs are the nodes' processes on this machine, if they are on it: the
	// processor time of others is told apart from theirs.
	PIDs []int
	// Out gets the live progress; nil: none.
	Out io.Writer
}

// Result is what a benchmark measured.
type Result struct {
	Plan           *Plan
	Started, Ended time.Time
	WarmUp         WarmUp
	Samples        []Sample // in the order in which they were taken
	// Violations of the locks' promises; the numbers of an unsafe lock are void.
	Violations []string
	// Problems are reasons not to quote the numbers.
	Problems []string
	// Notes are what a reader should know and nothing is wrong with.
	Notes []string
}

// limits of steps that have no load behind them.
const (
	setUpTimeout = time.Minute
	auditTimeout = time.Minute
)

type bench struct {
	plan     *Plan
	pids     []int
	db       *cassandra.DB
	locks    *cassandra.Locks
	subjects map[string]subject // by arm ID
	changes  *audit             // of bare updates
	grants   *audit             // of locks
	progress *progress
	result   *Result
}

// Run carries out a plan in a keyspace of its own, which it drops at the end.
// When ctx ends early it ends in order, and the result says so among its
// problems. An error means that there is no result.
func Run(ctx context.Context, opt Options) (res *Result, err error) {
	b := &bench{
		plan: opt.Plan, pids: opt.PIDs, subjects: map[string]subject{}, changes: newAudit(), grants: newAudit(),
		progress: newProgress(opt.Out),
		result:   &Result{Plan: opt.Plan, Started: time.Now().UTC()},
	}
	defer b.progress.clear()
	cfg := opt.DB
	cfg.Keyspace = fmt.Sprintf("fp_bench_%s_%s", b.result.Started.Format("20060102_150405"), string(b.plan.Contention))
	drop, err := b.setUp(ctx, cfg)
	defer func() { err = errors.Join(err, drop()) }()
	if err != nil {
		return nil, err
	}
	if err := b.measure(ctx); err != nil {
		return nil, err
	}
	if err := b.finish(); err != nil {
		return nil, err
	}
	b.result.Ended = time.Now().UTC()
	return b.result, b.result.judge()
}

// setUp makes the keyspace, one session for all arms, and the arms.
func (b *bench) setUp(ctx context.Context, cfg cassandra.Config) (drop func() error, err error) {
	b.progress.line("setting up keyspace %s", cfg.Keyspace)
	drop = func() error { return nil }
	setUp, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	drop = func() error {
		if b.db != nil {
			b.db.Close()
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), setUpTimeout)
		defer cancel()
		if err := cassandra.DropKeyspace(ctx, cfg); err != nil {
			return fmt.Errorf("drop keyspace %s: %w", cfg.Keyspace, err)
		}
		return nil
	}
	if err := cassandra.Migrate(setUp, cfg, cassandra.Replication{Class: "SimpleStrategy", Factor: min(3, len(cfg.ContactPoints))}); err != nil {
		return drop, fmt.Errorf("create keyspace %s: %w", cfg.Keyspace, err)
	}
	if b.db, err = cassandra.Open(setUp, cfg); err != nil {
		return drop, fmt.Errorf("connect: %w", err)
	}
	if err := b.db.Exec(setUp, plainTable); err != nil {
		return drop, fmt.Errorf("create the table for plain writes: %w", err)
	}
	b.locks = cassandra.NewLocks(b.db)
	for i, a := range b.plan.Arms {
		if b.subjects[a.ID], err = b.subject(a, uint64(i)); err != nil {
			return drop, err
		}
	}
	return drop, nil
}

func (b *bench) subject(a Arm, stream uint64) (subject, error) {
	switch a.Kind {
	case KindCAS:
		return &casSubject{meter: &meter{Locks: b.locks}, audit: b.changes, ttl: b.plan.TTLs[0]}, nil
	case KindWrite:
		return &writeSubject{db: b.db, ttl: b.plan.TTLs[0]}, nil
	}
	return newLockSubject(b.locks, a.TTL, b.grants, rand.New(rand.NewPCG(b.plan.Seed, 1<<32|stream)), nil)
}

// measure warms up and does the rounds.
func (b *bench) measure(ctx context.Context) error {
	if err := b.warmUp(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	for round, order := range b.plan.Order {
		window := b.plan.Window
		if round == 0 {
			window /= rehearsal
		}
		for position, i := range order {
			if ctx.Err() != nil {
				b.result.Problems = append(b.result.Problems, fmt.Sprintf("interrupted in round %d of %d", round, b.plan.Rounds))
				return nil
			}
			arm := b.plan.Arms[i]
			s, err := cell(ctx, b.subjects[arm.ID], arm, b.plan.Contention, round, window, b.plan.Seed, b.pids)
			switch {
			case ctx.Err() != nil:
				continue // a cut window is no sample
			case err != nil:
				return fmt.Errorf("%s, round %d: %w", arm.ID, round, err)
			}
			s.Position = position
			b.progress.sample(b.plan, arm, s)
			if round > 0 {
				b.result.Samples = append(b.result.Samples, s)
			}
		}
		b.progress.round(b.plan, round, b.result.Samples)
		if found := b.grants.found(); len(found) > 0 {
			b.progress.line("!  %s", found[0])
		}
	}
	return nil
}

// finish settles what is in the background and looks at every row.
func (b *bench) finish() error {
	b.progress.line("looking at every row once more")
	ctx, cancel := context.WithTimeout(context.Background(), auditTimeout)
	defer cancel()
	for _, a := range b.plan.Arms {
		if err := b.subjects[a.ID].close(ctx); err != nil {
			b.result.Problems = append(b.result.Problems, fmt.Sprintf("%s: %v", a.ID, err))
		}
	}
	err := errors.Join(
		b.grants.verifyRows(ctx, b.locks, func(v *store.Version) int64 { return v.Fence }),
		b.changes.verifyRows(ctx, b.locks, func(v *store.Version) int64 { return v.Beat + 1 }),
	)
	if err != nil {
		return err
	}
	b.result.Violations = append(b.grants.found(), b.changes.found()...)
	if len(b.result.Violations) == 0 {
		rows, grants := b.grants.counts()
		bare, updates := b.changes.counts()
		b.result.Notes = append(b.result.Notes, fmt.Sprintf("checked: %d grants of %d locks, every token above the one before it, no two valid leases at once, no grant lost; %d bare updates of %d rows, none lost",
			grants, rows, updates, bare))
	}
	return nil
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
