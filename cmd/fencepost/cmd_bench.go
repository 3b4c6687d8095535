package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fencepost/bench"
	"fencepost/bench/checkers"
	"fencepost/bench/jobs"
	"fencepost/bench/locks"
	"fencepost/bench/recorder"
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
	// of locks and the recorder
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
	// of the checker
	ops []int
	// makeHistory makes a process that makes a history for the checker.
	makeHistory bool
	// given are the flags that are not as they are by default, to repeat the benchmark by;
	// external those that lead to the same external cluster again.
	given, external string
}

func newBenchCmd() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure locks, jobs, or the harness itself, in interleaved rounds of one run",
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
recorder: what a run's recorder and its proxies cost locks: the same lock cycles as they are,
recorded, through proxies, and both.
checker: how long fencepost check takes for histories of several sizes (--ops), and how much
memory. It needs no cluster.

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
			if f.makeHistory {
				checkers.Main() // exits
			}
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
	fl.StringVar(&f.subject, "subject", subjectLocks, strings.Join(subjectNames(), ", "))
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
	fl.StringVar(&f.contention, "contention", string(locks.Medium), "locks, recorder: low (a key a thread), medium (10 keys), high (one key), or several with commas")
	fl.IntSliceVar(&f.threads, "threads", locks.DefaultThreads, "locks, recorder: numbers of concurrent clients")
	fl.DurationSliceVar(&f.ttls, "ttl", locks.DefaultTTLs, "locks: lease times; the control copies the first")
	fl.StringVar(&f.processes, "processes", locks.DefaultSpreads, "locks: numbers of processes and of threads in each, over which arms with the first lease time are spread; empty: none")
	fl.IntSliceVar(&f.shards, "shards", jobs.DefaultShards, "jobs: numbers of shards; the control, the single job and the loads over time have as many as the first")
	fl.StringVar(&f.schedulers, "schedulers", jobs.DefaultSchedulers, "jobs: numbers of processes with a scheduler each that share the first number of shards (default: those that get one each); empty: none")
	fl.IntVar(&f.inFlight, "in-flight", jobs.DefaultInFlight, "jobs: how many are enqueued and not completed at a time, for each shard")
	fl.DurationVar(&f.steady, "steady", 0, "jobs: duration of each load over time (default: none)")
	fl.Float64Var(&f.rate, "rate", jobs.DefaultRate, "jobs: jobs per second of the first load over time")
	fl.IntSliceVar(&f.ops, "ops", checkers.DefaultSizes, "checker: numbers of operations, about, of the histories that are checked")
	hidden(fl, &f.makeHistory, strings.TrimPrefix(checkers.MakeArgs[1], "--"))
}

// subjects of a benchmark.
const (
	subjectLocks    = "locks"
	subjectJobs     = "jobs"
	subjectRecorder = "recorder"
	subjectChecker  = "checker"
)

// benchSubject is something to measure.
type benchSubject struct {
	name string
	// flags are those that mean something to it and not to all others.
	flags []string
	// suites checks everything before anything starts.
	suites func(benchFlags) ([]benchSuite, error)
	// alone: it needs no cluster, and its arms no time.
	alone bool
}

func benchSubjects() []benchSubject {
	return []benchSubject{
		{name: subjectLocks, flags: []string{"system", "contention", "threads", "ttl", "processes"}, suites: benchFlags.lockSuites},
		{name: subjectJobs, flags: []string{"shards", "schedulers", "in-flight", "steady", "rate"}, suites: benchFlags.jobSuites},
		{name: subjectRecorder, flags: []string{"contention", "threads"}, suites: benchFlags.recorderSuites},
		{name: subjectChecker, flags: []string{"ops"}, suites: benchFlags.checkerSuites, alone: true},
	}
}

func subjectNames() (names []string) {
	for _, s := range benchSubjects() {
		names = append(names, s.name)
	}
	return names
}

// of finds the subject.
func (f *benchFlags) of() (benchSubject, error) {
	for _, s := range benchSubjects() {
		if s.name == f.subject {
			return s, nil
		}
	}
	return benchSubject{}, usageError(choice.Unknown("subject", f.subject, subjectNames()...))
}

