package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fencepost/reports"
	"fencepost/reports/evidence"
)

// newBenchSeriesCmd draws benchmarks over time.
func newBenchSeriesCmd() *cobra.Command {
	var keep, page string
	cmd := &cobra.Command{
		Use:   "series [DIR|FILE]…",
		Short: "Draw what several benchmarks of the same command line measured, by date and commit",
		Long: `Draws the costs of each arm, and its ratio to the ceiling, over all results of the same
command line (without its seed), by date and commit, with 95 % confidence intervals.

DIR is a benchmark's directory, FILE a file of kept ones, such as results/bench.jsonl. With
--keep the results named are added to a file of kept ones first, and all in it are drawn:
"make nightly" does so every day, in runs/nightly/bench.jsonl.

Exit codes: 0; 64 if there is no benchmark, or one cannot be read.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if keep != "" {
				keep = within(ctx, keep)
			}
			for i := range args {
				args[i] = relativeTo(workDir(ctx), args[i])
			}
			all, err := seriesResults(args, keep)
			if err != nil {
				return err
			}
			if page == "" {
				page = seriesPageOf(append([]string{keep}, args...))
			}
			page = within(ctx, page)
			if err := errors.Join(os.MkdirAll(filepath.Dir(page), 0o755), reports.WriteBenchSeries(page, all)); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d benchmarks: %s\n", len(all), page)
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&keep, "keep", "", "file of kept benchmarks (.jsonl) to add the results to, and to draw all of")
	fl.StringVar(&page, "out", "", "the page to write (default: beside the file of kept ones, with the ending .html; else "+defaultSeries+")")
	return cmd
}

const defaultSeries = "runs/bench-series.html"

// seriesPageOf is where the page goes unless --out says so: beside the first kept file.
func seriesPageOf(paths []string) string {
	for _, p := range paths {
		if base, ok := strings.CutSuffix(p, evidence.Ending); ok {
			return base + ".html"
		}
	}
	return defaultSeries
}

// seriesResults reads the results, and keeps them if that is asked for.
func seriesResults(paths []string, keep string) ([]reports.BenchResult, error) {
	var all []reports.BenchResult
	for _, p := range paths {
		bs, err := seriesIn(p)
		if err != nil {
			return nil, err
		}
		for _, b := range bs {
			all = slices.DeleteFunc(all, func(o reports.BenchResult) bool { return o.Name == b.Name })
			all = append(all, b)
		}
	}
	switch {
	case keep == "" && len(all) == 0:
		return nil, usageError(errors.New("series of what? Name benchmarks' directories, or a file of kept ones such as results/bench.jsonl"))
	case keep == "":
		return all, nil
	case !strings.HasSuffix(keep, evidence.Ending):
		return nil, usageError(fmt.Errorf("--keep=%s: the name must end in %s", keep, evidence.Ending))
	}
	for _, b := range all {
		if err := reports.KeepBench(keep, b); err != nil {
			return nil, err
		}
	}
	return seriesIn(keep)
}

// seriesIn are the results of a path, fit to be drawn.
func seriesIn(path string) ([]reports.BenchResult, error) {
	bs, err := reports.OpenBenches(path)
	for _, b := range bs {
		if b.Name == "" && err == nil {
			err = fmt.Errorf("%s: the benchmark has no name", path)
		}
		if _, wrong := b.Numbers(); err == nil && wrong != nil {
			err = fmt.Errorf("%s: %w", path, wrong)
		}
	}
	if err != nil {
		return nil, usageError(err)
	}
	return bs, nil
}
