package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"fencepost/checker"
	"fencepost/harness/record/history"
)

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
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(errors.New("lint what? Name a run's directory (runs/latest) or history files"))
			}
			return nil
		},
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
				return &exitError{code: checker.Invalid.ExitCode()}
			}
			fmt.Fprintln(out, "nothing to remark")
			return nil
		},
	}
}
