package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"fencepost/checker"
	"fencepost/harness/record/history"
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
