package checker

import (
	"math/rand/v2"
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
