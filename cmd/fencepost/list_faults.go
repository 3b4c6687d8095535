package main

import (
	"fmt"
	"strings"

	"fencepost/harness/fault"
	"fencepost/harness/target/system"
)

const faultsHead = `
## Faults

What each fault does, and what a run must have seen of it to count (P14; else it is INVALID). The harness takes the proof itself: from the kernel, from the links, by
connections and reads of its own, before the fault, during it and after it; never from the word of a process under test. *Not done by* names the known-broken harness
that says that it did the fault and did not.

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
