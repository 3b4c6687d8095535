package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fencepost/harness/scenario"
	"fencepost/harness/target/system"
)

// repository is its root, seen from this package.
const repository = "../.."

// TestScenariosPage: docs/scenarios.md is what the scenarios and variants give.
func TestScenariosPage(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	if err := writeScenarios(&page); err != nil {
		t.Fatal(err)
	}
	kept := strings.Split(mustRead(t, filepath.Join(repository, "docs/scenarios.md")), "\n")
	for i, want := range strings.Split(page.String(), "\n") {
		if i >= len(kept) || kept[i] != want {
			t.Errorf("docs/scenarios.md is stale (make docs): line %d must be %q", i+1, want)
			break
		}
	}
	if n := strings.Count(page.String(), "\n") + 1; len(kept) > n {
		t.Errorf("docs/scenarios.md is stale (make docs): it has %d lines too many", len(kept)-n)
	}
	// Whoever adds a variant finds it on the page, whatever the file says.
	for _, s := range system.Directed() {
		if want := "SCENARIO=" + s.Red.Scenario + " SYSTEM=" + s.Name + " CONTENTION=" + s.Red.Contention + " "; !strings.Contains(page.String(), want) {
			t.Errorf("%s: the page lacks %q", s.Label(), want)
		}
	}
	// No property goes without a run that must be red for it, but the one that a
	// scenario's own file sets.
	for line := range strings.Lines(page.String()) {
		if strings.HasPrefix(line, "| P") && strings.HasSuffix(line, "| – |\n") && !strings.HasPrefix(line, "| P15 ") {
			t.Errorf("nothing shows that it can fail: %s", line)
		}
	}
}

// Each kind of scenario is in one section of the page.
func TestSectionsHaveAllKinds(t *testing.T) {
	t.Parallel()
	var has []string
	for _, g := range groups {
		has = append(has, g.kinds...)
	}
	var want []string
	for _, k := range scenario.Kinds() {
		want = append(want, k.Name)
	}
	slices.Sort(has)
	slices.Sort(want)
	if !slices.Equal(has, want) {
		t.Errorf("the sections have %v, the kinds are %v", has, want)
	}
}
