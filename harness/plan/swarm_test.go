package plan

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/harness/fault"
	"fencepost/harness/scenario"
	"fencepost/harness/target/control"
)

func swarmPlan(t *testing.T, seed uint64) *Plan {
	t.Helper()
	s, err := scenario.Load("swarm")
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(*s, seed, "core")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSwarmOfJobs: the job workload reaches every point that is drawn for it.
func TestSwarmOfJobs(t *testing.T) {
	t.Parallel()
	s, err := scenario.Load("jobs-swarm")
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[control.Point]bool{}
	for seed := range uint64(200) {
		p, err := New(*s, seed, "core")
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range p.Steps {
			if st.On != nil {
				drawn[st.On.Point] = true
				if control.OfLocks(st.On.Point) {
					t.Fatalf("seed %d: %s waits for %s", seed, st.Fault, st.On.Point)
				}
			}
		}
	}
	if !drawn[control.ClaimSent] || !drawn[control.CompleteSent] {
		t.Errorf("drawn: %v", drawn)
	}
}

func TestSwarmPlans(t *testing.T) {
	t.Parallel()
	kinds := map[string]int{}
	for seed := range uint64(200) {
		p := swarmPlan(t, seed)
		if !reflect.DeepEqual(p, swarmPlan(t, seed)) {
			t.Fatalf("seed %d gives two plans", seed)
		}
		losses, ofRun := 0, map[string]bool{}
		last := map[string]time.Duration{}
		for _, st := range p.Steps {
			if _, err := fault.New(st.Spec); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if st.Lane == "" || st.At.D() < last[st.Lane] {
				t.Errorf("seed %d: %s at %s in lane %q overlaps what ends at %s", seed, st.Fault, st.At.D(), st.Lane, last[st.Lane])
			}
			last[st.Lane] = st.At.D() + st.For.D()
			if last[st.Lane] > p.Spec.Phases.Fault.D() {
				t.Errorf("seed %d: %s ends after the phase", seed, st.Fault)
			}
			if strings.HasPrefix(st.Targets[0], "n") && len(st.Targets) == 2 {
				losses++
			}
			ofRun[st.Fault] = true
		}
		if losses != 1 {
			t.Errorf("seed %d: the quorum is taken away %d times", seed, losses)
		}
		if len(p.Steps) < 6 {
			t.Errorf("seed %d: %d faults only", seed, len(p.Steps))
		}
		for k := range ofRun {
			kinds[k]++
		}
	}
	for _, k := range slices.Concat(fault.Drawn(fault.Node), fault.Drawn(fault.Worker)) {
		if kinds[k.Name] == 0 || kinds[k.Name] == 200 && k.Name != "pause-node" {
			t.Errorf("%s is in %d of 200 plans: each kind must be in some and left out of some", k.Name, kinds[k.Name])
		}
	}
	t.Log(slices.Sorted(maps.Keys(kinds)))
}

func TestInTurnHasAnInjectionEach(t *testing.T) {
	t.Parallel()
	s, err := scenario.Load("rolling-restart")
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(*s, 1, "core")
	if err != nil {
		t.Fatal(err)
	}
	if st := p.Steps[0]; !reflect.DeepEqual(st.Targets, []string{"n1", "n2", "n3"}) || len(st.IDs) != 3 {
		t.Errorf("targets %v, ids %v", st.Targets, st.IDs)
	}
}
