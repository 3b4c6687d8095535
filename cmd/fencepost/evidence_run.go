package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"fencepost/harness/fault"
	"fencepost/harness/plan"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/harness/run"
	"fencepost/harness/scenario"
	"fencepost/harness/target/system"
	"fencepost/internal/terminal"
	"fencepost/reports"
	"fencepost/reports/evidence"

	"github.com/spf13/pflag"
)

// runner is what evidence, power and soak share.
type runner struct {
	place
	results string
	verbose bool
}

// flags adds the flags; results is the default of --results.
func (r *runner) flags(fl *pflag.FlagSet, results string) {
	r.place.flags(fl, clusterUsage, "runs")
	fl.StringVar(&r.results, "results", results, "directory of the results; each set has a file in it")
	fl.BoolVar(&r.verbose, "verbose", false, "show every run as chaos does")
}

// loop returns a loop that carries runs out at a site and keeps its cluster healthy.
func (r runner) loop(store *evidence.Store, s *site, out *output) *evidence.Loop {
	if why := (maker{versions: built()}).unknown(); why != "" {
		fmt.Fprintf(out, "note: what is stored is %s, so fencepost results will refuse what of it is as it should be\n", why)
	}
	return &evidence.Loop{
		Store: store, Show: out.show, Run: r.runAt(s, out), Tree: today(), Plan: planDigest,
		Heal: func(ctx context.Context) error {
			if s.cluster == nil {
				return nil // the next run starts one
			}
			return heal(ctx, s.cluster)
		},
	}
}

// builtFor refuses jobs of systems that are not built.
func (r runner) builtFor(jobs []evidence.Job) error {
	for _, j := range jobs {
		sys, err := system.Find(j.System)
		if err == nil {
			err = builtHere(sys, r.bin)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// onFreshServers is run, where each job whose locks are on another store than Cassandra begins with servers of
// its own.
func onFreshServers(s *site, run func(context.Context, evidence.Job) (evidence.Result, error)) func(context.Context, evidence.Job) (evidence.Result, error) {
	return func(ctx context.Context, j evidence.Job) (evidence.Result, error) {
		if onStore(j) {
			if err := s.close(); err != nil {
				return evidence.Result{}, fmt.Errorf("end the servers before: %w", err)
			}
		}
		return run(ctx, j)
	}
}

// resolve makes the paths absolute.
func (r *runner) resolve(ctx context.Context, set string) error {
	r.results = filepath.Join(within(ctx, r.results), set+evidence.Ending)
	return r.place.resolve(ctx)
}

// consoleFile keeps, in the directory of a run that stays, what the run printed.
const consoleFile = "console.txt"

// keepConsole stores what a run printed; nothing if it has no directory or was silent.
func keepConsole(dir string, console *bytes.Buffer) error {
	if dir == "" || console.Len() == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, rundir.LogDir, consoleFile), console.Bytes(), 0o644)
}

// runAt returns the function that carries out one job at a site.
func (r runner) runAt(s *site, out *output) func(context.Context, evidence.Job) (evidence.Result, error) {
	return func(ctx context.Context, j evidence.Job) (evidence.Result, error) {
		var res evidence.Result
		sys, spec, drawn, err := planOf(j)
		if err != nil {
			return res, err
		}
		nodes := nodeChoice{store: sys.Store, release: j.Cassandra, clocks: drawn.SetsServerClocks()}
		c, err := s.of(nodes, spec.Layout())
		if err != nil {
			return res, err
		}
		var console bytes.Buffer
		to := textOutput(&console, terminal.Style{})
		if r.verbose {
			to = out
		}
		f, made := chaosFlags{nodes: nodeChoice{release: j.Cassandra}}, versions(c)
		made[evidence.PlanKey] = drawn.Digest()
		dir, verdict, err := carryOut(ctx, run.Options{
			Plan: drawn, System: sys, Cluster: c, Backend: s.backend, BinDir: r.bin, RunsDir: r.runs,
			Command: f.command(job{drawn.Spec.Name, drawn, sys, len(spec.Workloads) > 0}), Versions: made,
		}, to)
		res.Dir = dir
		err = errors.Join(err, keepConsole(dir, &console))
		if dir != "" {
			info, infoErr := rundir.ReadInfo(dir)
			res.Info, err = info, errors.Join(err, infoErr)
		}
		if err != nil {
			return res, err
		}
		res.Verdict, res.Check = verdict.Verdict, evidence.Condense(*verdict)
		return res, measured(dir, &res)
	}
}

// planDigest is the digest of the plan that a job has with this tool; "" if it has none.
func planDigest(j evidence.Job) string {
	_, _, drawn, err := planOf(j)
	if err != nil {
		return ""
	}
	return drawn.Digest()
}

// ofToday are the results that count for this tool.
func ofToday(all []evidence.Result) []evidence.Result {
	return evidence.Current(all, today(), planDigest)
}

// planOf makes a job's plan, with the system that it is for.
func planOf(j evidence.Job) (sys system.System, spec *scenario.Spec, drawn *plan.Plan, err error) {
	if sys, err = system.Find(j.System); err != nil {
		return
	}
	if spec, err = scenario.Load(j.Scenario); err != nil {
		return
	}
	if spec, err = plan.Choose(spec, j.Seed, "", sys); err != nil {
		return
	}
	override := scenario.Overrides{Contention: j.Contention, Sink: j.Sink, Store: sys.Store, Redelivery: sys.Redelivery}
	if j.Contention == evidence.NoContention {
		override.Contention = ""
	}
	if err = spec.Apply(override); err != nil {
		err = fmt.Errorf("%s: %w", j.Scenario, err)
		return
	}
	if err = plan.Suits(spec, sys); err != nil {
		return
	}
	if j.Inert {
		sys.Inert = string(fault.EveryFamily)
	}
	drawn, err = plan.New(*spec, j.Seed, sys.Name)
	return
}

// measured adds what the run's report and history say. A run without a report
// has no such numbers; its page said why.
func measured(dir string, res *evidence.Result) error {
	x, err := harnessEvent(dir, func(e *history.Event) bool { return e.Op == history.NoteExpect && e.Expect() != nil })
	if err != nil {
		return err
	}
	if x != nil { // without one the checker has judged what the record lacks
		res.Sometimes = x.Expect().Sometimes
	}
	var rep reports.Report
	switch err := rundir.ReadJSON(filepath.Join(dir, reports.JSONFile), &rep); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	rep.AddTo(res)
	return nil
}

// harnessEvent is the first event of the harness's own record that is wanted; nil if
// there is none.
func harnessEvent(dir string, wanted func(*history.Event) bool) (*history.Event, error) {
	f, err := os.Open(filepath.Join(dir, rundir.HistoryDir, "harness.jsonl"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dec := json.NewDecoder(f)
	for {
		var e history.Event
		switch err := dec.Decode(&e); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // a torn last line is no event
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		case wanted(&e):
			return &e, nil
		}
	}
}

// writeEvidencePage writes the page of a set's results of this code, "" if it has none at all.
func writeEvidencePage(store *evidence.Store, tree string) (string, error) {
	all, err := store.All()
	if err != nil || len(all) == 0 {
		return "", err
	}
	withPlans(all)
	return reports.WriteEvidence(store.File(), all, tree)
}
