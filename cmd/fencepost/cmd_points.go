package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"fencepost/harness/plan"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/reports"
	"fencepost/reports/evidence"
	"fencepost/reports/measure"
)

func newPointsCmd(runs *string) *cobra.Command {
	var results string
	cmd := &cobra.Command{
		Use:   "points [SET | DIR…]",
		Short: "Print which points faults waited for, which were reached, and what happened there",
		Long: `Faults can wait until a client reaches a point in its life. This prints a row for every
point: how often runs armed it, how often a client came, under which fault, and what became
of the operation that was under way there. It is read from the histories; a cell "0 of 2 !"
is a point that their plans have and nobody reached.

SET is a set of evidence, of whose stored results those of this code are summed up. DIR is a
file of results (…` + evidence.Ending + `), a run's directory, an archive (…` + rundir.ArchiveEnding + `), or a directory of runs
with both. Without any it is --runs.

Exit codes: 0; 2 a history is missing or cannot be read; 64 bad input.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if err := runsIn(cmd, *runs); err != nil {
					return err
				}
				args = []string{*runs}
			}
			return printPoints(cmd.Context(), cmd.OutOrStdout(), recheckFlags{results: results, runs: *runs}, args)
		},
	}
	cmd.Flags().StringVar(&results, "results", "results", "directory of the stored results")
	return cmd
}

// printPoints prints the table of all that the arguments name.
func printPoints(ctx context.Context, out io.Writer, f recheckFlags, args []string) error {
	f.results, f.runs = within(ctx, f.results), within(ctx, f.runs)
	var all []evidence.Result
	var errs []error
	for _, arg := range args {
		if file := f.stored(ctx, arg); file != "" {
			some, err := evidence.NewStore(file).All()
			if err != nil {
				return usageError(err)
			}
			mine := ofToday(some)
			if len(mine) < len(some) {
				fmt.Fprintf(out, "%s: %d of %d results are of other code and not in the table\n", arg, len(some)-len(mine), len(some))
			}
			withPlans(mine)
			all = append(all, mine...)
			continue
		}
		records, err := f.records(ctx, arg)
		if err != nil {
			return err
		}
		for _, r := range records {
			switch p, err := recordedPoints(r); {
			case errors.Is(err, errNotChecked):
				fmt.Fprintf(out, "%s is not in the table: %v\n", r.name, err)
			case err != nil:
				errs = append(errs, fmt.Errorf("%s: %w", r.name, err))
			default:
				all = append(all, p)
			}
		}
	}
	return errors.Join(append(errs, reports.NewPointTable(all).Print(out))...)
}

// stored is the file of results that an argument names, "" if it names none.
func (f recheckFlags) stored(ctx context.Context, arg string) string {
	if _, err := evidence.FindSet(arg); err == nil {
		return filepath.Join(f.results, reports.KeptEvidence, arg+evidence.Ending)
	}
	if path := relativeTo(workDir(ctx), arg); filepath.Ext(path) == evidence.Ending {
		return path
	}
	return ""
}

// errNotChecked: a run that was cut short, or is not over.
var errNotChecked = errors.New("it was never checked")

// recordedPoints are the points in the history of one run, and in its plan.
func recordedPoints(r record) (out evidence.Result, err error) {
	tmp, err := os.MkdirTemp("", "fencepost-points-")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(tmp)
	dir, _, err := r.open(tmp)
	if err != nil {
		return out, err
	}
	if dir == "" {
		return out, errNotChecked
	}
	h, err := history.ReadDir(filepath.Join(dir, rundir.HistoryDir))
	if err != nil {
		return out, err
	}
	out.Points = measure.Reaches(h, h.Operations())
	p, err := plan.Read(filepath.Join(dir, rundir.PlanFile))
	if err != nil {
		return out, err
	}
	out.Meant = meant(p)
	return out, nil
}

// withPlans adds to stored results what their scenarios are about and the points of their plans,
// which are drawn from the scenario, seed and system again.
func withPlans(all []evidence.Result) {
	for i, r := range all {
		_, s, drawn, err := planOf(r.Job)
		if s != nil {
			all[i].Info.About = s.About
		}
		if err == nil {
			all[i].Meant = meant(drawn)
		}
	}
}

// meant are the points for which the faults of a plan wait.
func meant(p *plan.Plan) (out []measure.Reach) {
	for _, st := range p.Steps {
		if st.On != nil {
			out = append(out, measure.Reach{Point: string(st.On.Point), Fault: st.Fault, Armed: len(st.IDs)})
		}
		if st.Until != nil {
			out = append(out, measure.Reach{Point: string(st.Until.Point), Fault: measure.EndOf(st.Fault), Armed: len(st.IDs)})
		}
	}
	return measure.SumReaches(out)
}
