package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system"
	"fencepost/internal/choice"
	"fencepost/reports"
	"fencepost/reports/evidence"
)

// powerFlags are the flags of `fencepost power`.
type powerFlags struct {
	runner
	mutants, seeds string
	sink           string
	times          int
	fresh, explain bool
	swarm          time.Duration
}

func newPowerCmd() *cobra.Command {
	var f powerFlags
	cmd := &cobra.Command{
		Use:   "power",
		Short: "Run every mutant under its directed scenario: is each one caught, and by which property",
		Long: `Measures how well the checks detect mistakes. Each mutant (a known-broken variant of the
system), and each known hole of lock-per-job (see "fencepost list", docs/known-broken.md
and docs/lock-per-job.md), runs under the scenario that must expose it, with several
seeds. A run counts as a kill only if it has the expected verdict and one of the expected
properties fired. Results go to results/power.jsonl; what is stored is not run again, so the
same command resumes where it stopped.

With --swarm the variants run under random faults instead, as if nobody knew their mistakes,
each with the seeds 1, 2, … until a run is red or its time is over; results go to the same
file. A red run is a FAIL, or for a broken harness the verdict that it must have. Holes of
lock-per-job, and variants whose workload no swarm has, are left out.

With --explain nothing is run: every kept run under --runs that turned red as it must is
explained ("fencepost explain"), and the mechanisms that are named correctly are counted.
The explanation knows only the history.
Exit code: 0 if every mutant was killed in every run, 1 if not, 2 if a run could not
be carried out, 64 bad input; with --swarm 0 whether found or not, 2 and 64 as before; with
--explain 0 if nine of ten are named, 1 if not, 2 if there is no such run.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	f.flags(fl, "results")
	fl.StringVar(&f.mutants, "mutant", "", "only these variants, with commas between (default: all)")
	fl.IntVar(&f.times, "times", 2, "runs of each variant, under the seeds 1, 2, …")
	fl.StringVar(&f.seeds, "seeds", "", "these seeds instead, with commas between")
	fl.StringVar(&f.sink, "sink", "", sinkUsage)
	fl.DurationVar(&f.swarm, "swarm", 0, "run under random faults, so long for each variant that is not found (such as 20m)")
	fl.BoolVar(&f.explain, "explain", false, "run nothing; say how well the kept red runs of the variants are explained")
	fl.BoolVar(&f.fresh, "fresh", false, "run everything again; old results are kept, the new ones count")
	return cmd
}

// powerSet is the store's name under --results.
const powerSet = reports.KeptPower

// jobs checks the flags.
func (f powerFlags) jobs() ([]system.System, []evidence.Job, error) {
	all := system.Directed()
	mine := all
	if f.mutants != "" {
		mine = nil
		for _, name := range strings.Split(f.mutants, ",") {
			name = strings.TrimPrefix(name, "broken/")
			i := slices.IndexFunc(all, func(s system.System) bool { return s.Label() == name })
			if i < 0 {
				return nil, nil, choice.Unknown("variant", name, variantNames(all)...)
			}
			mine = append(mine, all[i])
		}
	}
	var whole []system.System
	for _, s := range mine {
		if _, err := sinks.Of(f.sink, s); err == nil {
			whole = append(whole, s)
		} else if _, unknown := sinks.Find(f.sink); f.mutants != "" || unknown != nil {
			return nil, nil, err
		}
	}
	mine = whole
	if f.times < 1 || f.times > 1000 {
		return nil, nil, fmt.Errorf("--times=%d: 1 to 1000", f.times)
	}
	var seeds []uint64
	for i := range f.times {
		seeds = append(seeds, uint64(i+1))
	}
	if f.seeds != "" {
		seeds = nil
		for _, s := range strings.Split(f.seeds, ",") {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				return nil, nil, fmt.Errorf("--seeds: %q is not a seed", s)
			}
			seeds = append(seeds, n)
		}
	}
	var jobs []evidence.Job
	for _, seed := range seeds {
		for _, s := range mine {
			jobs = append(jobs, evidence.Job{Scenario: s.Red.Scenario, Contention: s.Red.Contention, Seed: seed, System: s.Name, Sink: f.sink})
		}
	}
	return mine, jobs, nil
}

func variantNames(all []system.System) []string {
	var out []string
	for _, s := range all {
		out = append(out, s.Label())
	}
	return out
}

func (f powerFlags) run(cmd *cobra.Command) error {
	ctx, out := cmd.Context(), outputOf(cmd)
	mine, jobs, err := f.jobs()
	if err != nil {
		return usageError(err)
	}
	if cmd.Flags().Changed("swarm") {
		if err := f.checkSwarm(cmd); err != nil {
			return usageError(err)
		}
		return f.runSwarm(cmd, mine)
	}
	if err := f.resolve(ctx, powerSet); err != nil {
		return err
	}
	if f.explain {
		return explainPower(out, mine, f.runs)
	}
	store := evidence.NewStore(f.results)
	if _, err := store.All(); err != nil {
		return err
	}
	jobs = inOrder(jobs, layoutOf)
	return onSite(cmd, f.cluster, nodeChoice{}, needed(jobs, layoutOf), nil, func(s *site) error {
		jobs, err := possible(s, jobs, layoutOf, scenarioOf, f.mutants != "", out)
		if err != nil {
			return err
		}
		loop := f.loop(store, s, out)
		loop.Fresh, loop.Run = f.fresh, timed(loop.Run)
		fmt.Fprintf(out, "power: %d variants, %d runs; results in %s\n", len(mine), len(jobs), store.File())
		tally, loopErr := loop.Do(ctx, slices.Values(jobs), len(jobs))
		if tally.Repeated > 0 {
			fmt.Fprintf(out, "%d runs repeated once: host too busy\n", tally.Repeated)
		}
		all, err := store.All()
		if err != nil {
			return errors.Join(loopErr, err)
		}
		return judgePower(out, mine, f.sink, ofToday(all), loopErr)
	})
}

// judgePower prints the tables and makes the exit code.
func judgePower(out io.Writer, mine []system.System, sink string, all []evidence.Result, loopErr error) error {
	rows := reports.Power(mine, sink, all)
	reports.PrintPower(out, rows)
	if loopErr != nil {
		return &exitError{code: 2, err: fmt.Errorf("%w\n  finished runs are stored; the same command (without --fresh) resumes there", loopErr)}
	}
	code := 0
	for _, r := range rows {
		switch {
		case r.Errors > 0:
			code = 2
		case r.Kills < r.Runs || r.Runs == 0:
			code = max(code, 1)
		}
	}
	return exitWith(code)
}

// timed adds to a result how long the detection took.
func timed(run func(context.Context, evidence.Job) (evidence.Result, error)) func(context.Context, evidence.Job) (evidence.Result, error) {
	return func(ctx context.Context, j evidence.Job) (evidence.Result, error) {
		res, err := run(ctx, j)
		if err != nil {
			return res, err
		}
		now := history.Now()
		sys, ok := system.FindDirected(j.System, j.Scenario, j.Contention)
		if !ok {
			return res, fmt.Errorf("%s: nothing says what must be found in it", j)
		}
		res.Detection, err = detection(res.Dir, sys, now)
		return res, err
	}
}

// detection reads a checked run's directory.
func detection(dir string, sys system.System, now int64) (*evidence.Detection, error) {
	began, err := harnessEvent(dir, func(e *history.Event) bool { return e.Op == history.NotePhase })
	if err != nil {
		return nil, err
	}
	if began == nil {
		return nil, fmt.Errorf("%s: its record has no phase", dir)
	}
	from := began.TS
	var v checker.Result
	if err := rundir.ReadJSON(filepath.Join(dir, rundir.VerdictFile), &v); err != nil {
		return nil, err
	}
	e, err := explain(dir)
	if err != nil {
		return nil, err
	}
	d := &evidence.Detection{Verdict: time.Duration(now - from), Causes: e.Best()}
	for _, p := range v.Properties {
		if !slices.Contains(sys.Red.Properties, p.ID) {
			continue
		}
		for _, x := range p.Violations {
			// A violation without a window, such as a demand on the whole run, has no instant.
			if at := time.Duration(x.To - from); x.To > 0 && at > 0 && (d.Violation == 0 || at < d.Violation) {
				d.Violation = at
			}
		}
	}
	return d, nil
}

// explainPower explains the kept red runs of the variants and compares.
func explainPower(out io.Writer, mine []system.System, runs string) error {
	dirs, err := filepath.Glob(filepath.Join(runs, "*", rundir.InfoFile))
	if err != nil {
		return err
	}
	slices.Sort(dirs)
	var all []reports.ExplainedRun
	for _, file := range dirs {
		dir := filepath.Dir(file)
		if st, err := os.Lstat(dir); err != nil || st.Mode()&fs.ModeSymlink != 0 {
			continue // runs/latest is another name of one of the others
		}
		r, err := explainedRun(dir, mine)
		if err != nil {
			return err
		}
		if r != nil {
			all = append(all, *r)
		}
	}
	rows := reports.Explained(mine, all)
	reports.PrintExplained(out, rows)
	switch share, variants := reports.NamedShare(rows); {
	case variants == 0:
		return fmt.Errorf("%s has no run of a known-broken variant that is red as it must be: make some with fencepost power", runs)
	case share < reports.MinNamed:
		return exitWith(1)
	}
	return nil
}

// explainedRun explains one run; nil if it is none of a variant, or PASS, or was not
// checked.
func explainedRun(dir string, mine []system.System) (*reports.ExplainedRun, error) {
	info, err := rundir.ReadInfo(dir)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(mine, func(s system.System) bool { return s.Name == info.System })
	if i < 0 || info.Scenario != mine[i].Red.Scenario {
		return nil, nil
	}
	res, err := verdictIn(dir)
	if err != nil || res == nil || res.Verdict == checker.Pass {
		return nil, err
	}
	e, err := explain(dir)
	if err != nil {
		return nil, err
	}
	killed := reports.Killed(mine[i], evidence.Result{Verdict: res.Verdict, Check: res})
	return &reports.ExplainedRun{System: info.System, Run: info.Run, Killed: killed, Best: e.Best()}, nil
}
