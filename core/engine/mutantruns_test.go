package engine_test

import (
	"flag"
	"slices"
	"testing"

	"fencepost/internal/race"
)

var mutantSeeds = flag.Uint64("sim.mutant-seeds", 300, "seeds within which each known-broken variant must be found")

// TestSimulationFindsMutants: a test that cannot fail proves nothing. Each broken
// variant must be found, by a rule that is about its mistake.
func TestSimulationFindsMutants(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			others := map[string]bool{}
			for seed := uint64(1); seed <= *mutantSeeds; seed++ {
				cfg := configFor(seed)
				if cfg.beyond || cfg.poison {
					continue // these have faults of their own
				}
				m.plant(&cfg)
				for rule, what := range runSim(t, cfg).violations {
					if slices.Contains(m.rules, rule) {
						t.Logf("found with seed %d by %q: %s", seed, rule, what)
						return
					}
					others[rule] = true
				}
			}
			t.Errorf("not found by any of %v within %d seeds; found by %v", m.rules, *mutantSeeds, others)
		})
	}
}
