package scenario

import (
	"slices"
	"testing"

	"fencepost/harness/fault"
)

func TestNeedsControl(t *testing.T) {
	t.Parallel()
	without, err := WithoutControl()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"partition-client", "partition-ring", "kill-worker", "pause-worker", "lost-replies", "latency", "steady", "jobs-kill-worker"} {
		if !slices.Contains(without, name) {
			t.Errorf("%s leaves nodes alone", name)
		}
	}
	for _, name := range []string{"partition", "partition-bridge", "kill-node", "slow-node", "rolling-restart", "swarm", "jobs-kill-nodes", "paxos-lease"} {
		if slices.Contains(without, name) {
			t.Errorf("%s does not leave nodes alone", name)
		}
	}
	for _, name := range without {
		s, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range s.Faults {
			for _, target := range st.Targets {
				if target[0] == 'n' || target == fault.AllNodes || target == fault.RandomNode || target == fault.Coordinator {
					t.Errorf("%s: a fault of %s", name, target)
				}
			}
		}
	}
	bad := Spec{Faults: []Step{{Spec: fault.Spec{Fault: "meteor"}}}}
	if bad.NeedsControl() == "" {
		t.Error("an unknown fault is taken for one of workers")
	}
}
