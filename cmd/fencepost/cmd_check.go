package main

import (
	"encoding/json"
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
				if !filepath.IsAbs(name) {
					args[i] = relativeTo(workDir(cmd.Context()), name)
				}
			}
			if opts.Memory = memoryMB << 20; memoryMB <= 0 {
				opts.Memory = -1
			}
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
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				if err := enc.Encode(res); err != nil {
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
	f.BoolVar(&child, "child", false, "be the process that checks")
	_ = f.MarkHidden("child")
	f.BoolVar(&watch, "watch", false, "be the process that checks a live run")
	_ = f.MarkHidden("watch")
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
