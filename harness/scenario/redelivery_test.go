package scenario

import (
	"testing"
	"time"
)

// TestRedelivery: what waits until somebody else has an abandoned lock lasts longer, and nothing else does.
func TestRedelivery(t *testing.T) {
	t.Parallel()
	const later = 40 * time.Second
	for name, longer := range map[string]Phases{
		"pause-worker": {Fault: Duration(later)}, "kill-worker": {Fault: Duration(later)}, "steady": {},
		"lost-take": {Recover: Duration(later)}, "flaky-links": {Recover: Duration(later)}, "server-clock-jump": {Recover: Duration(later)},
	} {
		before, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		after, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := after.Apply(Overrides{Redelivery: later}); err != nil {
			t.Fatal(err)
		}
		want := (longer.Fault + longer.Recover).D()
		for i, x := range before.Expect.Thresholds {
			if d := after.Expect.Thresholds[i].Max.Plus - x.Max.Plus; d != want {
				t.Errorf("%s: %s is later by %s, want %s", name, x, d, want)
			}
		}
		before.Phases.Fault += longer.Fault
		before.Phases.Recover += longer.Recover
		if after.Phases != before.Phases {
			t.Errorf("%s: the phases are %+v, want %+v", name, after.Phases, before.Phases)
		}
	}
}
