package checker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"fencepost/core/schedule"
	"fencepost/core/store"
	"fencepost/harness/target/simrun"
	"fencepost/harness/target/system"
	"fencepost/harness/target/system/broken"
	"fencepost/harness/target/workload"
	"fencepost/internal/race"
)

// TestScheduleMistakesAreNamed: mistakes of schedules and sequences, planted in the production core,
// turn the property of their variant red, and an explanation names them alone. In these runs wall
// clocks are right, so that jobs-cron-by-clock, which goes back with its owner's clock, shows nothing
// of itself: it only passes over times, as jobs-counts-from-start does.
// jobs-overlap-in-memory forgets what waits too, which such a run cannot tell from times that are
// counted from the start again. jobs-enable-forgotten is seen only in times that are not fired, which have no name.
func TestScheduleMistakesAreNamed(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for name, schedules := range map[string][]workload.Recurring{"jobs-removed-returns": everySchedule(), "jobs-trigger-again": everySchedule(),
		"jobs-failure-ignored": everySchedule(), "jobs-disabled-returns": switched(),
		"jobs-once-again": instants(), "jobs-bounds-ignored": instants()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := system.Find("broken/" + name)
			if err != nil {
				t.Fatal(err)
			}
			var n tally
			for seed := uint64(0); seed < 12 && n.red < 3 && n.alone == 0; seed++ {
				c := simrun.DrawJobs(seed)
				c.Sequence, c.Recurring = 1, schedules
				c.PlantJobs = func(shards store.Shards, _ time.Duration) (store.Shards, workload.Hooks) {
					hooks, err := broken.Worker(name)
					if err != nil {
						t.Error(err)
					}
					if hooks.Shards != nil {
						shards = hooks.Shards(workload.Config{}, nil, shards)
					}
					return shards, hooks
				}
				h := simrun.Make(t, c)
				r := Check(t.Context(), h, Options{})
				if slices.ContainsFunc(failing(r), func(id string) bool { return slices.Contains(v.Red.Properties, id) }) {
					n.explain(t, seed, h, r, v.Red.Mechanism, nil)
				}
			}
			if n.alone == 0 {
				t.Errorf("%d runs fail one of %v, and none is explained by %s alone", n.red, v.Red.Properties, v.Red.Mechanism)
			}
		})
	}
}

// switched are schedules that are disabled and enabled, by each worker some.
func switched() (out []workload.Recurring) {
	for n := range 6 {
		out = append(out, workload.Recurring{Key: fmt.Sprint("d", n), Kind: schedule.FixedRate, Every: time.Second, Overlap: schedule.OverlapAllow,
			Misfire: schedule.MisfireSkip, Grace: time.Second, Upset: workload.UpsetDisable, Pace: 2500 * time.Millisecond})
	}
	return out
}
