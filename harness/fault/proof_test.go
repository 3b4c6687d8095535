package fault

import (
	"strings"
	"testing"
	"time"
)

// proofs are what must be said of a fault while it is in force, and once it is healed. The
// second is asked for only of faults that have one.
type proofs struct {
	proven bool
	probe  string // part of the text
	healed bool
	after  string
}

// mustProve injects a fault that lasts so long, and compares what it shows with want.
func mustProve(t *testing.T, env *Env, s Spec, lasts time.Duration, want proofs) {
	t.Helper()
	f, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	a, err := f.Inject(t.Context(), env.For(s.Fault, nil), s.Targets)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(lasts) // the fault's own duration
	if ev := a.Probe(t.Context()); ev.Proven != want.proven || !strings.Contains(ev.Text, want.probe) {
		t.Errorf("got %+v, want proven %t with %q", ev, want.proven, want.probe)
	}
	if err := a.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after, ok := a.(Aftermath); ok {
		if ev := after.After(t.Context()); ev.Proven != want.healed || !strings.Contains(ev.Text, want.after) {
			t.Errorf("afterwards %+v, want proven %t with %q", ev, want.healed, want.after)
		}
	} else if want.after != "" {
		t.Errorf("it has no second proof")
	}
}
