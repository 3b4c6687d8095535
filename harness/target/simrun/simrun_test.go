package simrun

import (
	"flag"
	"testing"

	"fencepost/checker"
	"fencepost/harness/record/verdict"
	"fencepost/internal/race"
)

var seeds = flag.Uint64("simrun.seeds", 4, "runs of each kind")

// TestLegal: what the production core does is legal, whatever its network does.
func TestLegal(t *testing.T) {
	t.Parallel()
	seeds := *seeds
	if race.Enabled {
		seeds = min(seeds, 1)
	}
	for name, draw := range map[string]func(uint64) Config{"locks": Draw, "jobs": DrawJobs, "commands": DrawCommands, "queues": DrawQueues, "locks whose sink forgets": DrawForgetting,
		"locks whose clients stand still": DrawStanding, "jobs whose runs stand still": DrawJobsStanding,
		"jobs with lists of delays": DrawOptions, "jobs that run once at most": DrawAtMostOnce} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds {
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
