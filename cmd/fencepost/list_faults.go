package main

import (
	"fmt"
	"strings"

	"fencepost/harness/fault"
	"fencepost/harness/target/system"
)

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
