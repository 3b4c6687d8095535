package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"fencepost/harness/fault"
	"fencepost/harness/scenario"
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system"
)

func newListCmd() *cobra.Command {
	var markdown, names bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List scenarios, faults, systems under test and sinks",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if markdown {
				return writeScenarios(cmd.OutOrStdout())
			}
			if names {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(sinks.Names()[1:], "\n"))
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "SCENARIO\tWHAT HAPPENS")
			for _, name := range scenario.Names() {
				s, err := scenario.Load(name)
				if err != nil {
					return err
				}
				fmt.Fprintf(w, "%s\t%s\n", name, s.About)
			}
			fmt.Fprintln(w, "\t\nFAULT\tWHAT IT DOES")
			for _, k := range fault.Kinds() {
				fmt.Fprintf(w, "%s\t%s\n", k.Name, k.About)
			}
			fmt.Fprintln(w, "\t\nSYSTEM\tWHAT IT IS")
			for _, s := range system.Designs() {
				fmt.Fprintf(w, "%s\t%s\n", s.Name, s.About)
			}
			for _, s := range system.Directed() {
				name := s.Name
				if s.Case != "" {
					name += ": " + s.Case
				}
				fmt.Fprintf(w, "%s\t%s; %s by %s under %s, %s contention\n", name, s.About, s.Red.Verdict, strings.Join(s.Red.Properties, " or "), s.Red.Scenario, s.Red.Contention)
			}
			fmt.Fprintf(w, "%sCMD\ta program of your own, in any language (docs/own-system.md)\n", system.Exec)
			fmt.Fprintln(w, "\t\nSINK\tWHAT TAKES THE EFFECTS")
			for _, k := range sinks.Kinds() {
				fmt.Fprintf(w, "%s\t%s\n", k.Name, k.About)
			}
			if err := w.Flush(); err != nil {
				return err
			}
			names, err := scenario.WithoutControl()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nOn an external cluster (--cluster=external) run: %s\n", strings.Join(names, ", "))
			return err
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print the page docs/scenarios.md: the scenarios, their faults, and what turns them red")
	cmd.Flags().BoolVar(&names, "sinks", false, "print the names of the sinks alone, without the default, for scripts")
	return cmd
}
