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

// TestFoundInJobs: the mistakes of queues, priorities, commands, bounds and policies turn runs of the production core red by
// the properties of their rows, and are explained by their mechanisms. Without them such runs are
// legal (TestLegal of package simrun).
func TestFoundInJobs(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for name, draw := range map[string]func(uint64) simrun.Config{
		"jobs-id-without-queue": simrun.DrawQueues, "jobs-pause-in-part": simrun.DrawQueues, "jobs-priority-lost": simrun.DrawQueues,
		"jobs-hasten-told": simrun.DrawCommands, "jobs-redrive-told": simrun.DrawCommands, "jobs-never-ended": simrun.DrawCommands,
		"jobs-delays-off-by-one": simrun.DrawOptions, "jobs-jitter-constant": simrun.DrawOptions, "jobs-no-key-is-a-key": simrun.DrawOptions,
		"jobs-at-most-twice": simrun.DrawAtMostOnce,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := system.Find("broken/" + name)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(2) {
				c := draw(seed)
				hooks := variants[name]
				c.PlantJobs = func(s store.Shards, _ time.Duration) (store.Shards, workload.Hooks) { return s, hooks() }
				h := simrun.Make(t, c)
				r := checker.Check(t.Context(), h, checker.Options{})
				found := false
				for _, p := range r.Properties {
					if p.Status == checker.StatusFail {
						t.Logf("seed %d: %s fails: %s", seed, p.ID, p.Violations[0].Message)
						found = found || slices.Contains(v.Red.Properties, p.ID)
					}
				}
				if best := checker.Explain(h, r, checker.Options{}).Best(); !found || !slices.Contains(best, v.Red.Mechanism) {
					t.Errorf("seed %d: %s, explained by %v, want %v by %s", seed, r.Verdict, best, v.Red.Properties, v.Red.Mechanism)
				}
			}
		})
	}
}
