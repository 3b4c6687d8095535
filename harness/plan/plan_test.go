package plan

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"fencepost/harness/record/history"
	"fencepost/harness/scenario"
)

func loaded(t *testing.T, name string) *scenario.Spec {
	t.Helper()
	s, err := scenario.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A seed is a plan: the same one draws the same, another one something else.
func TestPlanIsDrawnFromTheSeed(t *testing.T) {
	t.Parallel()
	s, err := scenario.Load("kill-worker")
	if err != nil {
		t.Fatal(err)
	}
	plan := func(seed uint64) *Plan {
		p, err := New(*s, seed, "core")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	drawn := map[string]bool{}
	for seed := range uint64(30) {
		a, b := plan(seed), plan(seed)
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d gives two plans:\n%+v\n%+v", seed, a, b)
		}
		drawn[a.Steps[0].Targets[0]] = true
	}
	if len(drawn) != 4 {
		t.Errorf("30 seeds kill only %v", drawn)
	}
}

func TestPlanNumbersInjections(t *testing.T) {
	t.Parallel()
	s, err := scenario.Load("lost-replies")
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(*s, 1, "core")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, st := range p.Steps {
		if len(st.IDs) != st.Repeat {
			t.Errorf("%s: %d ids for %d repetitions", st.Fault, len(st.IDs), st.Repeat)
		}
		for _, id := range st.IDs {
			if seen[id] {
				t.Errorf("id %s twice", id)
			}
			seen[id] = true
		}
	}
	if x := p.Expectation(); len(x.Faults) != len(seen) || x.Workers != 4 {
		t.Errorf("expectation %+v does not demand all %d injections of 4 workers", x, len(seen))
	}
}

// What a scenario demands reaches the history's expect note.
func TestExpectation(t *testing.T) {
	t.Parallel()
	s, err := scenario.Parse("f.yaml", []byte("name: mine\nabout: mine\nfaults: [{fault: kill-worker, targets: [random-worker], at: 0s, for: 1s}]\n"+
		"expect: {min_cycles: {medium: {fault: 1}}, success: [{fault: kill-worker, group: targets, want: none}, {fault: kill-worker, group: others, want: some}, {phase: fault, workers: [w2], want: any}], must: [takeover], sometimes: [late-answer], recovery_bound_ms: 900, "+
		"thresholds: [{latency: lock, phase: fault, times_before: 20}, {recovery: slowest, max: 8s}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(*s, 1, "core")
	if err != nil {
		t.Fatal(err)
	}
	x := p.Expectation()
	if len(x.Success) != 3 || x.Success[0].Fault != "kill-worker" || x.Success[1].Group != "others" || x.RecoveryBoundMS != 900 ||
		!slices.Equal(x.Sometimes, []string{"late-answer"}) || !slices.Equal(x.Must, []string{"takeover"}) {
		t.Errorf("%+v", x)
	}
	if want := []history.Threshold{{Latency: "lock", Quantile: "p99", Phase: "fault", TimesBefore: 20}, {Recovery: "slowest", MaxMS: 8000}}; !slices.Equal(x.Thresholds, want) {
		t.Errorf("thresholds %+v, want %+v", x.Thresholds, want)
	}
}

func TestDemandsOfAPlan(t *testing.T) {
	t.Parallel()
	s := loaded(t, "partition-client")
	if err := s.Apply(scenario.Overrides{Contention: scenario.High, TTL: 8 * time.Second}); err != nil {
		t.Fatal(err)
	}
	p, err := New(*s, 1, "core")
	if err != nil {
		t.Fatal(err)
	}
	x := p.Expectation()
	if want := []history.Progress{{Fault: "partition-client", Group: "others", MinCycles: 4, LongestGapMS: 18_000}}; !slices.Equal(x.Progress, want) {
		t.Errorf("%+v, want %+v", x.Progress, want)
	}
	if want := []history.Threshold{{Recovery: "slowest", MaxMS: 23_000}}; !slices.Equal(x.Thresholds, want) {
		t.Errorf("%+v, want %+v", x.Thresholds, want)
	}
	if p.DemandOf("partition-client") == nil || p.DemandOf("kill-node") != nil || p.LastOf("partition-client") != "f1" {
		t.Error("the plan's demand is not found")
	}
	k, err := New(*loaded(t, "kill-nodes"), 1, "core")
	if err != nil || len(k.Expectation().Progress) != 0 || k.DemandOf("kill-node") != nil {
		t.Errorf("an exempt fault is demanded of: %+v, %v", k.Expectation().Progress, err)
	}
}
