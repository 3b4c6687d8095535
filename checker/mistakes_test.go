package checker

import (
	"slices"
	"testing"
	"time"

	"fencepost/core/engine"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/harness/target/simrun"
	"fencepost/harness/target/system"
	"fencepost/harness/target/workload"
	"fencepost/internal/race"
)

// shownByJobs are the mistakes of jobs that runs without a cluster are known to show; there
// are no schedules in them, and clocks are right.
var shownByJobs = []string{"jobs-tick-blind", "jobs-unknown-means-no", "jobs-dlq-lost", "jobs-early-bird"}

// besideMistake are mechanisms that the history of a mistake cannot rule out.
var besideMistake = map[string][]string{
	"release-anyone":        {"unconditional-release"},
	"unknown-acquire-fails": {"resend-misread"},
	"jobs-tick-blind":       {"claim-leaves-row"},
	"jobs-unknown-means-no": {"unknown-recorded-as-failed"},
}

// realMistake is a mistake in the production core, and how its variant of real runs is found.
type realMistake struct {
	mistake.Mistake
	red *system.Red
}

func realMistakes(t *testing.T) (all []realMistake) {
	t.Helper()
	for _, m := range mistake.All {
		if m.Locks == nil && !slices.Contains(shownByJobs, m.ID) {
			continue
		}
		s, err := system.Find("broken/" + m.ID)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, realMistake{m, s.Red})
	}
	return all
}

// run is a run with the mistake.
func (m realMistake) run(seed uint64) (c simrun.Config) {
	if m.Locks != nil {
		c = simrun.Draw(seed)
		c.Plant = func(rows store.Locks, ttl time.Duration) store.Locks { return m.Locks(mistake.Process{TTL: ttl}, rows) }
		return c
	}
	c = simrun.DrawJobs(seed)
	c.PlantJobs = func(shards store.Shards, ttl time.Duration) (store.Shards, workload.Hooks) {
		p, hooks := mistake.Process{TTL: ttl, Members: shards.(*sim.Session), Cell: "q"}, workload.Hooks{}
		if m.Engine != nil {
			hooks.Engine = func(_ workload.Config, o *engine.Options) { m.Engine(p, o) }
		}
		if m.Shards != nil {
			shards = m.Shards(p, shards)
		}
		return shards, hooks
	}
	return c
}

// TestMistakesOfTheCoreAreNamed: each mistake that is planted in the production core turns a
// property red that its variant of real runs must turn red too, and the explanation of one
// of the first such runs names it, with nothing beside it.
func TestMistakesOfTheCoreAreNamed(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for _, m := range realMistakes(t) {
		t.Run(m.ID, func(t *testing.T) {
			t.Parallel()
			var n tally
			for seed := uint64(0); seed < 60 && n.red < 3 && n.alone == 0; seed++ {
				h := simrun.Make(t, m.run(seed))
				r := Check(t.Context(), h, Options{})
				if !slices.ContainsFunc(failing(r), func(id string) bool { return slices.Contains(m.red.Properties, id) }) {
					continue
				}
				n.explain(t, seed, h, r, m.red.Mechanism, besideMistake[m.ID])
			}
			if n.alone == 0 {
				t.Errorf("%d runs fail one of %v, and none is explained by %s alone", n.red, m.red.Properties, m.red.Mechanism)
			}
		})
	}
}
