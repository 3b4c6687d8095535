package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"fencepost/checker"
	"fencepost/harness/env/cluster/servers"
	"fencepost/harness/fault"
	"fencepost/harness/plan"
	"fencepost/harness/scenario"
	"fencepost/harness/target/system"
	"fencepost/reports/evidence"
)

const pageHead = `# Scenarios and properties

Generated from [the scenario files](../scenarios) and the list of mutants by ` + "`make docs`" + `; do not edit.

Each scenario runs alone, at each contention that it was made for, on the core and on the other
systems that suit it; one with stores only with locks that are kept in one of these. The [tutorial](tutorial.md#6-a-scenario-of-your-own) explains the fields of a
scenario file, [known-broken.md](known-broken.md) and [lock-per-job.md](lock-per-job.md) the systems
named here, [properties.md](properties.md) the properties.

*Red by* names the systems with a known mistake that a run of the scenario must expose, with the
verdict and the property. They show that a green run means something. "–" means that no mistake is
directed at the scenario; it reaches states on which other scenarios prove the checks.
[By property](#properties) lists the same by property.

`

// group is a section of the page, of scenarios of some kinds.
type group struct {
	title, about string
	kinds        []string
}

var groups = []group{
	{"Locks", "Clients take locks, do their work under them, and write its effect to the fenced sink. Contention is the number of locks: low one for each client, medium 10, high 1.",
		[]string{scenario.KindLocks}},
	{"Jobs", "Every worker is a scheduler that enqueues too. Contention is the number of shards: low 32, medium 8, high 1.",
		[]string{scenario.KindJobs, scenario.KindOrders}},
	{"The lock store's own consensus", "Drills without workers, which find a real bug of Cassandra's unsafe Paxos variants ([paxos.md](paxos.md)).",
		[]string{scenario.KindDrill}},
	{"What releases of Cassandra do", "Drills without workers and faults: what becomes of a lease that is written in a certain way ([releases.md](releases.md)). `chaos all` leaves them out.",
		[]string{scenario.KindTrap}},
}

// writeScenarios writes docs/scenarios.md: all built-in scenarios, and what proves
// that each can turn red.
func writeScenarios(w io.Writer) error {
	var specs []*scenario.Spec
	for _, name := range scenario.Names() {
		s, err := scenario.Load(name)
		if err != nil {
			return err
		}
		specs = append(specs, s)
	}
	var b strings.Builder
	b.WriteString(pageHead)
	for _, g := range groups {
		of := slices.DeleteFunc(slices.Clone(specs), func(s *scenario.Spec) bool { return !slices.Contains(g.kinds, s.Kind().Name) })
		fmt.Fprintf(&b, "## %s\n\n%s\n\n| scenario | faults | red by |\n|---|---|---|\n", g.title, g.about)
		for _, s := range of {
			fmt.Fprintf(&b, "| [%s](#%[1]s) | %s | %s |\n", s.Name, orDash(faultNames(s), ", "), orDash(redLabels(s), ", "))
		}
		for _, s := range of {
			if err := writeScenario(&b, s); err != nil {
				return err
			}
		}
		b.WriteByte('\n')
	}
	if err := writeSets(&b, specs); err != nil {
		return err
	}
	writeFaults(&b)
	b.WriteByte('\n')
	writeProperties(&b, specs)
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

const setsHead = `## Workloads

Sets of workload parameters, which a seed draws for some scenarios ([workloads.md](workloads.md)).

| workload | of | what is different | drawn for |
|---|---|---|---|
`

// writeSets writes the table of the sets of workload parameters.
func writeSets(b *strings.Builder, specs []*scenario.Spec) error {
	sets, err := scenario.Sets()
	if err != nil {
		return err
	}
	drawnFor := map[string][]string{}
	for _, s := range specs {
		draws, err := s.Draws()
		if err != nil {
			return err
		}
		for _, name := range draws[1:] {
			drawnFor[name] = append(drawnFor[name], fmt.Sprintf("[%s](#%[1]s)", s.Name))
		}
	}
	b.WriteString(setsHead)
	for _, s := range sets {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", s.Name, s.Kind, s.About, orDash(drawnFor[s.Name], ", "))
	}
	return nil
}

func orDash(of []string, sep string) string {
	if len(of) == 0 {
		return "–"
	}
	return strings.Join(of, sep)
}

// faultNames are the faults of a scenario, each once, in the order of the file.
func faultNames(s *scenario.Spec) []string {
	if s.Swarm != nil {
		return []string{"drawn from the seed"}
	}
	var out []string
	for _, st := range s.Faults {
		if !slices.Contains(out, st.Fault) {
			out = append(out, st.Fault)
		}
	}
	return out
}

// redRun is one run of a scenario that must turn red.
type redRun struct {
	label, options, found string
}

// redRuns are those of all systems; of a drill those on the Paxos variant and the releases that
// it is for.
func redRuns(s *scenario.Spec) (out []redRun) {
	found := fmt.Sprintf("%s by P2", checker.Fail)
	if v := s.Kind().RedOn; v != "" {
		out = append(out, redRun{"Paxos " + v, "PAXOS=" + v, found})
	}
	for _, b := range evidence.Bugs {
		for _, r := range b.Red {
			if r.Scenario == s.Name {
				out = append(out, redRun{"Cassandra " + r.Cassandra, "CASSANDRA=" + r.Cassandra, found})
			}
		}
	}
	for _, d := range slices.Concat(system.Directed(), system.OnStores()) {
		if d.Red.Scenario != s.Name {
			continue
		}
		options := "SYSTEM=" + d.Name + " CONTENTION=" + d.Red.Contention
		if d.Inert != "" && d.Store != "" { // the system's name does not say it
			options += " STORE=" + d.Store
		}
		if d.Red.Workload != "" {
			options += " WORKLOAD=" + d.Red.Workload
		}
		out = append(out, redRun{d.Label(), options,
			fmt.Sprintf("%s by %s: %s", d.Red.Verdict, strings.Join(d.Red.Properties, " or "), d.About)})
	}
	return out
}

func redLabels(s *scenario.Spec) []string {
	var out []string
	for _, r := range redRuns(s) {
		out = append(out, r.label)
	}
	return out
}

func writeScenario(b *strings.Builder, s *scenario.Spec) error {
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n```console\n", s.Name, s.About)
	if plan.OnCore(s) {
		fmt.Fprintf(b, "$ make chaos SCENARIO=%s\n", s.Name)
	}
	for _, r := range redRuns(s) {
		fmt.Fprintf(b, "$ make chaos SCENARIO=%s %s   # %s\n", s.Name, r.options, r.found)
	}
	b.WriteString("```\n")
	if !s.Kind().Workers {
		return nil
	}
	b.WriteByte('\n')
	if !plan.OnCore(s) {
		fmt.Fprintf(b, "- stores: %s\n", strings.Join(stores(s), ", "))
	}
	if l := s.Layout(); len(l) > 1 {
		fmt.Fprintf(b, "- cluster: %s, each with every row; the workers are in the first one and agree there (`CLUSTER=local`, or `make up DATACENTERS=%s`)\n", l.Words(), l)
	}
	fmt.Fprintf(b, "- load: %s\n- contention: %s; %s unless another is asked for\n", s.Load(), strings.Join(s.Contentions(), ", "), s.Workload.Contention)
	if len(s.Workloads) > 0 {
		draws, err := s.Draws()
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "- workloads: %s\n", strings.Join(draws, ", "))
	}
	switch {
	case s.Swarm != nil:
		fmt.Fprintf(b, "- faults: drawn from the seed, for %s\n", s.Swarm.For.D())
	case len(s.Faults) == 0:
		b.WriteString("- faults: none\n")
	}
	for _, st := range s.Faults {
		fmt.Fprintf(b, "- fault: %s\n", stepText(st))
	}
	for _, p := range s.Expect.Progress {
		fmt.Fprintf(b, "- progress under %s: %s\n", p.Fault, progressText(s, p))
	}
	for _, t := range s.Expect.Thresholds {
		fmt.Fprintf(b, "- threshold: %s\n", t)
	}
	for _, l := range []struct {
		name   string
		points []string
	}{{"must reach", s.Expect.Must}, {"sometimes reaches", s.Expect.Sometimes}} {
		if len(l.points) > 0 {
			fmt.Fprintf(b, "- %s: %s\n", l.name, strings.Join(l.points, ", "))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.Expect.Exempt)) {
		fmt.Fprintf(b, "- exempt from %s: %s\n", id, s.Expect.Exempt[id])
	}
	return nil
}

