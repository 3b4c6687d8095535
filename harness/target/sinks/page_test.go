package sinks

import (
	"os"
	"testing"

	"fencepost/internal/docpage"
)

// TestPage: docs/cli.md lists the kinds, and each leads to its package.
func TestPage(t *testing.T) {
	t.Parallel()
	table := "| sink | what it is | a worker's way to it | if it is missing |\n|---|---|---|---|\n"
	for n, k := range Kinds() {
		pkg := "../core/sink/" + k.Name + "/doc.go"
		if _, err := os.Stat("../../" + pkg); err != nil {
			t.Error(err)
		}
		way, name := "one link to it", "[`"+k.Name+"`]("+pkg+")"
		if k.Start == nil {
			way = "a link of its own to each node, apart from those of the lock store"
		}
		if n == 0 {
			name += " (the default)"
		}
		table += docpage.Row(name, k.About, way, k.Remedy)
	}
	docpage.Check(t, "cli.md", "sinks", table)
}
