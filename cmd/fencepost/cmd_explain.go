package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"fencepost/checker"
	"fencepost/harness/record/progress"
	"fencepost/harness/record/rundir"
)

func newExplainCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain RUN_DIR",
		Short: "Explain why a run is not PASS: which mistake fits, and how it came about",
		Long: `Looks in a checked run's history for the mechanism behind its verdict: which property,
which operations (with file and line), which fault was active, which earlier event
made it possible, and what the processes' logs say around that instant. Where several
mechanisms fit, all are named, with what would tell them apart (docs/explain.md).

It reads only the run's files, and neither the name of the system nor of the scenario.
It does not judge the run again: that is "fencepost check".

Exit codes: 0, whatever the verdict; 2 if a file of the run cannot be read; 64 if RUN_DIR
is not the directory of a run that was checked.`,
		Args: oneArg("explain takes one argument: the directory of a run, such as runs/latest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := within(cmd.Context(), args[0])
			e, err := explain(dir)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), e)
			}
			checker.PrintExplanation(cmd.OutOrStdout(), e, args[0])
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

// explain explains a run's directory from its files.
func explain(dir string) (*checker.Explanation, error) {
	res, err := verdictIn(dir)
	switch {
	case err != nil:
		return nil, err
	case res == nil:
		return nil, usageError(notJudged(dir))
	}
	h, err := checker.Read(dir)
	if err != nil {
		return nil, checkError(err)
	}
	e := checker.Explain(h, res, checker.Options{Dir: dir})
	return e, e.AddLogs(dir, h)
}

// notJudged says why there is no verdict in a directory.
func notJudged(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no %s: the last run may not have started", dir)
	}
	events, err := progress.Read(filepath.Join(dir, rundir.ProgressFile), 0)
	if n := len(events); err == nil && n > 0 && events[n-1].Kind == progress.KindError {
		return fmt.Errorf("%s has no verdict, as the run could not be carried out: %s", dir, events[n-1].Text)
	}
	return fmt.Errorf("%s has no %s, so there is nothing to explain: check it first (fencepost check %s)", dir, rundir.VerdictFile, dir)
}
