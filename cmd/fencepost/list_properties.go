package main

import (
	"fmt"
	"slices"
	"strings"

	"fencepost/checker"
	"fencepost/harness/scenario"
	"fencepost/harness/target/system"
)

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
