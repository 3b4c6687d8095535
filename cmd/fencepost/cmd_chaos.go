package main

import (
	"cmp"
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
	"fencepost/harness/env/cluster"
	"fencepost/harness/env/cluster/servers"
	"fencepost/harness/plan"
	"fencepost/harness/record/progress"
	"fencepost/harness/record/rundir"
	"fencepost/harness/record/verdict"
	"fencepost/harness/run"
	"fencepost/harness/scenario"
	"fencepost/harness/target/own"
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system"
	"fencepost/reports"
)

// chaosFlags are the flags of `fencepost chaos`.
type chaosFlags struct {
	place
	seed     uint64
	system   string
	workload string
	keep     bool
	nodes    nodeChoice
	override scenario.Overrides
	gate     gateFlags
	// repeat is what make needs beside all this to go to the same external cluster.
	repeat string
}

// sinkUsage is the help of --sink, of whatever command has it.
var sinkUsage = "what takes the effects: " + strings.Join(sinks.Names(), ", ") + " (default: the scenario's, or the system's own, " + sinks.Names()[0] + ")"

func newChaosCmd() *cobra.Command {
	var f chaosFlags
	cmd := &cobra.Command{
		Use:   "chaos SCENARIO[,SCENARIO…]|all",
		Short: "Break something while workers compete for locks, and check that every promise held",
		Long: `Runs scenarios (see "fencepost list", or give the path of a .yaml file) against real
workers and a real Cassandra cluster, checks the recorded history and writes a report.
Exit code: 0 PASS, 1 FAIL, 2 a run could not be carried out, 3 INVALID, 4 UNKNOWN, 64 bad
input; the worst of several (docs/ci.md).`,
		Args: oneArg("chaos takes one argument: a scenario, several with commas between, or all (see: fencepost list)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("seed") {
				f.seed = rand.Uint64N(1_000_000)
			}
			f.repeat = makeExternal(cmd.Flags(), f.cluster)
			return chaos(cmd, args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.Uint64Var(&f.seed, "seed", 0, "repeat the plan of this seed (default: a new one, printed)")
	fl.StringVar(&f.system, "system", system.Core, "system under test: core, lock-per-job, broken/NAME (see: fencepost list), or exec:CMD, a program of your own (docs/own-system.md)")
	f.flags(fl, clusterUsage+externalUsage, "runs")
	addExternalFlags(fl)
	f.nodes.flags(fl)
	fl.StringVar(&f.nodes.store, "store", "", "where the system keeps its locks: "+servers.Cassandra+", "+strings.Join(servers.Names(), ", ")+" (default: the system's own, "+servers.Cassandra+")")
	fl.BoolVar(&f.keep, "keep", false, "keep the run's keyspace in a cluster that is kept up, or external")
	fl.StringVar(&f.override.Contention, "contention", "", "low, medium or high (default: the scenario's)")
	fl.IntVar(&f.override.Workers, "workers", 0, "number of worker processes (default: the scenario's)")
	fl.IntVar(&f.override.Clients, "clients", 0, "number of clients a worker (default: the scenario's)")
	fl.DurationVar(&f.override.TTL, "ttl", 0, "lease time (default: the scenario's)")
	fl.StringVar(&f.override.Sink, "sink", "", sinkUsage)
	fl.StringVar(&f.workload, "workload", "", "set of workload parameters (see: fencepost list), or "+scenario.Plain+" for those in the scenario's file (default: drawn from the seed among those that the scenario names)")
	f.gate.flags(fl)
	fl.DurationVar(&f.override.Duration, "duration", 0, "length of each of the phases before, fault, recover (default: the scenario's)")
	return cmd
}

// job is one run to do.
type job struct {
	given string // the scenario as it was asked for: a name, or a path
	plan  *plan.Plan
	sys   system.System
	sets  bool // the scenario has sets of workload parameters
}

func (j job) layout() cluster.Layout { return j.plan.Spec.Layout() }

func (j job) name() string { return j.plan.Spec.Name }

// scenarioIn is a scenario as it is loaded: a file's path is relative to dir.
func scenarioIn(dir, given string) string {
	if strings.HasSuffix(given, ".yaml") {
		return relativeTo(dir, given)
	}
	return given
}

// jobs loads and checks everything before anything starts.
func (f chaosFlags) jobs(names, dir string) ([]job, error) {
	sys, err := system.Find(f.system)
	if err != nil {
		return nil, usageError(err)
	}
	if err := f.nodes.check(); err != nil {
		return nil, err
	}
	list := strings.Split(names, ",")
	if names == "all" {
		list = tests()
	}
	if sys.Design() == system.Exec && sys.Binary == "" {
		if err := (own.Program{Words: sys.Command, Dir: dir}).Look(); err != nil {
			return nil, usageError(err)
		}
	}
	var jobs []job
	var left error
	for _, given := range list {
		spec, err := scenario.Load(scenarioIn(dir, given))
		if err != nil {
			return nil, usageError(err)
		}
		override, set := f.override, f.workload
		override.Store, override.Redelivery = cmp.Or(f.nodes.store, sys.Store), sys.Redelivery
		if names == "all" {
			override, set = override.For(spec.Kind()), setFor(spec, set) // the rest is meant for the others
		}
		if spec, err = plan.Choose(spec, f.seed, set, sys); err != nil {
			return nil, usageError(err)
		}
		if err := spec.Apply(override); err != nil {
			err = fmt.Errorf("%s: %w", spec.Name, err)
			if names == "all" && override.Store != "" {
				left = err
				continue
			}
			return nil, usageError(err)
		}
		if err := plan.Suits(spec, sys); err != nil {
			if names == "all" && (sys.Design() != system.Core || override.Sink != "" || !plan.OnCore(spec)) {
				left = err
				continue
			}
			return nil, usageError(err)
		}
		drawn, err := plan.New(*spec, f.seed, sys.Name)
		if err != nil {
			return nil, usageError(err)
		}
		jobs = append(jobs, job{given: given, plan: drawn, sys: sys, sets: len(spec.Workloads) > 0})
	}
	if names == "all" {
		jobs = inOrder(jobs, job.layout)
	}
	if len(jobs) == 0 { // all of them
		return nil, usageError(left)
	}
	return jobs, nil
}

// tests are the scenarios that test a system.
func tests() []string {
	return slices.DeleteFunc(scenario.Names(), func(name string) bool {
		s, err := scenario.Load(name)
		return err == nil && s.Kind().Shows // of one that cannot be loaded its own error comes
	})
}

// setFor is the set of workload parameters that is asked for, "" if it is one of another kind.
func setFor(s *scenario.Spec, name string) string {
	if set, err := scenario.FindSet(name); err == nil && set.Kind != s.Kind().Name {
		return ""
	}
	return name
}

// chaos decides where to run and runs.
func chaos(cmd *cobra.Command, names string, f chaosFlags) (err error) {
	ctx, out := cmd.Context(), outputOf(cmd)
	dir := workDir(ctx)
	jobs, err := f.jobs(names, dir)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if a, b := jobs[0].plan.Spec.Cluster.Store, j.plan.Spec.Cluster.Store; a != b {
			return usageError(fmt.Errorf("%s and %s are on different stores: run them one after the other", jobs[0].name(), j.name()))
		}
	}
	f.nodes.store = jobs[0].plan.Spec.Cluster.Store
	f.nodes.clocks = slices.ContainsFunc(jobs, func(j job) bool { return j.plan.SetsServerClocks() })
	if err := f.nodes.check(); err != nil {
		return err
	}
	if f.cluster == clusterExternal {
		if jobs, err = withoutControl(jobs, names == "all", out); err != nil {
			return err
		}
	}
	if err := f.resolve(ctx); err != nil {
		return err
	}
	if err := builtHere(jobs[0].sys, f.bin); err != nil {
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
	before := latestRun(f.runs)
	defer func() { forgetLatest(f.runs, before, err) }()
	return f.gate.onSite(cmd, f.cluster, f.nodes, needed(jobs, job.layout), more, todo, func(s *site) ([]reports.GateRun, error) {
		jobs, err := possible(s, jobs, job.layout, job.name, names != "all", out)
		if err != nil {
			return nil, err
		}
		return f.runAll(ctx, jobs, s, out)
	})
}

// errNotRun is why a run was not carried out when the command was stopped before.
var errNotRun = errors.New("not carried out: the command was interrupted before")

// runAll does the jobs one after the other; the worst verdict decides the exit code.
// After a run that could not be carried out none follows. All jobs are reported.
func (f chaosFlags) runAll(ctx context.Context, jobs []job, s *site, out *output) (told []reports.GateRun, err error) {
	worst := checker.Pass
	defer func() { sayRepeated(out, told) }()
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
		if run, err = f.runOne(ctx, j, s, out); err != nil {
			run = reports.GateRun{Name: j.plan.Spec.Name, Err: err.Error()}
		} else {
			worst = verdict.Worst(worst, run.Result.Verdict)
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

// sayRepeated counts the runs that were made twice.
func sayRepeated(out io.Writer, told []reports.GateRun) {
	n := 0
	for _, run := range told {
		if run.Info.RepeatOf != "" {
			n++
		}
	}
	if n > 0 {
		fmt.Fprintf(out, "%d of %d runs repeated once: host too busy\n", n, len(told))
	}
}

// runOne runs, checks and reports one scenario.
func (f chaosFlags) runOne(ctx context.Context, j job, s *site, out *output) (reports.GateRun, error) {
	c, err := s.on(j.layout())
	if err != nil {
		return reports.GateRun{}, err
	}
	command := f.command(j)
	if s.backend == "docker" {
		command += dockerAgain(c)
	}
	dir, res, err := carryOut(ctx, run.Options{
		Plan: j.plan, System: j.sys, Cluster: c, Backend: s.backend, BinDir: f.bin,
		RunsDir: f.runs, Command: command, Versions: versions(c), Keep: f.keep, Dir: workDir(ctx),
	}, out)
	if in := (*scenario.InputError)(nil); errors.As(err, &in) {
		err = usageError(in)
	}
	if err != nil {
		return reports.GateRun{}, err
	}
	return readGateRun(ctx, dir, res)
}

// carryOut runs a plan, checks and reports it, and tells out. A run that is INVALID as the
// machine was too busy is made once more, with the same plan and the same bounds. The
// directory is returned beside an error too, if there is one.
func carryOut(ctx context.Context, opt run.Options, out *output) (dir string, res *checker.Result, err error) {
	dir, res, err = carryOutOnce(ctx, opt, out)
	if err != nil || ctx.Err() != nil || res.Verdict != checker.Invalid || res.HostBusy == "" {
		return dir, res, err
	}
	fmt.Fprintf(out, "\nhost too busy: the run is repeated once; %s keeps what was recorded\n", dir)
	opt.RepeatOf = filepath.Base(dir)
	return carryOutOnce(ctx, opt, out)
}

func carryOutOnce(ctx context.Context, opt run.Options, out *output) (dir string, res *checker.Result, err error) {
	log := progress.New(out.show)
	defer func() { err = errors.Join(ended(log, err), log.Close()) }()
	exe, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	opt.Progress = log
	opt.Watch = func(ctx context.Context, dir string, found func(progress.Violation)) (time.Duration, error) {
		return checker.Watch(ctx, exe, dir, func(f checker.Finding) { found(soFar(f)) })
	}
	dir, err = run.Run(ctx, opt)
	linkLatest(opt.RunsDir, dir)
	if err != nil {
		if dir != "" {
			err = fmt.Errorf("%w\n  what was recorded is in %s; fencepost check %s judges it", err, dir, dir)
		}
		return dir, nil, err
	}
	res, err = checkAndReport(ctx, exe, dir, log, out)
	return dir, res, err
}

// ended tells a run's end, or why it has none, and returns that.
func ended(log *progress.Log, err error) error {
	e := progress.Event{Kind: progress.KindEnd}
	if err != nil {
		e = progress.Event{Kind: progress.KindError, Text: err.Error()}
	}
	log.Emit(e)
	return err
}

// setting is what else tells one run of a scenario from another.
func setting(p *plan.Plan, c cluster.Cluster) string {
	if !p.Spec.Kind().Workers {
		return "Paxos " + c.Info()["paxos_variant"]
	}
	return "contention " + p.Spec.Workload.Contention + progress.WorkloadText(p.Workload)
}

// checkAndReport works from the run's files alone. It goes on when ctx was
// cancelled: an interrupted run is checked too.
func checkAndReport(ctx context.Context, exe, dir string, log *progress.Log, out *output) (*checker.Result, error) {
	ctx = context.WithoutCancel(ctx)
	start := time.Now()
	log.Emit(progress.Event{Kind: progress.KindChecking})
	res, err := checker.CheckInChild(ctx, exe, dir)
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", dir, err)
	}
	checked := time.Since(start)
	path, err := reports.WriteRun(ctx, dir)
	out.verdict(res)
	log.Emit(progress.Event{Kind: progress.KindVerdict, Verdict: condensed(res, path, checked)})
	var incomplete *reports.IncompleteError // there is a page, and it says what it lacks
	if err != nil && !errors.As(err, &incomplete) {
		return nil, fmt.Errorf("report of %s: %w", dir, err)
	}
	if incomplete != nil {
		log.Problem("%v", incomplete)
	}
	info, err := rundir.ReadInfo(dir)
	if err != nil {
		return nil, err
	}
	if out.text != nil {
		fmt.Fprintf(out, "checked in %.1f s\n", checked.Seconds())
		if store := info.StoreText(); store != "" {
			fmt.Fprintf(out, "store: %s\n", store)
		}
		fmt.Fprintf(out, "report: %s\nrepeat: %s\n", path, info.Command)
	}
	return res, nil
}

// soFar is a finding as its event has it. What contradicts the rest comes last.
func soFar(f checker.Finding) progress.Violation {
	v := progress.Violation{Property: f.Property, Title: f.Title, Text: f.Violation.Message, Key: f.Violation.Key}
	if n := len(f.Violation.Events); n > 0 {
		v.File, v.Line = f.Violation.Events[n-1].File, f.Violation.Events[n-1].Line
	}
	return v
}

// condensed is a verdict as its event has it.
func condensed(res *checker.Result, report string, checked time.Duration) *progress.Verdict {
	v := &progress.Verdict{Verdict: string(res.Verdict), Summary: res.Summary, Report: report, Checked: checked.Seconds()}
	for _, p := range res.Properties {
		x := progress.Property{ID: p.ID, Title: p.Title, Status: string(p.Status), Checked: p.Checked, Findings: p.Count, Detail: p.Detail}
		if len(p.Violations) > 0 {
			x.First = p.Violations[0].Message
		}
		v.Properties = append(v.Properties, x)
	}
	return v
}

// command is what repeats the run.
func (f chaosFlags) command(j job) string {
	s := fmt.Sprintf("make chaos SCENARIO=%s SEED=%d", j.given, j.plan.Seed)
	if c := j.plan.Spec.Workload.Contention; c != "" {
		s += " CONTENTION=" + c
	}
	if j.plan.Workload != "" && (j.sets || j.plan.Workload != scenario.Plain) {
		s += " WORKLOAD=" + j.plan.Workload
	}
	if store := j.plan.Spec.Cluster.Store; store != "" && (j.sys.Store == "" || j.sys.Inert != "") {
		s += " STORE=" + store
	}
	s += f.nodes.variables()
	switch {
	case j.sys.Design() == system.Exec && j.sys.Binary == "":
		s += " SYSTEM='" + j.sys.Name + "'"
	case j.sys.Name != system.Core:
		s += " SYSTEM=" + j.sys.Name
	}
	if sink := j.plan.Spec.Workload.Sink; sink != "" {
		s += " SINK=" + sink
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
	return s + f.repeat
}
