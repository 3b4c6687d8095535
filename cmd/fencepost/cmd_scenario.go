package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"fencepost/harness/plan"
	"fencepost/harness/scenario"
)

// newScenarioCmd looks at scenario files.
func newScenarioCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scenario",
		Short: "Check scenario files, without a cluster",
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "check FILE…",
		Short: "Report mistakes in scenario files, with file and line",
		Long: `Reads scenario files (or shipped scenarios, by name) as "fencepost chaos" does, and draws a
plan from each. No cluster is needed. It reports the first mistake of each file.

Exit codes: 0 all can be run, 64 something is wrong: the message names file and line.`,
		Args: someArgs("check what? Name scenario files, such as scenarios/partition.yaml"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var bad []error
			for _, name := range args {
				s, err := checkedScenario(scenarioIn(workDir(cmd.Context()), name))
				if err != nil {
					bad = append(bad, err)
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", name, s.About)
			}
			if len(bad) > 0 {
				return usageError(errors.Join(bad...))
			}
			return nil
		},
	})
	return cmd
}

// checkedScenario loads a scenario of which a plan can be drawn.
func checkedScenario(name string) (*scenario.Spec, error) {
	s, err := scenario.Load(name)
	if err != nil {
		return nil, err
	}
	_, err = plan.New(*s, 1, "")
	return s, err
}
