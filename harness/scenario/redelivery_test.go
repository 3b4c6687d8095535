package scenario

import (
	"testing"
	"time"
)

// TestRedelivery: what waits until somebody else has an abandoned lock lasts longer, and nothing else does.
func TestRedelivery(t *testing.T) {
	t.Parallel()
	for name, longer := range map[string]bool{"pause-worker": true, "kill-worker": true, "steady": false, "server-clock-jump": false} {
		before, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		after, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		const later = 40 * time.Second
		if err := after.Apply(Overrides{Redelivery: later}); err != nil {
			t.Fatal(err)
		}
		want := time.Duration(0)
		if longer {
			want = later
		}
		if d := (after.Phases.Fault - before.Phases.Fault).D(); d != want {
			t.Errorf("%s: the fault phase is longer by %s, want %s", name, d, want)
		}
		for i, x := range before.Expect.Thresholds {
			if d := after.Expect.Thresholds[i].Max.Plus - x.Max.Plus; d != want {
				t.Errorf("%s: %s is later by %s, want %s", name, x, d, want)
			}
		}
		if after.Phases.Before != before.Phases.Before || after.Phases.Recover != before.Phases.Recover {
			t.Errorf("%s: another phase has changed", name)
		}
	}
}
