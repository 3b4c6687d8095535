package plan

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/harness/env/cluster"
	"fencepost/harness/record/history"
	"fencepost/harness/scenario"
	"fencepost/harness/target/drill"
	"fencepost/harness/target/system"
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

// TestDigest: of the same plan it is the same, of another seed's or another scenario's it is not.
func TestDigest(t *testing.T) {
	t.Parallel()
	digest := func(name string, seed uint64) string {
		spec, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(*spec, seed, "core")
		if err != nil {
			t.Fatal(err)
		}
		return p.Digest()
	}
	one := digest("swarm", 1)
	if again := digest("swarm", 1); len(one) != 16 || again != one {
		t.Errorf("%s, then %s", one, again)
	}
	if digest("swarm", 2) == one || digest("partition", 1) == one {
		t.Error("two plans have one digest")
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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What a scenario needs of the cluster goes into its plans, whose targets are there.
func TestClusterOfAScenario(t *testing.T) {
	t.Parallel()
	s := loaded(t, "two-datacenters")
	if !s.Layout().Equal(cluster.Layout{3, 1}) || !loaded(t, "steady").Layout().Equal(cluster.Plain()) {
		t.Errorf("%s, and %s of a scenario that says nothing", s.Layout(), loaded(t, "steady").Layout())
	}
	p, err := New(*s, 1, system.Core)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plan.yaml")
	if err := p.Write(path); err != nil {
		t.Fatal(err)
	}
	read, err := Read(path)
	if err != nil || !read.Spec.Layout().Equal(s.Layout()) {
		t.Fatalf("%v, %v", read, err)
	}
	heir, err := scenario.Parse("f.yaml", []byte("name: mine\nabout: mine\nextends: two-datacenters\nexpect: {min_cycles: {medium: {before: 1}}}\n"))
	if err != nil || !heir.Layout().Equal(s.Layout()) {
		t.Errorf("what it extends has targets in two data centres: %v, %v", heir, err)
	}
	s.Cluster.Datacenters = cluster.Layout{2, 1}
	if _, err := New(*s, 1, system.Core); err == nil || !strings.Contains(err.Error(), "there is no n4 among 3 nodes") {
		t.Errorf("a target that there is not: %v", err)
	}
	if s.NeedsControl() == "" {
		t.Error("somebody else's cluster has two data centres for it")
	}
	own, err := system.Find("exec:true")
	if err != nil {
		t.Fatal(err)
	}
	if err := Suits(s, own); err == nil || !strings.Contains(err.Error(), "it has several data centres") {
		t.Errorf("a program of a user's own: %v", err)
	}
}

// Every drill has its scenario, which demands an armed attempt and cycles through
// all nodes, and a row for each attempt.
func TestDrills(t *testing.T) {
	t.Parallel()
	for _, name := range drill.Names() {
		s, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if s.Drill != name {
			t.Errorf("%s: drill %q", name, s.Drill)
		}
		p, err := New(*s, 7, "core")
		if err != nil {
			t.Fatal(err)
		}
		n, err := drill.Attempts(name)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "plan.yaml")
		if err := p.Write(file); err != nil {
			t.Fatal(err)
		}
		again, err := Read(file)
		if err != nil || again.Spec.Drill != name || !slices.Equal(again.Locks, p.Locks) {
			t.Errorf("%s: the plan was read back as %+v, %v", name, again, err)
		}
		p.Locks = p.Locks[1:]
		if err := p.Write(file); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(file); err == nil {
			t.Errorf("%s: a plan without a row for each attempt was taken", name)
		}
		p.Locks = again.Locks
		keys := slices.Compact(slices.Sorted(slices.Values(p.Locks)))
		if len(keys) != n+1 || len(p.Locks) != n+1 {
			t.Errorf("%s: rows %v for %d attempts and the cycles", name, p.Locks, n)
		}
		x := p.Expectation()
		if len(x.Faults) == 0 || x.MinCycles[history.PhaseBefore] == 0 || x.MinCycles[history.PhaseRecover] == 0 {
			t.Errorf("%s: %+v could be met without testing anything", name, x)
		}
		if x.Workers != 0 {
			t.Errorf("%s demands %d workers and starts none", name, x.Workers)
		}
	}
}

func TestDrillTakesNoOverrides(t *testing.T) {
	t.Parallel()
	s, err := scenario.Load(drill.Lease)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(scenario.Overrides{}); err != nil {
		t.Error(err)
	}
	for _, o := range []scenario.Overrides{{Contention: scenario.High}, {Workers: 2}, {Clients: 1}, {TTL: time.Second}, {Duration: time.Second}} {
		if err := s.Apply(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
