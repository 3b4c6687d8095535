package run

import (
	"strings"
	"testing"

	"fencepost/harness/plan"
	"fencepost/harness/scenario"
	"fencepost/harness/target/system"
)

// Every pair of a scenario and a system that suit each other can be run, and no other kinds
// of pairs are there.
func TestTargets(t *testing.T) {
	t.Parallel()
	systems := append(system.Designs(), system.System{Name: "exec:true", Command: []string{"true"}})
	used := map[string]bool{}
	for _, name := range scenario.Names() {
		s, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, sys := range systems {
			kind := s.Kind().Name
			if plan.Suits(s, sys) != nil {
				continue
			}
			used[kind+" on "+sys.Design()] = true
			if targets[kind][sys.Design()] == nil {
				t.Errorf("%s suits %s, and nothing runs %s on it", name, sys.Name, kind)
			}
		}
	}
	for kind, designs := range targets {
		for design := range designs {
			if !used[kind+" on "+design] {
				t.Errorf("no scenario has %s on %s", kind, design)
			}
		}
	}
}

// A run of a system that the scenario does not suit is refused before anything is made.
func TestRunRefuses(t *testing.T) {
	t.Parallel()
	sys, err := system.Find(system.LockPerJob)
	if err != nil {
		t.Fatal(err)
	}
	steady, err := scenario.Load("steady")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), Options{Plan: &plan.Plan{Spec: *steady}, System: sys}); err == nil || !strings.Contains(err.Error(), "has no jobs") {
		t.Errorf("Run: %v", err)
	}
}
