package scenario

import (
	"slices"
	"testing"
	"time"

	"fencepost/harness/paxos"
)

// Every drill has its scenario, which demands an armed attempt and cycles through
// all nodes, and a row for each attempt.
func TestDrills(t *testing.T) {
	t.Parallel()
	for _, name := range paxos.Names() {
		s, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if s.Drill != name {
			t.Errorf("%s: drill %q", name, s.Drill)
		}
		p, err := NewPlan(*s, 7, "core", 3)
		if err != nil {
			t.Fatal(err)
		}
		n, err := paxos.Attempts(name)
		if err != nil {
			t.Fatal(err)
		}
		keys := slices.Compact(slices.Sorted(slices.Values(p.Locks)))
		if len(keys) != n+1 || len(p.Locks) != n+1 {
			t.Errorf("%s: rows %v for %d attempts and the cycles", name, p.Locks, n)
		}
		x := p.expectation()
		if len(x.Faults) == 0 || x.MinCycles[PhaseBefore] == 0 || x.MinCycles[PhaseRecover] == 0 {
			t.Errorf("%s: %+v could be met without testing anything", name, x)
		}
		if x.Workers != 0 {
			t.Errorf("%s demands %d workers and starts none", name, x.Workers)
		}
	}
}

func TestDrillTakesNoOverrides(t *testing.T) {
	t.Parallel()
	s, err := Load(paxos.Lease)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(Overrides{}); err != nil {
		t.Error(err)
	}
	for _, o := range []Overrides{{Contention: High}, {Workers: 2}, {Clients: 1}, {TTL: time.Second}, {Duration: time.Second}} {
		if err := s.Apply(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
