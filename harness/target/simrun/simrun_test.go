package simrun

import (
	"flag"
	"slices"
	"testing"
	"time"

	"fencepost/checker"
	"fencepost/core/engine"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/harness/record/verdict"
	"fencepost/harness/target/system"
	"fencepost/harness/target/workload"
)

var seeds = flag.Uint64("simrun.seeds", 4, "runs of each kind")

// TestLegal: what the production core does is legal, whatever its network does.
func TestLegal(t *testing.T) {
	t.Parallel()
	for name, draw := range map[string]func(uint64) Config{"locks": Draw, "jobs": DrawJobs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range *seeds {
				h := Make(t, draw(seed))
				r := checker.Check(t.Context(), h, checker.Options{})
				for _, p := range r.Properties {
					if p.Status != checker.StatusPass && p.Status != checker.StatusNA {
						t.Errorf("seed %d, %d events: %s %s: %s, %v", seed, len(h.Events), p.ID, p.Status, p.Detail, p.Violations)
					}
				}
				if r.Verdict != verdict.Pass {
					t.Errorf("seed %d: %s", seed, r.Verdict)
				}
			}
		})
	}
}

// shown are the mistakes of jobs that such runs are known to show; there are no schedules
// in them, and clocks are right.
var shown = []string{"jobs-tick-blind", "jobs-unknown-means-no", "jobs-dlq-lost", "jobs-early-bird"}

// planted is a run with a mistake.
func planted(m mistake.Mistake, seed uint64) (c Config) {
	if m.Locks != nil {
		c = Draw(seed)
		c.Plant = func(rows store.Locks, ttl time.Duration) store.Locks { return m.Locks(mistake.Process{TTL: ttl}, rows) }
		return c
	}
	c = DrawJobs(seed)
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

// TestMistakes: each mistake turns a property red that its variant of real runs must turn
// red too.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, m := range mistake.All {
		if m.Locks == nil && !slices.Contains(shown, m.ID) {
			continue
		}
		t.Run(m.ID, func(t *testing.T) {
			t.Parallel()
			s, err := system.Find("broken/" + m.ID)
			if err != nil {
				t.Fatal(err)
			}
			others := map[string]int{}
			for seed := range uint64(60) {
				h := Make(t, planted(m, seed))
				for _, p := range checker.Check(t.Context(), h, checker.Options{}).Properties {
					switch {
					case p.Status != checker.StatusFail:
					case slices.Contains(s.Red.Properties, p.ID):
						t.Logf("found with seed %d by %s", seed, p.ID)
						return
					default:
						others[p.ID]++
					}
				}
			}
			t.Errorf("not found by any of %v, but by %v", s.Red.Properties, others)
		})
	}
}
