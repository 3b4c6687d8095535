package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fencepost/bench"
	"fencepost/bench/checkers"
	"fencepost/bench/field"
	"fencepost/bench/jobs"
	"fencepost/bench/locks"
	"fencepost/checker"
	"fencepost/harness/env/cluster"
	"fencepost/harness/env/sandbox"
	"fencepost/harness/record/progress"
	"fencepost/harness/record/rundir"
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
	// of the field; the network is there inside the sandbox
	locks   []string
	network *sandbox.Network
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
effects: the fenced sink on PostgreSQL beside plain transactions that write as much. It starts a
server of its own and needs no cluster.
field: the locks of docs/field.md, each on its store, alone and with eight clients that want one lock.
It starts all servers itself, and three Cassandra nodes for the core: about 6 GB of memory.
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
	fl.StringSliceVar(&f.locks, "locks", field.Systems(), "field: what is measured; the control copies the first")
	fl.IntSliceVar(&f.ops, "ops", checkers.DefaultSizes, "checker: numbers of operations, about, of the histories that are checked")
	hidden(fl, &f.makeHistory, strings.TrimPrefix(checkers.MakeArgs[1], "--"))
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
		if subject.servers {
			return f.amongServers(cmd, out)
		}
		return f.runAll(ctx, suites, nil, "none", out)
	}
	return onCluster(cmd, f.cluster, cluster.Plain(), f.seed, func(c cluster.Cluster, backend string) error {
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
	o := bench.Options{Suite: s.Suite, Access: cluster.AccessTo(c), Launch: launch, Dir: dir, Profile: f.profile, Progress: log}
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
