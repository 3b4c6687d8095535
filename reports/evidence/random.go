package evidence

import (
	"iter"
	"math/rand/v2"
	"time"
)

// Random yields jobs of random scenarios, contentions and seeds until the time
// is over: each run has a seed of its own and can be repeated alone.
func Random(scenarios []Scenario, contentions []string, rng *rand.Rand, until time.Time, now func() time.Time) iter.Seq[Job] {
	return func(yield func(Job) bool) {
		for len(scenarios) > 0 && now().Before(until) {
			s := scenarios[rng.IntN(len(scenarios))]
			levels := s.levels(contentions)
			j := Job{Scenario: s.Name, Contention: levels[rng.IntN(len(levels))], Seed: rng.Uint64N(1_000_000_000), System: core}
			if !yield(j) {
				return
			}
		}
	}
}
