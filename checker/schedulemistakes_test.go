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
	for name, planted := range map[string]struct {
		draw      func(seed uint64) simrun.Config
		schedules []workload.Recurring
	}{
		// Runs stand still, so that shards change owners all the time, in any state of their schedules.
		"jobs-removed-returns":  {simrun.DrawJobsStanding, everySchedule()},
		"jobs-disabled-returns": {simrun.DrawJobsStanding, upset(workload.UpsetDisable, time.Second)},
		"jobs-failure-ignored":  {simrun.DrawJobsStanding, everySchedule()},
		"jobs-bounds-ignored":   {simrun.DrawJobsStanding, instants()},
		// These write jobs again: runs that stand still would make of it what other mistakes look like.
		// A job that is written while it runs also looks like one that a claim left behind: these are short.
		"jobs-trigger-again": {simrun.DrawJobs, upset(workload.UpsetTrigger, 4*time.Second)},
		"jobs-once-again":    {simrun.DrawJobs, instants()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := system.Find("broken/" + name)
			if err != nil {
				t.Fatal(err)
			}
			var n tally
			for seed := uint64(0); seed < 12 && n.red < 3 && n.alone == 0; seed++ {
				c := planted.draw(seed)
				c.Sequence, c.Recurring = 1, planted.schedules
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

// upset are schedules of short jobs to which one thing is done all the time, by each worker to some.
func upset(what workload.Upset, every time.Duration) (out []workload.Recurring) {
	for n := range 6 {
		out = append(out, workload.Recurring{Key: fmt.Sprint("u", n), Kind: schedule.FixedRate, Every: every, Overlap: schedule.OverlapAllow,
			Misfire: schedule.MisfireSkip, Grace: time.Second, Upset: what, Pace: 2500 * time.Millisecond})
	}
	return out
}
