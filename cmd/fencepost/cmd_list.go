package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"fencepost/checker"
	"fencepost/harness/env/cluster"
	"fencepost/harness/env/cluster/servers"
	"fencepost/harness/fault"
	"fencepost/harness/plan"
	"fencepost/harness/record/progress"
	"fencepost/harness/scenario"
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system"
	"fencepost/internal/choice"
)

// listing is a part of what list prints.
type listing struct {
	name  string
	head  string // of its table
	lines func(w io.Writer, store string) error
}

// listings are all there are, in the order in which list prints them.
var listings = []listing{
	{"scenarios", "SCENARIO\tWHAT HAPPENS", listScenarios},
	{"faults", "FAULT\tWHAT IT DOES", func(w io.Writer, _ string) error {
		for _, k := range fault.Kinds() {
			fmt.Fprintf(w, "%s\t%s\n", k.Name, k.About)
		}
		return nil
	}},
	{"systems", "SYSTEM\tWHAT IT IS", listSystems},
	{"workloads", "WORKLOAD\tWHAT IS DIFFERENT", func(w io.Writer, _ string) error {
		sets, err := scenario.Sets()
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\tthe parameters in the scenario's file\n", scenario.Plain)
		for _, s := range sets {
			fmt.Fprintf(w, "%s\tof %s: %s\n", s.Name, s.Kind, s.About)
		}
		return nil
	}},
	{"sinks", "SINK\tWHAT TAKES THE EFFECTS", func(w io.Writer, _ string) error {
		for _, k := range sinks.Kinds() {
			fmt.Fprintf(w, "%s\t%s\n", k.Name, k.About)
		}
		return nil
	}},
	{"stores", "STORE\tWHERE LOCKS ARE KEPT", func(w io.Writer, _ string) error {
		fmt.Fprintf(w, "%s\tthree nodes of Cassandra, release %s unless --cassandra names another\n", servers.Cassandra, cluster.DefaultRelease)
		for _, k := range servers.Kinds() {
			fmt.Fprintf(w, "%s\t%s\n", k.Name, k.About)
		}
		return nil
	}},
}

func newListCmd() *cobra.Command {
	var markdown, names bool
	var store string
	var parts []string
	for _, l := range listings {
		parts = append(parts, l.name)
	}
	cmd := &cobra.Command{
		Use:   "list [" + strings.Join(parts, "|") + "]",
		Short: "List scenarios, faults, systems under test, sets of workload parameters, sinks and stores",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			switch {
			case len(args) > 0 && !slices.Contains(parts, args[0]):
				return usageError(choice.Unknown("list", args[0], parts...))
			case (markdown || names) && (len(args) > 0 || store != ""):
				return usageError(errors.New("--markdown and --sinks print all of what they print"))
			case store != "" && len(args) > 0 && args[0] != "scenarios" && args[0] != "systems":
				return usageError(fmt.Errorf("--store=%s is for scenarios and systems", store))
			case markdown:
				return writeScenarios(out)
			case names:
				_, err := fmt.Fprintln(out, strings.Join(sinks.Names()[1:], "\n"))
				return err
			}
			if store != "" && store != servers.Cassandra {
				if _, err := servers.Of(store); err != nil {
					return usageError(err)
				}
			}
			w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
			for i, l := range listings {
				if len(args) > 0 && args[0] != l.name {
					continue
				}
				if i > 0 && len(args) == 0 {
					fmt.Fprint(w, "\t\n")
				}
				fmt.Fprintln(w, l.head)
				if err := l.lines(w, store); err != nil {
					return err
				}
			}
			if err := w.Flush(); err != nil || len(args) > 0 {
				return err
			}
			names, err := scenario.WithoutControl()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "\nOn an external cluster (--cluster=external) run: %s\n", strings.Join(names, ", "))
			return err
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print the page docs/scenarios.md: the scenarios, their faults, and what turns them red")
	cmd.Flags().BoolVar(&names, "sinks", false, "print the names of the sinks alone, without the default, for scripts")
	cmd.Flags().StringVar(&store, "store", "", "only scenarios that a program of your own can run on this store, and systems that keep their locks there")
	return cmd
}

// listScenarios lists those that a program can run on the store, "" for all there are.
func listScenarios(w io.Writer, store string) error {
	for _, name := range scenario.Names() {
		s, err := scenario.Load(name)
		if err != nil {
			return err
		}
		if store != "" && !runsOn(s, store) {
			continue
		}
		fmt.Fprintf(w, "%s\t%s\n", name, s.About)
	}
	return nil
}

// runsOn says whether a program of one's own can run the scenario on a store.
func runsOn(s *scenario.Spec, store string) bool {
	sys := system.System{Name: system.Exec + "CMD", Command: []string{"CMD"}}
	return s.Apply(scenario.Overrides{Store: store}) == nil && plan.Suits(s, sys) == nil
}

// listSystems lists those that keep their locks in the store, "" for all.
func listSystems(w io.Writer, store string) error {
	elsewhere := func(s system.System) bool { return store != "" && cmp.Or(s.Store, servers.Cassandra) != store }
	for _, s := range system.Designs() {
		if !elsewhere(s) {
			fmt.Fprintf(w, "%s\t%s\n", s.Name, s.About)
		}
	}
	for _, s := range slices.Concat(system.Directed(), system.OnStores()) {
		if elsewhere(s) {
			continue
		}
		name := s.Name
		if s.Case != "" {
			name += ": " + s.Case
		}
		fmt.Fprintf(w, "%s\t%s; %s by %s under %s, %s contention%s\n", name, s.About, s.Red.Verdict, strings.Join(s.Red.Properties, " or "), s.Red.Scenario, s.Red.Contention,
			progress.WorkloadText(s.Red.Workload))
	}
	fmt.Fprintf(w, "%sCMD\ta program of your own, in any language (docs/own-system.md)\n", system.Exec)
	return nil
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
scenarios named paxos-… are red with Cassandra's own unsafe Paxos variant, some of those named trap-… on
releases of Cassandra.) P15 is about thresholds,
which a scenario file sets and unit tests exceed.

| id | property | must be red for |
|---|---|---|
`

// writeProperties writes the properties, each with what proves that it can fail.
func writeProperties(b *strings.Builder, specs []*scenario.Spec) {
	b.WriteString(propertiesHead)
	for _, p := range checker.Catalogue() {
		var alone, beside []string
		for _, s := range slices.Concat(system.Directed(), system.OnStores()) {
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
scenarios named paxos-… and trap-… promise P1, P2, P8 and P9 only.

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
