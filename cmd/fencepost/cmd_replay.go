package main

import (
	"bytes"
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
	"fencepost/harness/record/progress"
	"fencepost/harness/record/rundir"
	"fencepost/harness/record/verdict"
	"fencepost/harness/run"
	"fencepost/harness/target/system"
	"fencepost/internal/terminal"
	"fencepost/reports/evidence"
)

// replayFlags are the flags of `fencepost replay`.
type replayFlags struct {
	place
	times int
}

func newReplayCmd() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay RUN",
		Short: "Repeat a run's plan, and report whether the verdict is the same",
		Long: `Repeats the plan.yaml of RUN (a run's directory): the same steps, targets, triggers,
locks, contention, workload and system, even if the scenario has changed since. Each replay has its
own run directory, which names the replayed run. A plan cannot fix the interleaving of
real processes, so a red run need not be red each time: --times shows how often it is.
Exit code: as for chaos; the worst of several.`,
		Args: oneArg("replay takes one argument: the directory of a run, such as runs/latest"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	fl := cmd.Flags()
	fl.IntVar(&f.times, "times", 1, "how often")
	f.flags(fl, clusterUsage+externalUsage, "replays")
	addExternalFlags(fl)
	return cmd
}

// replayed is the run to replay.
type replayed struct {
	dir     string
	info    rundir.Info
	plan    *plan.Plan
	sys     system.System
	verdict *checker.Result // nil if it was not checked
}

// loadReplayed reads the run and checks that its plan can be carried out.
func loadReplayed(dir string) (*replayed, error) {
	dir, err := filepath.EvalSymlinks(dir) // runs/latest
	if err != nil {
		return nil, usageError(err)
	}
	r := &replayed{dir: dir}
	if r.info, err = rundir.ReadInfo(dir); err != nil {
		return nil, usageError(fmt.Errorf("%s is not the directory of a run: %w", dir, err))
	}
	if r.plan, err = plan.Read(filepath.Join(dir, rundir.PlanFile)); err != nil {
		return nil, usageError(err)
	}
	if r.plan.System != r.info.System || r.plan.Seed != r.info.Seed {
		return nil, usageError(fmt.Errorf("%s: its %s is of system %s with seed %d, its %s of %s with %d: they are not of one run",
			dir, rundir.PlanFile, r.plan.System, r.plan.Seed, rundir.InfoFile, r.info.System, r.info.Seed))
	}
	if r.sys, err = system.Find(r.plan.System); err != nil {
		return nil, usageError(err)
	}
	if r.verdict, err = verdictIn(dir); err != nil {
		return nil, usageError(err)
	}
	return r, nil
}

func (f replayFlags) run(cmd *cobra.Command, arg string) error {
	ctx, out := cmd.Context(), outputOf(cmd)
	if f.times < 1 || f.times > 1000 {
		return usageError(fmt.Errorf("--times=%d: 1 to 1000", f.times))
	}
	old, err := loadReplayed(within(ctx, arg))
	if err != nil {
		return err
	}
	if f.cluster == clusterExternal {
		if _, err := withoutControl([]job{{plan: old.plan, sys: old.sys}}, false, out); err != nil {
			return err
		}
	}
	if err := f.resolve(ctx); err != nil {
		return err
	}
	// On the same release and Paxos variant: what a drill shows depends on it.
	nodes := nodeChoice{store: old.plan.Spec.Cluster.Store, paxos: old.info.Versions["paxos_variant"], clocks: old.plan.SetsServerClocks()}
	if old.info.Cluster == "local" || old.info.Cluster == "up" { // else its nodes are what somebody else has
		nodes.release = old.info.Versions["cassandra"]
	}
	if err := nodes.check(); err != nil {
		return err
	}
	if err := builtHere(old.sys, f.bin); err != nil {
		return err
	}
	layout := old.plan.Spec.Layout()
	return onSite(cmd, f.cluster, nodes, []cluster.Layout{layout}, nil, onOne(layout, func(c cluster.Cluster, backend string) error {
		fmt.Fprintf(out, "replay of %s: scenario %s, seed %d, system %s, %s; it was %s\n", old.info.Run,
			old.plan.Spec.Name, old.plan.Seed, old.sys.Name, setting(old.plan, c), outcome(old.verdict))
		var all []*checker.Result
		for i := range f.times {
			res, err := f.once(ctx, old, c, backend, out, i+1)
			if err == nil && ctx.Err() != nil {
				err = evidence.ErrInterrupted // it was cut short and does not count
			}
			if err != nil {
				return errors.Join(err, conclude(out, old.verdict, all))
			}
			all = append(all, res)
			if res.Verdict != checker.Pass && i+1 < f.times {
				if err := heal(ctx, c); err != nil {
					return fmt.Errorf("the cluster is not healthy after replay %d: %w", i+1, err)
				}
			}
		}
		return conclude(out, old.verdict, all)
	}))
}

