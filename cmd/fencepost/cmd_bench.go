package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fencepost/bench"
	"fencepost/bench/jobs"
	"fencepost/bench/locks"
	"fencepost/checker"
	"fencepost/harness/env/cluster"
	"fencepost/harness/record/progress"
	"fencepost/harness/record/rundir"
	"fencepost/internal/choice"
	"fencepost/reports"
)

// benchFlags are the flags of `fencepost bench`.
type benchFlags struct {
	subject string
	cluster string
	rounds  int
	counted bool // rounds is what was asked for
	budget  time.Duration
	arm     time.Duration
	seed    uint64
	out     string
	profile bool
	// of locks
	system     string
	contention string
	threads    []int
	ttls       []time.Duration
	processes  string
	// of jobs
	shards     []int
	schedulers string
	chosen     bool // schedulers are given
	inFlight   int
	steady     time.Duration
	rate       float64
	// given are the flags that are not as they are by default, to repeat the benchmark by;
	// external those that lead to the same external cluster again.
	given, external string
}

func newBenchCmd() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure locks or jobs beside the bare driver, in interleaved rounds of one run",
		Long: `Measures the --subject beside bare conditional updates (the ceiling) on a warm
cluster. All arms run in every round, in random order, so that they can be compared on a
machine whose speed changes; a copy of one arm shows how large the noise is. What an
operation costs (processor time, requests, bytes) repeats where rates do not: rounds go on
until costs are known well enough, or until --budget is over.

locks: acquire and release at several numbers of threads and lease times, and plain writes;
and with the threads spread over --processes, each with a lock client of its own.
jobs: the job scheduler at several numbers of shards, with and without a fenced effect per
job, one job at a time, a scheduler that takes a lock for every job, and several processes
with a scheduler each that share the shards (--schedulers). --steady adds a load at
--rate and one at saturation, of that duration each, and measures how late and how
steadily their jobs are done; with --rounds=0 nothing else runs.

Exit code: 0; 1 if what is measured broke a promise; 3 if the numbers are not to be quoted
(the control costs 10 % more or less than its original may, or an arm did nothing); 64 bad
input. Missed
targets are printed and do not change the exit code.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError(fmt.Errorf("bench takes no argument, only flags or the command compare: %q (did you mean --contention=%s?)", args[0], args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				f.seed = rand.Uint64N(1_000_000)
			}
			if err := f.belong(cmd.Flags()); err != nil {
				return err
			}
			f.external = toolExternal(cmd.Flags(), f.cluster)
			return runBench(cmd, f)
		},
	}
	f.flags(cmd.Flags())
	cmd.AddCommand(newBenchAgentCmd(), newBenchCompareCmd(), newBenchSeriesCmd())
	return cmd
}

func (f *benchFlags) flags(fl *pflag.FlagSet) {
	jsonOutput(fl)
	fl.StringVar(&f.subject, "subject", subjectLocks, "locks or jobs")
	fl.StringVar(&f.cluster, "cluster", "auto", clusterUsage+externalUsage)
	dockerFlags(fl)
	addExternalFlags(fl)
	fl.IntVar(&f.rounds, "rounds", 0, fmt.Sprintf("exactly so many rounds, at least %d, of jobs also 0 (default: as many as --budget has room for and the intervals need)", bench.MinRounds))
	fl.DurationVar(&f.budget, "budget", bench.DefaultBudget, "how long rounds may go on until what arms cost is known well enough")
	fl.DurationVar(&f.arm, "arm", bench.DefaultWindow, "how long each arm runs in each round")
	fl.Uint64Var(&f.seed, "seed", 0, "order of arms and choice of keys (default: a new one, printed)")
	fl.StringVar(&f.out, "out", "runs", "directory for the results' directories")
	fl.BoolVar(&f.profile, "profile", false, "have each arm work once more, and write where the processor time of this process goes and what the nodes did meanwhile")
	fl.StringVar(&f.system, "system", locks.Core, "locks: "+strings.Join(locks.Systems(), ", ")+"; broken/NAME has a planted slow-down")
	fl.StringVar(&f.contention, "contention", string(locks.Medium), "locks: low (a key a thread), medium (10 keys), high (one key), or several with commas")
	fl.IntSliceVar(&f.threads, "threads", locks.DefaultThreads, "locks: numbers of concurrent clients")
	fl.DurationSliceVar(&f.ttls, "ttl", locks.DefaultTTLs, "locks: lease times; the control copies the first")
	fl.StringVar(&f.processes, "processes", locks.DefaultSpreads, "locks: numbers of processes and of threads in each, over which arms with the first lease time are spread; empty: none")
	fl.IntSliceVar(&f.shards, "shards", jobs.DefaultShards, "jobs: numbers of shards; the control, the single job and the loads over time have as many as the first")
	fl.StringVar(&f.schedulers, "schedulers", jobs.DefaultSchedulers, "jobs: numbers of processes with a scheduler each that share the first number of shards (default: those that get one each); empty: none")
	fl.IntVar(&f.inFlight, "in-flight", jobs.DefaultInFlight, "jobs: how many are enqueued and not completed at a time, for each shard")
	fl.DurationVar(&f.steady, "steady", 0, "jobs: duration of each load over time (default: none)")
	fl.Float64Var(&f.rate, "rate", jobs.DefaultRate, "jobs: jobs per second of the first load over time")
}

// subjects of a benchmark, with the flags that are theirs alone.
const (
	subjectLocks = "locks"
	subjectJobs  = "jobs"
)

var subjectFlags = map[string][]string{
	subjectLocks: {"system", "contention", "threads", "ttl", "processes"},
	subjectJobs:  {"shards", "schedulers", "in-flight", "steady", "rate"},
}

// belong refuses flags of another subject: they would change nothing.
func (f *benchFlags) belong(fl *pflag.FlagSet) error {
	for subject, names := range subjectFlags {
		for _, name := range names {
			if subject != f.subject && fl.Changed(name) {
				return usageError(fmt.Errorf("--%s is a flag of --subject=%s", name, subject))
			}
		}
	}
	f.counted, f.chosen = fl.Changed("rounds"), fl.Changed("schedulers")
	if f.counted && fl.Changed("budget") {
		return usageError(errors.New("--rounds and --budget: a budget decides how many rounds there are, so give one of them"))
	}
	if f.budget <= 0 {
		return usageError(fmt.Errorf("--budget=%s: use more than 0", f.budget))
	}
	for _, name := range slices.Concat(subjectFlags[f.subject], []string{"rounds", "budget", "arm"}) {
		// The contention is said with each suite, as each has one of those that were given.
		if x := fl.Lookup(name); name != "contention" && x.Changed {
			f.given += fmt.Sprintf(" --%s=%s", name, strings.Trim(x.Value.String(), "[]"))
		}
	}
	return nil
}

// benchSuite is a suite, and what repeats it.
type benchSuite struct {
	bench.Suite
	command string
	// config is what the suite was made from: another process makes it again.
	config suiteConfig
}

// suites checks everything before anything starts.
func (f benchFlags) suites() ([]benchSuite, error) {
	var out []benchSuite
	var err error
	switch f.subject {
	case subjectLocks:
		out, err = f.lockSuites()
	case subjectJobs:
		out, err = f.jobSuites()
	default:
		err = choice.Unknown("subject", f.subject, subjectLocks, subjectJobs)
	}
	if err != nil {
		return nil, usageError(err)
	}
	return out, nil
}

func (f benchFlags) config() bench.Config {
	c := bench.Config{Rounds: f.rounds, Window: f.arm, Seed: f.seed}
	if !f.counted {
		c.Budget = f.budget
	}
	return c
}

func (f benchFlags) lockSuites() ([]benchSuite, error) {
	levels, err := locks.ParseContentions(f.contention)
	if err != nil {
		return nil, err
	}
	variant, ok := locks.FindVariant(f.system)
	if !ok {
		return nil, choice.Unknown("system for a benchmark of locks", f.system, locks.Systems()...)
	}
	if f.counted && f.rounds == 0 {
		return nil, errors.New("no rounds: there is nothing else to measure of locks")
	}
	spreads, err := locks.ParseSpreads(f.processes)
	if err != nil {
		return nil, fmt.Errorf("--processes: %w", err)
	}
	var out []benchSuite
	for _, c := range levels {
		made := suiteConfig{Locks: &locks.Config{Config: f.config(), Contention: c, Threads: f.threads, TTLs: f.ttls, Spreads: spreads, Variant: variant}}
		s, err := made.suite()
		if err != nil {
			return nil, err
		}
		out = append(out, benchSuite{s, f.command("contention", string(c)), made})
	}
	return out, nil
}

func (f benchFlags) jobSuites() ([]benchSuite, error) {
	if f.inFlight == 0 || f.rate == 0 {
		return nil, errors.New("--in-flight and --rate must be more than 0")
	}
	schedulers, err := jobs.ParseSchedulers(f.schedulers)
	if err != nil {
		return nil, fmt.Errorf("--schedulers: %w", err)
	}
	if !f.chosen {
		schedulers = slices.DeleteFunc(schedulers, func(n int) bool { return n > f.shards[0] })
	}
	made := suiteConfig{Jobs: &jobs.Config{
		Config: f.config(), Shards: f.shards, Schedulers: schedulers, InFlight: f.inFlight, Steady: f.steady, Rate: f.rate, NoRounds: f.counted && f.rounds == 0,
	}}
	s, err := made.suite()
	if err != nil {
		return nil, err
	}
	return []benchSuite{{s, f.command("subject", subjectJobs), made}}, nil
}

// command repeats a suite.
func (f benchFlags) command(name, value string) string {
	return fmt.Sprintf("bin/fencepost bench --%s=%s --seed=%d", name, value, f.seed) + f.given
}

// runBench decides where to run and runs.
func runBench(cmd *cobra.Command, f benchFlags) error {
	ctx, out := cmd.Context(), outputOf(cmd)
	suites, err := f.suites()
	if err != nil {
		return err
	}
	f.out = within(ctx, f.out)
	return onCluster(cmd, f.cluster, "", cluster.Plain(), f.seed, func(c cluster.Cluster, backend string) error {
		return f.runAll(ctx, suites, c, backend, out)
	})
}

// runAll measures one suite after the other; the worst result decides the exit code.
func (f benchFlags) runAll(ctx context.Context, suites []benchSuite, c cluster.Cluster, backend string, out *output) error {
	worst := bench.ExitOK
	for _, s := range suites {
		if ctx.Err() != nil {
			break
		}
		code, err := f.runOne(ctx, s, c, backend, out)
		if err != nil {
			return err
		}
		switch {
		case code == bench.ExitViolation, worst == bench.ExitOK:
			worst = code
		}
	}
	return exitWith(worst)
}

// runOne measures a suite and writes the report.
func (f benchFlags) runOne(ctx context.Context, s benchSuite, c cluster.Cluster, backend string, out *output) (code int, err error) {
	var pids []int
	for _, n := range c.Nodes() {
		if n.PID() != 0 {
			pids = append(pids, n.PID())
		}
	}
	machine := rundir.Machine()
	d, rounds := s.Design(), ""
	p := d.Plan
	switch {
	case len(p.Arms) > 0 && p.Budget > 0:
		rounds = fmt.Sprintf("%d arms in rounds of %s each, ", len(p.Arms), p.Window)
	case len(p.Arms) > 0:
		rounds = fmt.Sprintf("%d arms in %d rounds of %s each, ", len(p.Arms), p.Rounds, p.Window)
	}
	about := "about"
	if p.Budget > 0 {
		about = "at most about"
	}
	dir, err := benchDir(f.out, d.Name)
	if err != nil {
		return 0, err
	}
	launch, err := launchOf(s, c, dir)
	if err != nil {
		return 0, err
	}
	log := progress.New(out.show)
	defer func() { err = errors.Join(ended(log, err), log.Close()) }()
	if err := log.Begin(filepath.Join(dir, rundir.ProgressFile), progress.Run{
		Name: filepath.Base(dir), Bench: d.Name, Seed: p.Seed, Backend: backend, Dir: dir, Command: s.command,
		About: fmt.Sprintf("%s: %sseed %d; %s %s, after a warm-up of up to %s", d.Setting, rounds, p.Seed, about, d.Estimate.Round(10*time.Second), bench.WarmUpLimit),
	}); err != nil {
		return 0, err
	}
	opt := bench.Options{Suite: s.Suite, Access: cluster.AccessTo(c), PIDs: pids, Launch: launch, Progress: log}
	if f.profile {
		opt.Profiles = filepath.Join(dir, bench.ProfileDir)
	}
	res, err := bench.Run(ctx, opt)
	if res == nil {
		return 0, err
	}
	problem := err // the result is there, the keyspace may be left
	report, err := res.Report(bench.About{
		Name: filepath.Base(dir), Cluster: backend, Command: s.command + f.external, Versions: versions(c), Machine: machine,
	})
	if err != nil {
		return 0, err
	}
	if err := errors.Join(res.WriteRounds(dir), res.WriteHDRLog(dir), reports.WriteBench(dir, report)); err != nil {
		return 0, fmt.Errorf("report in %s: %w", dir, err)
	}
	page := filepath.Join(dir, reports.BenchPage)
	log.Emit(progress.Event{Kind: progress.KindVerdict, Verdict: &progress.Verdict{Verdict: benchVerdict(res.ExitCode()), Report: page}})
	if out.text != nil {
		if err := bench.Print(out, res, report); err != nil {
			return 0, err
		}
		fmt.Fprintf(out, "report: %s\nrepeat: %s\n", page, report.Command)
	}
	return res.ExitCode(), problem
}

// benchVerdict is the verdict that a benchmark's exit code stands for.
func benchVerdict(code int) string {
	switch code {
	case bench.ExitOK:
		return string(checker.Pass)
	case bench.ExitViolation:
		return string(checker.Fail)
	}
	return string(checker.Invalid)
}

// benchDir makes the result's directory.
func benchDir(runs, name string) (string, error) {
	if err := os.MkdirAll(runs, 0o755); err != nil {
		return "", fmt.Errorf("result directory: %w", err)
	}
	base := filepath.Join(runs, fmt.Sprintf("%s-bench-%s", time.Now().UTC().Format("20060102-150405"), name))
	dir := base
	for n := 2; ; n++ {
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, os.ErrExist) || n > 100 {
			return "", fmt.Errorf("result directory: %w", err)
		}
		dir = fmt.Sprintf("%s-%d", base, n)
	}
}
