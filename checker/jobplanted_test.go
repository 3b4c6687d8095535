package checker

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestJobMutationsAreFound is TestMutationsAreFound for histories with jobs.
func TestJobMutationsAreFound(t *testing.T) {
	t.Parallel()
	for _, m := range mutationsOfJobs() {
		t.Run(m.want+" "+m.name, func(t *testing.T) {
			t.Parallel()
			done := 0
			for seed := uint64(0); seed < 30 && done < 2; seed++ {
				cfg := smallJobs(seed)
				cfg.length /= 3
				e := newEdit(simulate(cfg))
				e.draw = rand.New(rand.NewPCG(seed, 2)).IntN
				if m.do(e) {
					done++
					r := judgePlanted(t, m, e)
					if done == 1 {
						t.Logf("failing %v: %s", failing(r), firstViolation(r, m.want))
					}
				}
			}
			if done == 0 {
				t.Errorf("applied to no history")
			}
		})
	}
}

// TestEveryJobPropertyHasAMutation: what jobs add to a property is tested by one; P3,
// P10 and P11 are those of locks, and TestEngineBugsAreFound breaks them.
func TestEveryJobPropertyHasAMutation(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"P1", "P2", "P4", "P5", "P6", "P7", "P8", "P9", "P12", "P14"} {
		if !slices.ContainsFunc(mutationsOfJobs(), func(m mutation) bool { return m.want == id }) {
			t.Errorf("no mutation breaks %s", id)
		}
	}
}
