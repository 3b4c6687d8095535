package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fencepost/core/store/cassandra"
	"fencepost/harness/bench"
	"fencepost/harness/cluster"
	"fencepost/harness/rundir"
	"fencepost/reports"
)

// benchFlags are the flags of `fencepost bench`.
type benchFlags struct {
	contention string
	cluster    string
	threads    []int
	ttls       []time.Duration
	rounds     int
	arm        time.Duration
	seed       uint64
	out        string
}

func newBenchCmd() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure locks beside the bare driver, in interleaved rounds of one run",
		Long: `Measures acquire and release of a lock at several numbers of threads and lease times,
beside bare conditional updates (the ceiling) and plain writes, on a warm cluster. All
arms run in every round, in random order, so that they can be compared on a machine
whose speed changes; a copy of the lock arm shows how large the noise is.
Exit code: 0; 1 if a lock broke a promise; 3 if the numbers are not to be quoted
(the control differs from its original, or an arm did nothing); 64 bad input.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError(fmt.Errorf("bench takes no argument, only flags: %q (did you mean --contention=%s?)", args[0], args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				f.seed = rand.Uint64N(1_000_000)
			}
			return runBench(cmd, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.contention, "contention", string(bench.Medium), "low (a key a thread), medium (10 keys), high (one key), or several with commas")
	fl.StringVar(&f.cluster, "cluster", "auto", "auto, local (three nodes in a sandbox), up (the cluster of \"fencepost up\")")
	fl.IntSliceVar(&f.threads, "threads", bench.DefaultThreads, "numbers of concurrent clients")
	fl.DurationSliceVar(&f.ttls, "ttl", bench.DefaultTTLs, "lease times; the control copies the first")
	fl.IntVar(&f.rounds, "rounds", bench.DefaultRounds, fmt.Sprintf("number of rounds, at least %d", bench.MinRounds))
	fl.DurationVar(&f.arm, "arm", bench.DefaultWindow, "how long each arm runs in each round")
	fl.Uint64Var(&f.seed, "seed", 0, "order of arms and choice of keys (default: a new one, printed)")
	fl.StringVar(&f.out, "out", "runs", "directory for the results' directories")
	return cmd
}

// plans checks everything before anything starts.
func (f benchFlags) plans() ([]*bench.Plan, error) {
	levels, err := bench.ParseContentions(f.contention)
	if err != nil {
		return nil, usageError(err)
	}
	var plans []*bench.Plan
	for _, c := range levels {
		p, err := bench.NewPlan(bench.Config{Contention: c, Threads: f.threads, TTLs: f.ttls, Rounds: f.rounds, Window: f.arm, Seed: f.seed})
		if err != nil {
			return nil, usageError(err)
		}
		plans = append(plans, p)
	}
	return plans, nil
}

// runBench decides where to run and runs.
func runBench(cmd *cobra.Command, f benchFlags) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	plans, err := f.plans()
	if err != nil {
		return err
	}
	if !filepath.IsAbs(f.out) {
		f.out = filepath.Join(workDir(ctx), f.out)
	}
	return onCluster(cmd, f.cluster, "", f.seed, func(c cluster.Cluster, backend string) error {
		return f.runAll(ctx, plans, c, backend, out)
	})
}

// runAll measures one level of contention after the other; the worst result
// decides the exit code.
func (f benchFlags) runAll(ctx context.Context, plans []*bench.Plan, c cluster.Cluster, backend string, out io.Writer) error {
	worst := bench.ExitOK
	for _, p := range plans {
		if ctx.Err() != nil {
			break
		}
		code, err := f.runOne(ctx, p, c, backend, out)
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

// runOne measures one level of contention and writes the report.
func (f benchFlags) runOne(ctx context.Context, p *bench.Plan, c cluster.Cluster, backend string, out io.Writer) (code int, err error) {
	var ips []string
	var pids []int
	for _, n := range c.Nodes() {
		ips, pids = append(ips, n.IP()), append(pids, n.PID())
	}
	machine := rundir.Machine()
	fmt.Fprintf(out, "contention %s: %d arms in %d rounds of %s each, seed %d; about %s, after a warm-up of up to a minute\n",
		p.Contention, len(p.Arms), p.Rounds, p.Window, p.Seed, p.Estimate().Round(10*time.Second))
	res, err := bench.Run(ctx, bench.Options{Plan: p, DB: cassandra.Config{ContactPoints: ips, Port: c.CQLPort()}, PIDs: pids, Out: out})
	if res == nil {
		return 0, err
	}
	problem := err // the result is there, the keyspace may be left
	dir, err := benchDir(f.out, p.Contention)
	if err != nil {
		return 0, err
	}
	report, err := res.Report(bench.About{
		Name: filepath.Base(dir), Cluster: backend, Command: f.command(p), Versions: versions(c), Machine: machine,
	})
	if err != nil {
		return 0, err
	}
	if err := errors.Join(res.WriteRounds(dir), reports.WriteBench(dir, report)); err != nil {
		return 0, fmt.Errorf("report in %s: %w", dir, err)
	}
	if err := bench.Print(out, res); err != nil {
		return 0, err
	}
	fmt.Fprintf(out, "report: %s\nrepeat: %s\n", filepath.Join(dir, reports.BenchPage), report.Command)
	return res.ExitCode(), problem
}

// command is what repeats the measurement.
func (f benchFlags) command(p *bench.Plan) string {
	s := fmt.Sprintf("bin/fencepost bench --contention=%s --seed=%d", string(p.Contention), p.Seed)
	if !slices.Equal(p.Threads, bench.DefaultThreads) {
		s += " --threads=" + list(p.Threads)
	}
	if !slices.Equal(p.TTLs, bench.DefaultTTLs) {
		s += " --ttl=" + list(p.TTLs)
	}
	if p.Rounds != bench.DefaultRounds {
		s += fmt.Sprintf(" --rounds=%d", p.Rounds)
	}
	if p.Window != bench.DefaultWindow {
		s += fmt.Sprintf(" --arm=%s", p.Window)
	}
	return s
}

func list[T any](values []T) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprint(v)
	}
	return strings.Join(words, ",")
}

// benchDir makes the result's directory.
func benchDir(runs string, c bench.Contention) (string, error) {
	if err := os.MkdirAll(runs, 0o755); err != nil {
		return "", fmt.Errorf("result directory: %w", err)
	}
	base := filepath.Join(runs, fmt.Sprintf("%s-bench-%s", time.Now().UTC().Format("20060102-150405"), string(c)))
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