// stores are those whose servers can have a scenario's faults.
func stores(s *scenario.Spec) (out []string) {
	for _, k := range servers.Kinds() {
		if on := *s; runsOn(&on, k.Name) {
			out = append(out, k.Name)
		}
	}
	return out
}

// progressText says what must get done while a fault is in force.
func progressText(s *scenario.Spec, p scenario.Progress) string {
	if p.Exempt != "" {
		return "nothing is demanded: " + p.Exempt
	}
	who := ""
	if p.Group != "" {
		who = " of the " + p.Group
	}
	return fmt.Sprintf("at least %d cycles%s, and no lock or shard without one for longer than %s", p.MinCycles[s.Workload.Contention], who, p.LongestGap)
}

// stepText says what a step does, to whom and when.
func stepText(st scenario.Step) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, of %s", st.Fault, strings.Join(st.Targets, ", "))
	if st.InTurn {
		b.WriteString(" in turn")
	}
	for _, p := range fault.Params {
		if given := p.Of(st.Spec); given != "" {
			b.WriteString(", " + given)
		}
	}
	if t := st.On; t != nil {
		fmt.Fprintf(&b, ", when a client is at `%s`", t.Point)
		if t.Worker != "" {
			fmt.Fprintf(&b, " in %s", t.Worker)
		}
		if t.Hold > 0 {
			fmt.Fprintf(&b, " (and stays there for %s)", t.Hold.D())
		}
	}
	if st.At > 0 || st.On == nil {
		fmt.Fprintf(&b, ", at %s", st.At.D())
	}
	fmt.Fprintf(&b, ", for %s", st.For.D())
	if u := st.Until; u != nil {
		fmt.Fprintf(&b, " and until a client of another worker is at `%s` there (and stays for %s)", u.Point, u.Stay.D())
	}
	if st.Repeat > 1 {
		fmt.Fprintf(&b, ", %d times", st.Repeat)
	}
	if st.Lane != "" {
		fmt.Fprintf(&b, ", in lane %s", st.Lane)
	}
	return b.String()
}
