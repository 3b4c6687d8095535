package plan

import (
	"slices"
	"strings"
	"testing"

	"fencepost/harness/scenario"
	"fencepost/harness/target/system"
)

// The seed draws every set that a scenario names, always the same one, and a name fixes one.
func TestChoose(t *testing.T) {
	t.Parallel()
	core, err := system.Find(system.Core)
	if err != nil {
		t.Fatal(err)
	}
	s := loaded(t, "jobs-steady")
	draws, err := s.Draws()
	if err != nil || len(draws) < 2 {
		t.Fatalf("%v, %v", draws, err)
	}
	seen := map[string]bool{}
	for seed := range uint64(20 * len(draws)) {
		a, err := Choose(s, seed, "", core)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Choose(s, seed, "", core)
		if err != nil || a.Set() != b.Set() {
			t.Fatalf("seed %d draws %s and %s, %v", seed, a.Set(), b.Set(), err)
		}
		p, err := New(*a, seed, core.Name)
		if err != nil || p.Workload != a.Set() || len(p.Spec.Workloads) > 0 {
			t.Fatalf("the plan has %q of %v, %v; drawn was %s", p.Workload, p.Spec.Workloads, err, a.Set())
		}
		seen[a.Set()] = true
	}
	if len(seen) != len(draws) {
		t.Errorf("only %v of %v were drawn", seen, draws)
	}
	for _, name := range draws {
		if a, err := Choose(s, 1, name, core); err != nil || a.Set() != name {
			t.Errorf("%s was asked for: %v", name, err)
		}
	}
	if _, err := Choose(s, 1, "none", core); err == nil || !strings.Contains(err.Error(), `unknown workload "none"`) {
		t.Errorf("an unknown set: %v", err)
	}
	if a, err := Choose(loaded(t, "steady"), 1, scenario.Plain, core); err != nil || a.Set() != scenario.Plain {
		t.Errorf("plain is asked for: %v", err)
	}
}

// What a mutant's run must show is known for its own parameters: no seed draws others.
func TestNothingIsDrawnForAMutant(t *testing.T) {
	t.Parallel()
	v := system.System{Name: "broken/some", Red: &system.Red{Scenario: "jobs-steady"}}
	fixed := v
	fixed.Red = &system.Red{Scenario: "jobs-steady", Workload: "jobs-mixture"}
	for seed := range uint64(40) {
		for want, sys := range map[string]system.System{scenario.Plain: v, "jobs-mixture": fixed} {
			if a, err := Choose(loaded(t, "jobs-steady"), seed, "", sys); err != nil || a.Set() != want {
				t.Fatalf("seed %d: %v, want %s", seed, err, want)
			}
		}
	}
	if a, err := Choose(loaded(t, "jobs-poison"), 1, "", fixed); err != nil || a.Set() != scenario.Plain {
		t.Errorf("another scenario has the set of the directed one: %v", err)
	}
	sets, err := scenario.Sets()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range system.Directed() {
		if d.Red.Workload != "" && !slices.ContainsFunc(sets, func(s scenario.Set) bool { return s.Name == d.Red.Workload }) {
			t.Errorf("%s: there is no set %s", d.Label(), d.Red.Workload)
		}
	}
}
