package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"fencepost/reports"
)

// newReportCmd makes reports again from what is on disk.
func newReportCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "report RUN_DIR…",
		Short: "Make the report of a run or a benchmark again, from its files alone",
		Long: `Make the report of a run or a benchmark again, from its files alone.

RUN_DIR is a run's directory (runs/latest) or a benchmark's. This rewrites, for a
run, report.html, plots/*.svg, operations.csv, latency.csv, timeline.csv and
report.json; for a benchmark bench.html, plots/*.svg, bench.csv and bench_rounds.csv.
Nothing is judged again: that is "fencepost check". How to read a report:
docs/reading-a-report.md.

Exit codes: 0, whatever the verdict; 2 if a file of the run cannot be read (the report
is there and says which); 64 if RUN_DIR is neither a run's nor a benchmark's.`,
		Args: someArgs("report on what? Name a run's directory, such as runs/latest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for _, arg := range args {
				if err := reportOn(cmd.Context(), relativeTo(workDir(cmd.Context()), arg), cmd.OutOrStdout()); err != nil {
					errs = append(errs, err)
				}
			}
			if len(errs) == 1 {
				return errs[0]
			}
			return errors.Join(errs...)
		},
	}
}

// reportOn writes one directory's report and prints where it is.
func reportOn(ctx context.Context, dir string, out io.Writer) error {
	bench := filepath.Join(dir, reports.BenchFile)
	if _, err := os.Stat(bench); err == nil {
		b, err := reports.ReadBench(bench)
		if err != nil {
			return usageError(err)
		}
		if err := reports.WriteBench(dir, b); err != nil {
			return fmt.Errorf("report of %s: %w", dir, err)
		}
		fmt.Fprintf(out, "report: %s\n", filepath.Join(dir, reports.BenchPage))
		return nil
	}
	path, err := reports.WriteRun(ctx, dir)
	if path != "" {
		fmt.Fprintf(out, "report: %s\n", path)
	}
	switch {
	case errors.Is(err, reports.ErrNoRun), errors.Is(err, fs.ErrNotExist) && path == "":
		return usageError(err)
	case err != nil:
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
