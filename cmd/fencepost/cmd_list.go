package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"fencepost/checker"
	"fencepost/harness/fault"
	"fencepost/harness/plan"
	"fencepost/harness/record/progress"
	"fencepost/harness/scenario"
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system"
)

func newListCmd() *cobra.Command {
	var markdown, names bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List scenarios, faults, systems under test, sets of workload parameters and sinks",
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
				fmt.Fprintf(w, "%s\t%s; %s by %s under %s, %s contention%s\n", name, s.About, s.Red.Verdict, strings.Join(s.Red.Properties, " or "), s.Red.Scenario, s.Red.Contention,
					progress.WorkloadText(s.Red.Workload))
			}
			fmt.Fprintf(w, "%sCMD\ta program of your own, in any language (docs/own-system.md)\n", system.Exec)
			sets, err := scenario.Sets()
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "\t\nWORKLOAD\tWHAT IS DIFFERENT\n%s\tthe parameters in the scenario's file\n", scenario.Plain)
			for _, s := range sets {
				fmt.Fprintf(w, "%s\tof %s: %s\n", s.Name, s.Kind, s.About)
			}
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

const faultsHead = `
## Faults

What each fault does, and which proof a run needs to count (P14; without it the run is INVALID). The
harness takes the proof itself, from the kernel, from the links, by its own connections and reads,
before, during and after the fault; never from the word of a process under test. *Not done by* names
the mutant of the harness that reports the fault without doing it.

| fault | of | does | parameters | needs | proof | not done by |
|---|---|---|---|---|---|---|
`

// writeFaults writes the table of all faults with their proofs.
func writeFaults(b *strings.Builder) {
	b.WriteString(faultsHead)
	inert := map[string]system.System{}
	for _, v := range system.Broken() {
		inert[v.Name] = v
	}
	for _, k := range fault.Kinds() {
		v := inert[k.Family.Inert()]
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | [%s](#%s) |\n",
			k.Name, k.On, k.About, orDash(k.Params, ", "), orDash(k.Needs.Words(), ", "), k.Proof, v.Label(), v.Red.Scenario)
	}
	b.WriteString("\nTheir parameters:\n\n")
	for _, p := range fault.Params {
		fmt.Fprintf(b, "- `%s`: %s\n", p.Name, p.Means)
	}
	b.WriteString("\nThe words in italics:\n\n")
	for _, t := range fault.Terms {
		fmt.Fprintf(b, "- *%s*: %s\n", t.Name, t.Text)
	}
}

const propertiesHead = `## Properties

What every run checks ([properties.md](properties.md)), and the systems with a known mistake for which
it must be red: alone, or (*perhaps*) with another property that may show the same mistake first. (The
scenarios named paxos-… are red with Cassandra's own unsafe Paxos variant.) P15 is about thresholds,
which a scenario file sets and unit tests exceed.

| id | property | must be red for |
|---|---|---|
`

// writeProperties writes the properties, each with what proves that it can fail.
func writeProperties(b *strings.Builder, specs []*scenario.Spec) {
	b.WriteString(propertiesHead)
	for _, p := range checker.Catalogue() {
		var alone, beside []string
		for _, s := range system.Directed() {
			link := fmt.Sprintf("[%s](#%s)", s.Label(), s.Red.Scenario)
			switch {
			case !slices.Contains(s.Red.Properties, p.ID):
			case len(s.Red.Properties) == 1:
				alone = append(alone, link)
			default:
				beside = append(beside, link)
			}
		}
		if p.ID == "P2" {
			for _, s := range specs {
				if s.Kind().RedOn != "" {
					alone = append(alone, fmt.Sprintf("[%s](#%[1]s)", s.Name))
				}
			}
		}
		if len(beside) > 0 {
			alone = append(alone, "perhaps "+strings.Join(beside, ", "))
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", p.ID, p.Title, orDash(alone, ", "))
	}
	writeExemptions(b, specs)
}

const exemptHead = `
## Exemptions

Something must be checked of each property that the system promises, or the run is INVALID. These
scenarios cannot exercise a property, for the reason that their files give (` + "`expect: exempt:`" + `).
[properties.md](properties.md) says which properties are only for jobs, orders or thresholds; the
scenarios named paxos-… promise P1, P2, P8 and P9 only.

| property | scenario | reason |
|---|---|---|
`

// writeExemptions writes what no run of a scenario can show.
func writeExemptions(b *strings.Builder, specs []*scenario.Spec) {
	b.WriteString(exemptHead)
	for _, p := range checker.Catalogue() {
		for _, s := range specs {
			if why := s.Expect.Exempt[p.ID]; why != "" {
				fmt.Fprintf(b, "| %s | [%s](#%[2]s) | %s |\n", p.ID, s.Name, why)
			}
		}
	}
	b.WriteByte('\n')
}

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
