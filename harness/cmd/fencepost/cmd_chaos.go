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

	"fencepost/checker"
	"fencepost/harness/cluster"
	"fencepost/harness/rundir"
	"fencepost/harness/scenario"
	"fencepost/harness/system"
	"fencepost/reports"
)

// chaosFlags are the flags of `fencepost chaos`.
type chaosFlags struct {
	seed     uint64
	system   string
	cluster  string
	runs     string
	keep     bool
	bin      string
	paxos    string
	override scenario.Overrides
	gate     gateFlags
}

const defaultNodes = 3

func newChaosCmd() *cobra.Command {
	var f chaosFlags
	cmd := &cobra.Command{
		Use:   "chaos SCENARIO[,SCENARIO…]|all",
		Short: "Break something while workers compete for locks, and check that every promise held",
		Long: `Runs scenarios (see "fencepost list", or give the path of a .yaml file) against real
workers and a real Cassandra cluster, checks the recorded history and writes a report.
Exit code: 0 PASS, 1 FAIL, 2 a run could not be carried out, 3 INVALID, 4 UNKNOWN, 64 bad
input; the worst of several (docs/ci.md).`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError(errors.New("chaos takes one argument: a scenario, several with commas between, or all (see: fencepost list)"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("seed") {
				f.seed = rand.Uint64N(1_000_000)
			}
			return chaos(cmd, args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.Uint64Var(&f.seed, "seed", 0, "repeat the plan of this seed (default: a new one, printed)")
	fl.StringVar(&f.system, "system", system.Core, "system under test: core, lock-per-job, or broken/NAME (see: fencepost list)")
	fl.StringVar(&f.cluster, "cluster", "auto", "auto, local (three nodes in a sandbox), up (the cluster of \"fencepost up\")")
	fl.StringVar(&f.paxos, "paxos", "", "Paxos variant of the cluster: "+strings.Join(cluster.PaxosVariants(), ", ")+" (default "+cluster.PaxosV2+", or what a kept cluster has)")
	fl.StringVar(&f.runs, "runs", "runs", "directory for the runs' directories")
	fl.StringVar(&f.bin, "bin", "", "directory of the worker executables (default: the tool's own)")
	fl.BoolVar(&f.keep, "keep", false, "keep the run's keyspace in a cluster that is kept up")
	fl.StringVar(&f.override.Contention, "contention", "", "low, medium or high (default: the scenario's)")
	fl.IntVar(&f.override.Workers, "workers", 0, "number of worker processes (default: the scenario's)")
	fl.IntVar(&f.override.Clients, "clients", 0, "number of clients a worker (default: the scenario's)")
	fl.DurationVar(&f.override.TTL, "ttl", 0, "lease time (default: the scenario's)")
	f.gate.flags(fl)
	fl.DurationVar(&f.override.Duration, "duration", 0, "length of each of the phases before, fault, recover (default: the scenario's)")
	return cmd
}

// job is one run to do.
type job struct {
	plan *scenario.Plan
	sys  system.System
}

// jobs loads and checks everything before anything starts.
func (f chaosFlags) jobs(names, dir string) ([]job, error) {
	sys, err := system.Find(f.system)
	if err != nil {
		return nil, usageError(err)
	}
	if f.paxos != "" && !slices.Contains(cluster.PaxosVariants(), f.paxos) {
		return nil, usageError(fmt.Errorf("unknown Paxos variant %q; there are: %s", f.paxos, strings.Join(cluster.PaxosVariants(), ", ")))
	}
	list := strings.Split(names, ",")
	if names == "all" {
		list = scenario.Names()
	}
	var jobs []job
	for _, name := range list {
		if strings.HasSuffix(name, ".yaml") && !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		spec, err := scenario.Load(name)
		if err != nil {
			return nil, usageError(err)
		}
		if err := spec.Suits(sys); err != nil {
			if names == "all" && sys.Scheduler != "" {
				continue
			}
			return nil, usageError(err)
		}
		override := f.override
		if spec.Drill != "" && names == "all" {
			override = scenario.Overrides{} // they are meant for the others
		}
		if err := spec.Apply(override); err != nil {
			return nil, usageError(fmt.Errorf("%s: %w", spec.Name, err))
		}
		plan, err := scenario.NewPlan(*spec, f.seed, sys.Name, defaultNodes)
		if err != nil {
			return nil, usageError(err)
		}
		jobs = append(jobs, job{plan: plan, sys: sys})
	}
	return jobs, nil
}

// chaos decides where to run and runs.
func chaos(cmd *cobra.Command, names string, f chaosFlags) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	dir := workDir(ctx)
	jobs, err := f.jobs(names, dir)
	if err != nil {
		return err
	}
	f.runs = within(ctx, f.runs)
	if f.bin, err = binDir(ctx, f.bin); err != nil {
		return err
	}
	if err := f.gate.resolve(ctx, out); err != nil {
		return err
	}
	var todo []string
	for _, j := range jobs {
		todo = append(todo, j.plan.Spec.Name)
	}
	// The seed may have been drawn in this process.
	more := []string{fmt.Sprintf("--seed=%d", f.seed)}
	return f.gate.onCluster(cmd, f.cluster, f.paxos, more, todo, func(c cluster.Cluster, backend string) ([]reports.GateRun, error) {
		return f.runAll(ctx, jobs, c, backend, out)
	})
}

// binDir is where the worker executables are; "" means beside the tool.
func binDir(ctx context.Context, bin string) (string, error) {
	if bin != "" {
		return within(ctx, bin), nil
	}
	exe, err := os.Executable()
	return filepath.Dir(exe), err
}

// within makes a path that the user gave absolute.
func within(ctx context.Context, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(workDir(ctx), path)
}

// errNotRun is why a run was not carried out when the command was stopped before.
var errNotRun = errors.New("not carried out: the command was interrupted before")

// runAll does the jobs one after the other; the worst verdict decides the exit code.
// After a run that could not be carried out none follows. All jobs are told of.
func (f chaosFlags) runAll(ctx context.Context, jobs []job, c cluster.Cluster, backend string, out io.Writer) (told []reports.GateRun, err error) {
	worst := checker.Pass
	for i, j := range jobs {
		if err == nil && ctx.Err() != nil {
			err = errNotRun
		}
		if err != nil {
			told = append(told, reports.GateRun{Name: j.plan.Spec.Name, Err: errNotRun.Error()})
			continue
		}
		if len(jobs) > 1 {
			fmt.Fprintf(out, "\n[%d/%d] %s\n", i+1, len(jobs), j.plan.Spec.Name)
		}
		var run reports.GateRun
		if run, err = f.runOne(ctx, j, c, backend, out); err != nil {
			run = reports.GateRun{Name: j.plan.Spec.Name, Err: err.Error()}
		} else {
			worst = checker.Worst(worst, run.Result.Verdict)
		}
		told = append(told, run)
	}
	if err != nil && worst != checker.Fail { // a violation outweighs that not all was run
		return told, err
	}
	if err != nil {
		return told, &exitError{code: worst.ExitCode(), err: err}
	}
	return told, exitWith(worst.ExitCode())
}

// runOne runs, checks and reports one scenario.
func (f chaosFlags) runOne(ctx context.Context, j job, c cluster.Cluster, backend string, out io.Writer) (reports.GateRun, error) {
	fmt.Fprintf(out, "scenario %s, seed %d, system %s, %s\n  %s\n", j.plan.Spec.Name, j.plan.Seed, j.sys.Name, setting(j.plan.Spec, c), j.plan.Spec.About)
	dir, res, err := carryOut(ctx, scenario.Options{
		Plan: j.plan, System: j.sys, Cluster: c, Backend: backend, BinDir: f.bin,
		RunsDir: f.runs, Out: out, Command: f.command(j), Versions: versions(c), Keep: f.keep,
	})
	if err != nil {
		return reports.GateRun{}, err
	}
	return readGateRun(ctx, dir, res)
}

// carryOut runs a plan, checks and reports it. The directory is returned beside
// an error too, if there is one.
func carryOut(ctx context.Context, opt scenario.Options) (string, *checker.Result, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	dir, err := scenario.Run(ctx, opt)
	if err != nil {
		if dir != "" {
			err = fmt.Errorf("%w\n  what was recorded is in %s; fencepost check %s judges it", err, dir, dir)
		}
		return dir, nil, err
	}
	res, err := checkAndReport(ctx, exe, dir, opt.Out)
	return dir, res, err
}

// setting is what else tells one run of a scenario from another.
func setting(s scenario.Spec, c cluster.Cluster) string {
	if s.Drill != "" {
		return "Paxos " + c.Info()["paxos_variant"]
	}
	return "contention " + s.Workload.Contention
}

// checkAndReport works from the run's files alone. It goes on when ctx was
// cancelled: an interrupted run is checked too.
func checkAndReport(ctx context.Context, exe, dir string, out io.Writer) (*checker.Result, error) {
	ctx = context.WithoutCancel(ctx)
	start := time.Now()
	fmt.Fprintf(out, "checking …\n")
	res, err := checker.CheckInChild(ctx, exe, dir)
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", dir, err)
	}
	checked := time.Since(start)
	path, err := reports.WriteRun(ctx, dir)
	linkLatest(dir)
	checker.Print(out, res)
	var incomplete *reports.IncompleteError // there is a page, and it says what it lacks
	if err != nil && !errors.As(err, &incomplete) {
		return nil, fmt.Errorf("report of %s: %w", dir, err)
	}
	if incomplete != nil {
		fmt.Fprintf(out, "! %v\n", incomplete)
	}
	info, err := rundir.ReadInfo(dir)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "checked in %.1f s\nreport: %s\nrepeat: %s\n", checked.Seconds(), path, info.Command)
	return res, nil
}

// command is what repeats the run.
func (f chaosFlags) command(j job) string {
	s := fmt.Sprintf("make chaos SCENARIO=%s SEED=%d", j.plan.Spec.Name, j.plan.Seed)
	if c := j.plan.Spec.Workload.Contention; c != "" {
		s += " CONTENTION=" + c
	}
	if f.paxos != "" {
		s += " PAXOS=" + f.paxos
	}
	if j.sys.Name != system.Core {
		s += " SYSTEM=" + j.sys.Name
	}
	if f.override.Workers > 0 {
		s += fmt.Sprintf(" WORKERS=%d", f.override.Workers)
	}
	if f.override.TTL > 0 {
		s += fmt.Sprintf(" TTL=%s", f.override.TTL)
	}
	if f.override.Duration > 0 {
		s += fmt.Sprintf(" DURATION=%s", f.override.Duration)
	}
	return s
}

// linkLatest points runs/latest to dir; a convenience, so a failure is no error.
func linkLatest(dir string) {
	link := filepath.Join(filepath.Dir(dir), "latest")
	tmp := link + ".tmp"
	_ = os.Remove(tmp)
	if os.Symlink(filepath.Base(dir), tmp) == nil {
		_ = os.Rename(tmp, link)
	}
}
