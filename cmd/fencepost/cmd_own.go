package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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
	"fencepost/harness/run"
	"fencepost/harness/scenario"
	"fencepost/harness/target/control"
	"fencepost/harness/target/own"
	"fencepost/harness/target/system"
	"fencepost/internal/choice"
	"fencepost/reports/owncheck"
)

func newOwnCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "own",
		Short: "Check a program of your own before its first chaos run",
	}
	cmd.AddCommand(newOwnCheckCmd())
	return cmd
}

// ownFlags are the flags of `fencepost own check`.
type ownFlags struct {
	place
	nodes  nodeChoice
	asJSON bool
}

func newOwnCheckCmd() *cobra.Command {
	var f ownFlags
	cmd := &cobra.Command{
		Use:   "check CMD [ARG…]",
		Short: "Run a program for half a minute and report what of the contract it keeps",
		Long: `Starts CMD as a run does (docs/own-system.md): one worker with three clients and one lock, on
real servers, with the real sink. It keeps a client waiting at each point that setup offers,
kills the worker in its lease, starts it again, stops it and seals the lock. It reports each
part of the contract, the properties that it promises, and which scenarios suit it.

With --store it starts the servers of that store. On Cassandra it uses the cluster of
"fencepost up --background"; --cluster=local starts nodes for this check alone.
Write CMD in quotes or behind --, if it has flags of its own.

Exit codes: 0 nothing is wrong, 1 something is wrong with the program, 2 the check could not
be carried out, 64 bad input.`,
		Args: someArgs("check what? Give the command line of a program, such as 'python3 mine.py'"),
		RunE: func(cmd *cobra.Command, args []string) error { return ownCheck(cmd, strings.Join(args, " "), f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.nodes.store, "store", "", "whose servers to start: "+strings.Join(servers.Names(), ", ")+" (default: "+servers.Cassandra+", the cluster that is kept up)")
	fl.StringVar(&f.cluster, "cluster", "auto", `auto, up (the cluster of "fencepost up"), local (servers in a sandbox)`)
	fl.StringVar(&f.runs, "runs", "runs", "directory for the run's directory")
	fl.StringVar(&f.bin, "bin", "", "directory of the tool's executables (default: the tool's own)")
	fl.BoolVar(&f.asJSON, jsonFlag, false, "print the findings as JSON, and nothing else")
	return cmd
}

// ownScenario is what a program is tried by. The kill comes in a lease, if the program lets the
// harness know when one begins.
const ownScenario = `name: own-check
about: A program is tried out, at each of its points and by a kill in a lease.
workload: {workers: 1, clients: 3, contention: high}
phases: {warmup: 1s, before: 1s, fault: 1s, recover: 2s}
faults:
  - fault: kill-worker
    targets: [w1]
    on: {point: holding}
    for: 500ms
expect:
  min_cycles:
    high: {before: 3, recover: 3}
`

// ownPlan is the plan of that for a program.
func ownPlan(sys system.System, store string) (*plan.Plan, error) {
	s, err := scenario.Parse("own-check", []byte(ownScenario))
	if err != nil {
		return nil, err
	}
	if err := s.Apply(scenario.Overrides{Store: store}); err != nil {
		return nil, err
	}
	if err := plan.Suits(s, sys); err != nil {
		return nil, err
	}
	return plan.New(*s, 1, sys.Name)
}

// where is the cluster that is wanted. Nodes of Cassandra take a minute to start, so that this is
// only done if somebody asks for it.
func (f ownFlags) where() (string, error) {
	switch {
	case f.cluster != "auto" && f.cluster != "up" && f.cluster != "local":
		return "", usageError(choice.Unknown("cluster", f.cluster, "auto", "up", "local"))
	case f.cluster == "up" && f.nodes.store != "":
		return "", usageError(f.nodes.on(nil))
	case f.cluster != "auto":
		return f.cluster, nil
	case f.nodes.store != "":
		return "local", nil
	}
	return "up", nil
}

// ownCheck looks at what can be seen before anything starts, and then tries the program.
func ownCheck(cmd *cobra.Command, line string, f ownFlags) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	sys, err := system.Find(system.Exec + strings.TrimPrefix(line, system.Exec))
	if err != nil {
		return usageError(err)
	}
	if err := (own.Program{Words: sys.Command, Dir: workDir(ctx)}).Look(); err != nil {
		return usageError(err)
	}
	if f.nodes.store == servers.Cassandra {
		f.nodes.store = ""
	}
	if err := f.nodes.check(); err != nil {
		return err
	}
	p, err := ownPlan(sys, f.nodes.store)
	if err != nil {
		return usageError(err)
	}
	want, err := f.where()
	if err != nil {
		return err
	}
	if err := f.resolve(ctx); err != nil {
		return err
	}
	if f.asJSON {
		cmd.SetOut(io.Discard) // the report is all
	}
	layout := p.Spec.Layout()
	return onSite(cmd, want, f.nodes, []cluster.Layout{layout}, nil, onOne(layout, func(c cluster.Cluster, backend string) error {
		r, err := f.try(ctx, p, sys, c, backend, outputOf(cmd))
		if err != nil {
			return err
		}
		if f.asJSON {
			err = printJSON(out, r)
		} else {
			err = r.print(out)
		}
		if err != nil {
			return err
		}
		return exitWith(ownExits[owncheck.Worst(r.Findings)])
	}))
}

// ownExits are the exit codes of a check that was carried out, by what is worst in it.
var ownExits = map[owncheck.Status]int{owncheck.Wrong: checker.Fail.ExitCode(), owncheck.Unknown: exitNotDone}

// ownReport is what the check found.
type ownReport struct {
	Program  string             `json:"program"`
	Store    string             `json:"store"`
	Run      string             `json:"run"` // its directory
	Findings []owncheck.Finding `json:"findings"`
	// Suit are the scenarios that suit the program, Others those that do not; nil if its setup
	// has not said what it offers.
	Suit   []string     `json:"suit,omitempty"`
	Others []unsuitable `json:"others,omitempty"`
}

// unsuitable are scenarios that do not suit a program, all for one reason.
type unsuitable struct {
	Why       string   `json:"why"`
	Scenarios []string `json:"scenarios"`
}

// try makes the run and judges it.
func (f ownFlags) try(ctx context.Context, p *plan.Plan, sys system.System, c cluster.Cluster, backend string, out *output) (r ownReport, err error) {
	log := progress.New(out.show)
	defer func() { err = errors.Join(ended(log, err), log.Close()) }()
	var trial own.Trial
	var clock owncheck.Clock
	dir, err := run.Run(ctx, run.Options{
		Plan: p, System: sys, Cluster: c, Backend: backend, BinDir: f.bin, RunsDir: f.runs, Versions: versions(c), Dir: workDir(ctx),
		Command: ownCommand(sys, f.nodes.store), Progress: log, Trial: &trial,
		Watch: func(ctx context.Context, dir string, _ func(progress.Violation)) (time.Duration, error) {
			return 0, clock.Watch(ctx, dir)
		},
	})
	linkLatest(f.runs, dir)
	r = ownReport{Program: strings.Join(sys.Command, " "), Store: storeOf(c), Run: dir}
	if trial.Offer != nil {
		r.Suit, r.Others = suited(f.nodes.store, sys, trial.Offer.Points)
	}
	mistake, bad := (*own.Mistake)(nil), (*scenario.InputError)(nil)
	switch {
	case ctx.Err() != nil:
		return r, errors.New("interrupted")
	case errors.As(err, &bad):
		return r, usageError(bad)
	case errors.As(err, &mistake):
		r.Findings = owncheck.OfMistake(dir, mistake, trial)
		return r, nil
	case err != nil:
		return r, err
	}
	exe, err := os.Executable()
	if err != nil {
		return r, err
	}
	res, err := checker.CheckInChild(ctx, exe, dir)
	if err != nil {
		return r, fmt.Errorf("check %s: %w", dir, err)
	}
	h, err := checker.Read(dir)
	if err != nil {
		return r, err
	}
	seen := owncheck.Run{Dir: dir, History: h, Result: res, Trial: trial, Clock: &clock, TTL: p.Spec.Workload.TTL.D(), Store: f.nodes.store}
	r.Findings = seen.Findings(ctx)
	return r, nil
}

// ownCommand is what repeats the check.
func ownCommand(sys system.System, store string) string {
	s := "bin/fencepost own check"
	if store != "" {
		s += " --store=" + store
	}
	return s + " '" + strings.Join(sys.Command, " ") + "'"
}

func storeOf(c cluster.Cluster) string {
	if k, ok := c.(*servers.Cluster); ok {
		return k.Kind.Name
	}
	return servers.Cassandra
}

// suited are the scenarios that suit a program with these points, and the others by why not.
func suited(store string, sys system.System, points []control.Point) (suit []string, others []unsuitable) {
	for _, name := range scenario.Names() {
		why := unsuited(name, store, sys, points)
		if why == "" {
			suit = append(suit, name)
			continue
		}
		at := slices.IndexFunc(others, func(u unsuitable) bool { return u.Why == why })
		if at < 0 {
			at, others = len(others), append(others, unsuitable{Why: why})
		}
		others[at].Scenarios = append(others[at].Scenarios, name)
	}
	return suit, others
}

// unsuited is why a scenario does not suit a program, "" if it does.
func unsuited(name, store string, sys system.System, points []control.Point) string {
	s, err := scenario.Load(name)
	if err == nil {
		err = s.Apply(scenario.Overrides{Store: store})
	}
	if err == nil {
		err = plan.Suits(s, sys)
	}
	if err != nil {
		why, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), name+": "), ", so system ")
		return why
	}
	for i := range s.Faults {
		for _, p := range s.Faults[i].Points() {
			if !slices.Contains(points, p) {
				return fmt.Sprintf("its faults come at the point %s, which setup does not offer", p)
			}
		}
	}
	return ""
}

// print writes the report for people.
func (r ownReport) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s on %s\n\n", r.Program, r.Store)
	owncheck.Print(w, r.Findings)
	if r.Suit != nil || r.Others != nil {
		fmt.Fprintf(w, "\nscenarios that suit it (%d): %s\n\nand those that do not:\n", len(r.Suit), strings.Join(r.Suit, ", "))
		for _, o := range r.Others {
			fmt.Fprintf(w, "  %s: %s\n", o.Why, strings.Join(o.Scenarios, ", "))
		}
	}
	said := "nothing is wrong"
	switch n := count(r.Findings, owncheck.Wrong); {
	case n == 1:
		said = "1 thing is wrong"
	case n > 1:
		said = fmt.Sprintf("%d things are wrong", n)
	case owncheck.Worst(r.Findings) == owncheck.Unknown:
		said = "nothing is known to be wrong, and not everything could be checked"
	}
	_, err := fmt.Fprintf(w, "\n%s; the run is in %s (%s, %s)\n", said, r.Run, rundir.HistoryDir, rundir.LogDir)
	return err
}

func count(all []owncheck.Finding, s owncheck.Status) (n int) {
	for _, f := range all {
		if f.Status == s {
			n++
		}
	}
	return n
}
