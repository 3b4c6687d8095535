package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/progress"
	"fencepost/harness/record/rundir"
	"fencepost/reports"
)

// newCheckCmd judges what is recorded, again or for the first time.
func newCheckCmd() *cobra.Command {
	var opts checker.Options
	var memoryMB int64
	var asJSON, child, watch bool
	var out string
	var gate gateFlags
	cmd := &cobra.Command{
		Use:   "check RUN_DIR | FILE…",
		Short: "Judge a recorded history",
		Long: `Judge a recorded history: all properties of docs/properties.md.

RUN_DIR is a run's directory (runs/latest), or a directory of *.jsonl files;
FILE… are the history files of one run. For a run's directory, this rewrites
verdict.json and Porcupine's visualizations.

Exit codes: 0 PASS, 1 FAIL, 2 the check failed, 3 INVALID (the run tested too
little), 4 UNKNOWN (a check did not finish), 64 malformed input.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !child && !watch {
				return usageError(errors.New("check what? Name a run's directory (runs/latest) or history files"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if child {
				return exitWith(checker.ChildMain(cmd.OutOrStdout()))
			}
			if watch {
				return exitWith(checker.WatchMain(cmd.OutOrStdout()))
			}
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			if err := gate.resolve(cmd.Context(), cmd.ErrOrStderr()); err != nil {
				return err
			}
			for i, name := range args {
				args[i] = relativeTo(workDir(cmd.Context()), name)
			}
			opts.Memory = inBytes(memoryMB)
			res, err := opts.CheckInChild(cmd.Context(), exe, args...)
			if err != nil {
				return gate.end([]reports.GateRun{{Name: filepath.Base(args[0]), Err: err.Error()}}, checkError(err))
			}
			if out != "" {
				if err := rundir.WriteJSON(relativeTo(workDir(cmd.Context()), out), res); err != nil {
					return fmt.Errorf("--out: %w", err)
				}
			}
			if asJSON {
				if err := printJSON(cmd.OutOrStdout(), res); err != nil {
					return err
				}
			} else {
				checker.Print(cmd.OutOrStdout(), res)
			}
			run := reports.GateRun{Name: filepath.Base(args[0]), Result: res}
			if dir := checker.RunDir(args...); dir != "" && gate.asked() {
				if run, err = readGateRun(cmd.Context(), dir, res); err != nil {
					return err
				}
			}
			return gate.end([]reports.GateRun{run}, exitWith(res.Verdict.ExitCode()))
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print verdict.json instead of text")
	f.StringVar(&out, "out", "", "write verdict.json to this file too")
	f.DurationVar(&opts.Search, "search", checker.DefaultSearch, "CPU time for all linearizability searches; what only they can judge and is not finished then is UNKNOWN")
	f.DurationVar(&opts.Limit, "limit", checker.DefaultLimit, "time for the whole check")
	f.Int64Var(&memoryMB, "memory", checker.DefaultMemory>>20, "memory for the check in MB; 0: no limit")
	gate.flags(f)
	hidden(f, &child, "child")
	hidden(f, &watch, "watch") // a live run
	return cmd
}

// checkError makes malformed input a usage error.
func checkError(err error) error {
	var format *history.FormatError
	var input *checker.InputError
	if errors.As(err, &format) || errors.As(err, &input) {
		return usageError(err)
	}
	return fmt.Errorf("check: %w", err)
}

// inBytes is the memory that --memory allows a check.
func inBytes(mb int64) int64 {
	if mb <= 0 {
		return -1 // no limit
	}
	return mb << 20
}

// relativeTo resolves a path that the user named from dir.
func relativeTo(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	if wd, err := os.Getwd(); err == nil && wd == dir {
		return name
	}
	return filepath.Join(dir, name)
}

// newLintCmd looks at what a program of a user's own has written, whole run or not.
func newLintCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "lint RUN_DIR | FILE…",
		Short: "Find mistakes in history files that your own program has written",
		Long: `Reads history files as the checker does, and reports what a check would object to:
gaps in ids, operations without an end, times of a wrong clock. These are the rules
by which P14 makes a run INVALID, as far as they need no complete run: one file of one
process is enough. See docs/own-system.md.

Exit codes: 0 no remarks, 3 remarks (runs would be INVALID, or properties not
judged), 64 malformed: the message names file and line.`,
		Args: someArgs("lint what? Name a run's directory (runs/latest) or history files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for i, name := range args {
				args[i] = relativeTo(workDir(cmd.Context()), name)
			}
			h, err := checker.Read(args...)
			if err != nil {
				return usageError(err)
			}
			out := cmd.OutOrStdout()
			for _, head := range h.Headers {
				fmt.Fprintf(out, "%-8s %s\n", head.Proc, history.Tally(h, head.Proc))
			}
			remarks := history.Lint(h).Remarks
			for _, r := range remarks {
				fmt.Fprintln(out, r)
			}
			if h.Torn > 0 {
				fmt.Fprintf(out, "torn last lines: %d (of killed processes; they are dropped)\n", h.Torn)
			}
			if len(remarks) > 0 {
				return exitWith(checker.Invalid.ExitCode())
			}
			fmt.Fprintln(out, "nothing to remark")
			return nil
		},
	}
}

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
