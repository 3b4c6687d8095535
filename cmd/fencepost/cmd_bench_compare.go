package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"fencepost/bench"
	"fencepost/internal/terminal"
	"fencepost/reports"
	"fencepost/reports/evidence"
)

func newBenchCompareCmd() *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Compare two benchmarks: which costs, rates and latencies are better or worse",
		Long: fmt.Sprintf(`Compares the arms that two results have in common. OLD and NEW are each a result's directory,
its %s, or a kept result: FILE%s#NAME.

Every quantity of an arm is better, worse or not distinguishable, with the ratio NEW/OLD and
its 95 %% confidence interval, which is never narrower than the difference between an A/A copy
and its original. Only an interval that lies wholly beyond the margin counts: %.0f %% for costs,
%.0f %% for rates and latencies.

Gated costs alone decide the exit code. A rate or latency that is worse is listed as "rate
only": on a shared machine they change from run to run by more than code changes them.

Exit codes: 0 no gated cost is worse; 1 one is; 3 not every gated cost could be compared;
64 bad input. A result that is INVALID is compared, with a warning.`,
			reports.BenchFile, evidence.Ending, 100*reports.KindCost.Margin, 100*reports.KindRate.Margin),
		Args: argsFrom(2, 2, "compare takes two results: fencepost bench compare OLD NEW; each is a result's directory, "+
			"its "+reports.BenchFile+", or FILE"+evidence.Ending+"#NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var results [2]reports.BenchResult
			for i, arg := range args {
				var err error
				if results[i], err = reports.OpenBench(relativeTo(workDir(cmd.Context()), arg)); err != nil {
					return usageError(err)
				}
			}
			c, err := reports.CompareBenches(results[0], results[1])
			if err != nil {
				return usageError(fmt.Errorf("OLD %s, NEW %s: %w", args[0], args[1], err))
			}
			out := cmd.OutOrStdout()
			if asJSON {
				err = printJSON(out, c)
			} else {
				err = c.Print(out, all, terminal.Of(out, environment(cmd.Context())).Verdict)
			}
			return exitOf(compareCode(c), err)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "list what is not distinguishable too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the comparison as JSON, everything in it")
	return cmd
}

// compareCode is the exit code of a comparison.
func compareCode(c reports.BenchComparison) int {
	switch {
	case len(c.Worse()) > 0:
		return bench.ExitViolation
	case c.Ungated:
		return bench.ExitInvalid
	}
	return bench.ExitOK
}