// once does one replay. One alone is shown as it goes on, several as a line each.
func (f replayFlags) once(ctx context.Context, old *replayed, c cluster.Cluster, backend string, out *output, n int) (*checker.Result, error) {
	var console bytes.Buffer
	to := out
	if f.times > 1 {
		to = textOutput(&console, terminal.Style{})
	}
	began := time.Now()
	dir, res, err := carryOut(ctx, run.Options{
		Plan: old.plan, System: old.sys, Cluster: c, Backend: backend, BinDir: f.bin, RunsDir: f.runs,
		Command: "make replay RUN=" + shorter(ctx, old.dir), ReplayOf: old.info.Run, Versions: versions(c), Dir: workDir(ctx),
	}, to)
	if err := errors.Join(err, keepConsole(dir, &console)); err != nil {
		return nil, err
	}
	if f.times > 1 {
		out.show(progress.Event{Kind: progress.KindResult, Result: &progress.Result{
			N: n, Total: f.times, Name: "replay", Verdict: string(res.Verdict), Fired: (evidence.Result{Check: res}).Fired(),
			Took: time.Since(began).Seconds(), Dir: dir,
		}})
	}
	return res, nil
}

// shorter is a path as a person types it.
func shorter(ctx context.Context, path string) string {
	if rel, err := filepath.Rel(workDir(ctx), path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// notChecked stands for the verdict of a run that has none.
const notChecked = "not checked"

// outcome says a verdict with the properties that fired.
func outcome(v *checker.Result) string {
	if v == nil {
		return notChecked
	}
	s := string(v.Verdict)
	if f := (evidence.Result{Check: v}).Fired(); len(f) > 0 {
		s += " by " + strings.Join(f, ", ")
	}
	return s
}

// sameRed reports whether a replay is red as the run that it replays: the same
// verdict, and by a property that fired then too.
func sameRed(old, v *checker.Result) bool {
	if old == nil || v.Verdict != old.Verdict || v.Verdict == checker.Pass {
		return false
	}
	then := evidence.Result{Check: old}.Fired()
	return len(then) == 0 || slices.ContainsFunc(evidence.Result{Check: v}.Fired(), func(id string) bool { return slices.Contains(then, id) })
}

// conclude sums up; the exit code is the worst verdict's.
func conclude(out io.Writer, old *checker.Result, all []*checker.Result) error {
	worst, red, same := checker.Pass, 0, 0
	fired, order := map[string]int{}, []string(nil)
	for _, v := range all {
		worst = verdict.Worst(worst, v.Verdict)
		if v.Verdict != checker.Pass {
			red++
		}
		if sameRed(old, v) {
			same++
		}
		for _, id := range (evidence.Result{Check: v}).Fired() {
			if fired[id]++; fired[id] == 1 {
				order = append(order, id)
			}
		}
	}
	if old != nil && old.Verdict != checker.Pass {
		fmt.Fprintf(out, "%d of %d red again as it was (%s)", same, len(all), outcome(old))
	} else {
		fmt.Fprintf(out, "%d of %d red", red, len(all))
	}
	for i, id := range order {
		order[i] = fmt.Sprintf("%s in %d", id, fired[id])
	}
	if len(order) > 0 {
		fmt.Fprintf(out, "; fired: %s", strings.Join(order, ", "))
	}
	fmt.Fprintln(out)
	return exitWith(worst.ExitCode())
}
