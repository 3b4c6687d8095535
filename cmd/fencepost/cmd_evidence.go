package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fencepost/checker"
	"fencepost/harness/env/cluster"
	"fencepost/harness/plan"
	"fencepost/harness/scenario"
	"fencepost/harness/target/system"
	"fencepost/reports"
	"fencepost/reports/evidence"
)

// evidenceFlags are the flags of `fencepost evidence`.
type evidenceFlags struct {
	runner
	set, scenarios, contention string
	sink, release              string
	seeds                      int
	first                      uint64
	fresh, retry               bool
	gate                       gateFlags
}

func newEvidenceCmd() *cobra.Command {
	var f evidenceFlags
	cmd := &cobra.Command{
		Use:   "evidence",
		Short: "Run a set of scenarios at several contentions under many seeds, and store the results",
		Long: `Runs scenarios x contentions x seeds on one cluster and stores each run's result in
results/evidence/SET.jsonl. What is stored is not run again, so the same command resumes where
it stopped. A result that is not PASS is never deleted: --retry runs it again and
stores both. Directories of PASS runs are removed, others stay under runs/.
` + setsText() + `
Exit code: 0 PASS, 1 FAIL, 2 a run could not be carried out, 3 INVALID, 4 UNKNOWN, 64 bad
input; the worst of all results of the set, old and new.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	f.flags(fl, filepath.Join("results", "evidence"))
	fl.StringVar(&f.set, "set", "locks", "the set: "+strings.Join(setNames(), ", "))
	fl.StringVar(&f.scenarios, "scenarios", "", "of the set only these, with commas between")
	fl.StringVar(&f.contention, "contention", "medium,high", "contentions, with commas between; a scenario that was not made for them runs at its own")
	fl.StringVar(&f.sink, "sink", "", sinkUsage)
	fl.StringVar(&f.release, "cassandra", "", "release of Cassandra, such as 4.1.10; of the set releases only the runs on this one (default "+cluster.DefaultRelease+"; of the set releases all that it needs)")
	fl.IntVar(&f.seeds, "seeds", 5, "number of seeds")
	fl.Uint64Var(&f.first, "first", 1, "the first seed")
	fl.BoolVar(&f.fresh, "fresh", false, "run everything again; a stored PASS is replaced, other results are kept with the new one")
	fl.BoolVar(&f.retry, "retry", false, "run again what is not PASS; the old result is kept with the new one")
	f.gate.flags(fl)
	return cmd
}

func setNames() []string {
	var out []string
	for _, s := range evidence.Sets {
		out = append(out, s.Name)
	}
	return out
}

func setsText() string {
	var b strings.Builder
	b.WriteString("\nSets:\n")
	for _, s := range evidence.Sets {
		fmt.Fprintf(&b, "  %-8s %s\n", s.Name, s.About)
	}
	return b.String()
}

// run checks everything, and then works where the cluster is.
func (f evidenceFlags) run(cmd *cobra.Command) error {
	ctx, out := cmd.Context(), outputOf(cmd)
	scenarios, contentions, err := chosen(f.set, f.scenarios, f.contention)
	if err != nil {
		return usageError(err)
	}
	if f.seeds < 1 || f.seeds > 100_000 {
		return usageError(fmt.Errorf("--seeds=%d: 1 to 100000", f.seeds))
	}
	if scenarios, err = withSink(scenarios, f.sink, f.scenarios != ""); err != nil {
		return usageError(err)
	}
	jobs, err := f.jobs(scenarios, contentions)
	if err != nil {
		return usageError(err)
	}
	where, nodes, err := onReleases(f.cluster, jobs)
	if err != nil {
		return usageError(err)
	}
	if err := f.resolve(ctx, f.set); err != nil {
		return err
	}
	if err := f.builtFor(jobs); err != nil {
		return err
	}
	store := evidence.NewStore(f.results)
	if _, err := store.All(); err != nil {
		return usageError(err) // before a cluster is started for nothing
	}
	if err := f.gate.resolve(ctx, out); err != nil {
		return err
	}
	var todo []string
	for _, j := range jobs {
		todo = append(todo, j.String())
	}
	return f.gate.onSite(cmd, where, nodes, needed(jobs, layoutOf), nil, todo, func(s *site) ([]reports.GateRun, error) {
		jobs, err := possible(s, jobs, layoutOf, scenarioOf, f.scenarios != "", out)
		if err != nil {
			return nil, err
		}
		loop := f.loop(store, s, out)
		loop.Fresh, loop.Retry, loop.Run = f.fresh, f.retry, onFreshServers(s, loop.Run)
		fmt.Fprintf(out, "evidence %s: %d runs: %d scenarios at %s, %d seeds from %d; results in %s\n",
			f.set, len(jobs), len(scenarios), strings.Join(contentions, ", "), f.seeds, f.first, store.File())
		tally, err := loop.Do(ctx, slices.Values(jobs), len(jobs))
		err = finish(out, tally, len(jobs), store, err)
		all, readErr := store.All()
		if readErr != nil {
			err = errors.Join(err, readErr)
		}
		return standing(jobs, ofToday(all)), err
	})
}

// jobs are the runs to do.
func (f evidenceFlags) jobs(scenarios []evidence.Scenario, contentions []string) ([]evidence.Job, error) {
	if err := (nodeChoice{release: f.release}).check(); err != nil {
		return nil, err
	}
	set, err := evidence.FindSet(f.set)
	if err != nil {
		return nil, err
	}
	if set.Bugs != nil {
		jobs := slices.DeleteFunc(evidence.BugJobs(set.Bugs, scenarios, f.first, f.seeds), func(j evidence.Job) bool {
			return f.release != "" && j.Cassandra != f.release
		})
		if len(jobs) == 0 {
			return nil, fmt.Errorf("the set %s has no such run on Cassandra %s", f.set, f.release)
		}
		return jobs, nil
	}
	jobs := inOrder(evidence.Jobs(scenarios, contentions, f.first, f.seeds), layoutOf)
	for i := range jobs {
		jobs[i].Sink = f.sink
		if f.release != cluster.DefaultRelease {
			jobs[i].Cassandra = f.release
		}
	}
	return jobs, nil
}

// onReleases is where jobs can be done that name releases, and which nodes all of them want.
func onReleases(where string, jobs []evidence.Job) (string, nodeChoice, error) {
	var releases []string
	for _, j := range jobs {
		if !slices.Contains(releases, j.Cassandra) {
			releases = append(releases, j.Cassandra)
		}
	}
	switch {
	case where == "local":
		return where, nodeChoice{}, nil
	case where == "auto" && (releases[0] != "" || len(releases) > 1 || slices.ContainsFunc(jobs, onStore)):
		return "local", nodeChoice{}, nil // what is kept up is Cassandra's, of one release
	case len(releases) == 1 && releases[0] == "":
		return where, nodeChoice{}, nil
	case len(releases) == 1:
		return where, nodeChoice{release: releases[0]}, nil
	}
	return where, nodeChoice{}, fmt.Errorf("the runs are on Cassandra %s: use --cluster=local, which starts each", strings.Join(releases, ", "))
}

// onStore says whether a job's locks are on another store than Cassandra.
func onStore(j evidence.Job) bool {
	sys, err := system.Find(j.System)
	return err == nil && sys.Store != ""
}

// layoutOf is that of the cluster that a job needs.
func layoutOf(j evidence.Job) cluster.Layout {
	sys, err := system.Find(j.System)
	s, err2 := scenario.Load(j.Scenario)
	if err := errors.Join(err, err2); err != nil {
		return cluster.Plain() // the run says so
	}
	if err := s.Apply(scenario.Overrides{Store: sys.Store}); err != nil {
		return cluster.Plain()
	}
	return s.Layout()
}

func scenarioOf(j evidence.Job) string { return j.Scenario }

// standing is what CI output shows of each job: the attempt that decides its
// standing verdict.
func standing(jobs []evidence.Job, all []evidence.Result) []reports.GateRun {
	attempts := map[evidence.Job][]evidence.Result{}
	for _, r := range all {
		attempts[r.Job] = append(attempts[r.Job], r)
	}
	var out []reports.GateRun
	for _, j := range jobs {
		run := reports.GateRun{Name: j.String(), Err: errNotRun.Error()}
		verdict := evidence.Standing(attempts[j])
		for _, r := range attempts[j] { // the last that has it
			if r.Verdict == verdict {
				run.Result, run.Err, run.Info = r.Check, r.Error, r.Info
			}
		}
		out = append(out, run)
	}
	return out
}

// finish says what came out and makes it the exit code.
func finish(out io.Writer, t evidence.Tally, total int, store *evidence.Store, err error) error {
	if page, pageErr := writeEvidencePage(store, today()); pageErr != nil {
		err = errors.Join(err, pageErr)
	} else if page != "" {
		fmt.Fprintf(out, "page: %s\n", page)
	}
	if total > 0 {
		fmt.Fprintf(out, "%d of %d runs have a result, %d of them new: %s\n", t.Done, total, t.Ran, t)
	} else {
		fmt.Fprintf(out, "%d runs: %s\n", t.Ran, t)
	}
	if err != nil {
		err = fmt.Errorf("%w\n  finished runs are stored; the same command (without --fresh) resumes there", err)
		code := evidence.ExitCode(evidence.Error)
		if t.Worst == checker.Fail {
			code = t.Worst.ExitCode() // a violation outweighs that the set is not complete
		}
		return &exitError{code: code, err: err}
	}
	return exitWith(evidence.ExitCode(t.Worst))
}

// heal bounds the time to make a cluster healthy.
func heal(ctx context.Context, c cluster.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return cluster.Heal(ctx, c)
}

// chosen resolves set, scenarios and contentions.
func chosen(setName, only, contention string) ([]evidence.Scenario, []string, error) {
	set, err := evidence.FindSet(setName)
	if err != nil {
		return nil, nil, err
	}
	all, err := catalog(set.Bugs != nil)
	if err != nil {
		return nil, nil, err
	}
	mine := set.Of(all)
	if len(mine) == 0 {
		return nil, nil, fmt.Errorf("the set %s has no scenarios", setName)
	}
	if only != "" {
		var some []evidence.Scenario
		for _, name := range strings.Split(only, ",") {
			i := slices.IndexFunc(mine, func(s evidence.Scenario) bool { return s.Name == name })
			if i < 0 {
				return nil, nil, fmt.Errorf("the set %s has no scenario %q", setName, name)
			}
			some = append(some, mine[i])
		}
		mine = some
	}
	contentions := strings.Split(contention, ",")
	for i, c := range contentions {
		if err := scenario.ValidContention(c); err != nil {
			return nil, nil, err
		}
		if slices.Contains(contentions[:i], c) {
			return nil, nil, fmt.Errorf("the contention %s is named twice", c)
		}
	}
	return mine, contentions, nil
}

// withSink leaves out the scenarios that cannot have a sink ("": their own); those that
// somebody named have to.
func withSink(all []evidence.Scenario, sink string, named bool) ([]evidence.Scenario, error) {
	if sink == "" {
		return all, nil
	}
	core, err := system.Find(system.Core)
	if err != nil {
		return nil, err
	}
	var out []evidence.Scenario
	var first error
	for _, e := range all {
		s, err := scenario.Load(e.Name)
		if err != nil {
			return nil, err
		}
		if err = s.Apply(scenario.Overrides{Sink: sink}); err != nil {
			err = fmt.Errorf("%s: %w", s.Name, err)
		} else {
			err = plan.Suits(s, core)
		}
		switch {
		case err == nil:
			out = append(out, e)
		case named:
			return nil, err
		case first == nil:
			first = err
		}
	}
	if len(out) == 0 {
		return nil, first
	}
	return out, nil
}

// catalog lists the built-in scenarios that the core can run, or all.
func catalog(all bool) ([]evidence.Scenario, error) {
	var out []evidence.Scenario
	for _, name := range scenario.Names() {
		s, err := scenario.Load(name)
		if err != nil {
			return nil, err
		}
		if !all && !plan.OnCore(s) {
			continue
		}
		e := evidence.Scenario{Name: name, Default: s.Workload.Contention, Contentions: s.Contentions()}
		if !s.Kind().Workers {
			e.Default, e.Contentions = evidence.NoContention, []string{evidence.NoContention}
		}
		out = append(out, e)
	}
	return out, nil
}
