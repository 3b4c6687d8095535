package broken

import (
	"slices"
	"testing"
	"time"

	"fencepost/checker"
	"fencepost/core/store"
	"fencepost/harness/target/simrun"
	"fencepost/harness/target/system"
	"fencepost/harness/target/workload"
	"fencepost/internal/race"
)

// TestFoundWhereProcessesStandStill: the mistakes that only a pause between two steps shows turn
// runs of the production core red by the property of their row, and are explained by their
// mechanism. Without them such runs are legal (TestLegal of package simrun), and without the
// pauses nothing of them is seen.
func TestFoundWhereProcessesStandStill(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for name, draw := range map[string]func(hooks func() workload.Hooks, seed uint64) simrun.Config{
		"trust-from-told": func(hooks func() workload.Hooks, seed uint64) simrun.Config {
			c := simrun.DrawStanding(seed)
			c.Hooks = hooks
			return c
		},
		"jobs-start-without-look": func(hooks func() workload.Hooks, seed uint64) simrun.Config {
			c := simrun.DrawJobsStanding(seed)
			c.PlantJobs = func(s store.Shards, _ time.Duration) (store.Shards, workload.Hooks) { return s, hooks() }
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := system.Find("broken/" + name)
			if err != nil {
				t.Fatal(err)
			}
			for stands, seeds := range map[bool]uint64{true: 8, false: 2} {
				found := false
				for seed := uint64(0); seed < seeds && !found; seed++ {
					c := draw(variants[name], seed)
					if !stands {
						c.Stands = 0
					}
					h := simrun.Make(t, c)
					r := checker.Check(t.Context(), h, checker.Options{})
					for _, p := range r.Properties {
						if p.Status != checker.StatusFail {
							continue
						}
						if !slices.Contains(v.Red.Properties, p.ID) || !stands {
							t.Logf("seed %d: %s fails: %s", seed, p.ID, p.Violations[0].Message)
						}
						found = found || slices.Contains(v.Red.Properties, p.ID)
					}
					if !found || !stands {
						continue
					}
					if best := checker.Explain(h, r, checker.Options{}).Best(); !slices.Equal(best, []string{v.Red.Mechanism}) {
						t.Errorf("seed %d: explained by %v, want %s alone", seed, best, v.Red.Mechanism)
					}
				}
				if found != stands {
					t.Errorf("processes stand still: %v; found: %v", stands, found)
				}
			}
		})
	}
}
