package fault

import (
	"strings"
	"testing"
	"time"

	"fencepost/harness/target/control"
	"fencepost/harness/target/fleet"
)

// TestLoads: a load is seen when workers do what they are told, and only then; and nobody is
// overloaded before it is known what they can do.
func TestLoads(t *testing.T) {
	t.Parallel()
	all := []string{"w1", "w2"}
	saturate, overload := Spec{Fault: "saturate", Targets: all}, Spec{Fault: "overload", Targets: all, Times: 3}
	for name, c := range map[string]struct {
		inert   Family
		variant string
		lasts   time.Duration
		first   proofs
		second  *proofs // nil: it cannot be injected
	}{
		"load": {lasts: settling + time.Second, first: proofs{proven: true, probe: "80 or more of 80 enqueues were under way"},
			second: &proofs{proven: true, probe: " a second were to come; the workers, which run the jobs too, used "}},
		"too short": {lasts: settling / 2, first: proofs{probe: "too short a time"}},
		"no load":   {inert: FamilyLoad, lasts: settling + time.Second, first: proofs{probe: "0 or more of 80"}},
		"deaf":      {variant: deaf, lasts: settling + time.Second, first: proofs{probe: "0 or more of 80"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := workersOf(t, 2, c.variant)
			env.Inert = c.inert
			mustProve(t, env, saturate, c.lasts, c.first)
			if c.second != nil {
				mustProveAfter(t, env, overload, func() {
					time.Sleep(settling)
					for _, w := range env.Fleet.Workers() { // what comes is counted by what was told last
						before := w.Stats().Came
						awaitStats(t, w, func(s control.Stats) bool { return s.Came > before })
					}
				}, *c.second)
				return
			}
			f, err := New(overload)
			must(t, err)
			if _, err := f.Inject(t.Context(), env.For(overload.Fault, nil), all); err == nil || !strings.Contains(err.Error(), "nobody knows how many jobs are too many") {
				t.Error(err)
			}
		})
	}
}

// awaitStats waits for what a worker tells.
func awaitStats(t *testing.T, w *fleet.Worker, cond func(control.Stats) bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !cond(w.Stats()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", w.Stats())
		}
	}
}

// TestLoadOfALifeToCome: a worker that was killed enqueues what it was told when it runs again.
func TestLoadOfALifeToCome(t *testing.T) {
	t.Parallel()
	env := workersOf(t, 1, "")
	w := env.Fleet.Workers()[0]
	must(t, w.Kill(t.Context()))
	l, err := env.For("saturate", nil).offer([]string{"w1"}, saturating)
	must(t, err)
	must(t, w.Start(t.Context()))
	awaitStats(t, w, func(s control.Stats) bool { return s.Enqueuing == saturatingOpen })
	must(t, l.Heal(t.Context()))
	awaitStats(t, w, func(s control.Stats) bool { return s.Enqueuing == 0 })
}
