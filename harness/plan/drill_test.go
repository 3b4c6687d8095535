package plan

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"fencepost/harness/record/history"
	"fencepost/harness/scenario"
	"fencepost/harness/target/paxos"
)

// Every drill has its scenario, which demands an armed attempt and cycles through
// all nodes, and a row for each attempt.
func TestDrills(t *testing.T) {
	t.Parallel()
	for _, name := range paxos.Names() {
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
		n, err := paxos.Attempts(name)
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
	s, err := scenario.Load(paxos.Lease)
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
