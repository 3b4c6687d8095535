package checker

import (
	"context"
	"flag"
	"os"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/internal/race"
)

func TestMain(m *testing.M) {
	if os.Getenv(ChildEnv) != "" { // started by CheckInChild or Watch
		if slices.Contains(os.Args, WatchArgs[1]) {
			os.Exit(WatchMain(os.Stdout))
		}
		os.Exit(ChildMain(os.Stdout))
	}
	if race.Enabled {
		// It makes everything ten times as slow and has little to find here; make
		// test-unit runs this package in full without it as well.
		if err := flag.Set("rapid.checks", "12"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

func small(seed uint64) simConfig {
	return simConfig{
		seed: seed, workers: 3, clients: 2, locks: 2, ttl: 600 * time.Millisecond, length: 20 * time.Second,
		noise: 0.1, pause: 0.1, crash: 0.7,
	}
}

// TestLegalHistoriesPass is the false-alarm test: histories of the correct
// protocol pass, whatever happened to them.
func TestLegalHistoriesPass(t *testing.T) {
	t.Parallel()
	var sum Counts
	seeds := uint64(60)
	if race.Enabled {
		seeds = 10
	}
	for seed := range seeds {
		cfg := small(seed)
		cfg.witnessed = seed%2 == 0
		r := Check(context.Background(), simulate(cfg), Options{})
		if r.Verdict != Pass {
			for _, p := range r.Properties {
				for _, v := range p.Violations {
					t.Logf("%s: %s", p.ID, v.Message)
				}
				if p.Status == StatusUnknown {
					t.Log(p.ID, p.Detail)
				}
			}
			t.Fatalf("seed %d: %s: %s", seed, r.Verdict, r.Summary)
		}
		sum.Operations += r.Counts.Operations
		sum.Takeovers += r.Counts.Takeovers
		sum.StaleRefused += r.Counts.StaleRefused
		sum.Unknowns += r.Counts.Unknowns
		sum.UnknownSettled += r.Counts.UnknownSettled
		sum.LeasesLost += r.Counts.LeasesLost
		sum.LateSends += r.Counts.LateSends
		sum.Duplicates += r.Counts.Duplicates
		sum.Resends += r.Counts.Resends
	}
	t.Logf("%+v", sum)
	for name, n := range map[string]int{
		"takeovers": sum.Takeovers, "stale": sum.StaleRefused, "unknowns": sum.Unknowns, "settled": sum.UnknownSettled,
		"lost": sum.LeasesLost, "late": sum.LateSends, "duplicates": sum.Duplicates, "resends": sum.Resends,
	} {
		if n == 0 {
			t.Errorf("the simulation produced no %s", name)
		}
	}
}