// belong refuses flags of other subjects: they would change nothing.
func (f *benchFlags) belong(fl *pflag.FlagSet) error {
	subject, err := f.of()
	if err != nil {
		return err
	}
	owners := map[string][]string{}
	for _, s := range benchSubjects() {
		for _, name := range s.flags {
			owners[name] = append(owners[name], s.name)
		}
		for _, name := range []string{"cluster", "image", "arm"} {
			if !s.alone {
				owners[name] = append(owners[name], s.name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		if fl.Changed(name) && !slices.Contains(owners[name], subject.name) {
			return usageError(fmt.Errorf("--%s is a flag of --subject=%s", name, strings.Join(owners[name], ", --subject=")))
		}
	}
	f.counted, f.chosen = fl.Changed("rounds"), fl.Changed("schedulers")
	if f.counted && fl.Changed("budget") {
		return usageError(errors.New("--rounds and --budget: a budget decides how many rounds there are, so give one of them"))
	}
	if f.budget <= 0 {
		return usageError(fmt.Errorf("--budget=%s: use more than 0", f.budget))
	}
	for _, name := range slices.Concat(subject.flags, []string{"rounds", "budget", "arm"}) {
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
	// config is what a suite with arms in several processes was made from: they make it again.
	config suiteConfig
}

// suites are those of the subject.
func (f benchFlags) suites() ([]benchSuite, error) {
	subject, err := f.of()
	if err != nil {
		return nil, err
	}
	out, err := subject.suites(f)
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

func (f benchFlags) recorderSuites() ([]benchSuite, error) {
	levels, err := locks.ParseContentions(f.contention)
	if err != nil {
		return nil, err
	}
	if f.counted && f.rounds == 0 {
		return nil, errors.New("no rounds: there is nothing else to measure of the recorder")
	}
	var out []benchSuite
	for _, c := range levels {
		s, err := recorder.New(recorder.Config{Config: f.config(), Contention: c, Threads: f.threads})
		if err != nil {
			return nil, err
		}
		out = append(out, benchSuite{Suite: s, command: f.command("subject", subjectRecorder+" --contention="+string(c))})
	}
	return out, nil
}

func (f benchFlags) checkerSuites() ([]benchSuite, error) {
	if f.counted && f.rounds == 0 {
		return nil, errors.New("no rounds: there is nothing else to measure of the checker")
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s, err := checkers.New(checkers.Config{Config: f.config(), Sizes: f.ops, Exe: exe})
	if err != nil {
		return nil, err
	}
	return []benchSuite{{Suite: s, command: f.command("subject", subjectChecker)}}, nil
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
	subject, err := f.of()
	if err != nil {
		return err
	}
	if subject.alone {
		if err := noExternalFlags(cmd, subject.name); err != nil {
			return err
		}
		return f.runAll(ctx, suites, nil, "none", out)
	}
	return onCluster(cmd, f.cluster, "", cluster.Plain(), f.seed, func(c cluster.Cluster, backend string) error {
		return f.runAll(ctx, suites, c, backend, out)
	})
}

// runAll measures one suite after the other, on c unless it is nil; the worst result decides the exit code.
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
	machine := rundir.Machine()
	d, rounds := s.Design(), ""
	p := d.Plan
	switch {
	case len(p.Arms) > 0 && p.Budget > 0:
		rounds = fmt.Sprintf("%d arms in rounds of %s each, ", len(p.Arms), d.EachTurn())
	case len(p.Arms) > 0:
		rounds = fmt.Sprintf("%d arms in %d rounds of %s each, ", len(p.Arms), p.Rounds, d.EachTurn())
	}
	warmUp := ""
	if len(d.WarmUp) > 0 {
		warmUp = fmt.Sprintf(", after a warm-up of up to %s", bench.WarmUpLimit)
	}
	about := "about"
	if p.Budget > 0 {
		about = "at most about"
	}
	dir, err := benchDir(f.out, d.Name)
	if err != nil {
		return 0, err
	}
	log := progress.New(out.show)
	defer func() { err = errors.Join(ended(log, err), log.Close()) }()
	if err := log.Begin(filepath.Join(dir, rundir.ProgressFile), progress.Run{
		Name: filepath.Base(dir), Bench: d.Name, Seed: p.Seed, Backend: backend, Dir: dir, Command: s.command,
		About: fmt.Sprintf("%s: %sseed %d; %s %s%s", d.Setting, rounds, p.Seed, about, d.Estimate.Round(10*time.Second), warmUp),
	}); err != nil {
		return 0, err
	}
	res, err := f.measure(ctx, s, c, dir, log)
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

// measure measures a suite on a cluster, or alone if it is nil.
func (f benchFlags) measure(ctx context.Context, s benchSuite, c cluster.Cluster, dir string, log *progress.Log) (*bench.Result, error) {
	if c == nil {
		return bench.Measure(ctx, s.Suite, &bench.Env{Seed: s.Design().Plan.Seed, Dir: dir}, bench.NewProgress(log))
	}
	launch, err := launchOf(s, c, dir)
	if err != nil {
		return nil, err
	}
	o := bench.Options{Suite: s.Suite, Access: cluster.AccessTo(c), Launch: launch, Dir: dir, Progress: log}
	if f.profile {
		o.Profiles = filepath.Join(dir, bench.ProfileDir)
	}
	for _, n := range c.Nodes() {
		o.Addrs = append(o.Addrs, bench.NodeAddr{Name: n.Name(), IP: n.IP(), Addr: cluster.AddrOf(c, n)})
		if n.PID() != 0 {
			o.PIDs = append(o.PIDs, n.PID())
		}
	}
	return bench.Run(ctx, o)
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
