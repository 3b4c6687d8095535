package checker

import (
	"context"
	"flag"
	"os"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/checker/property"
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

func smallJobs(seed uint64) simConfig {
	return simConfig{
		seed: seed, workers: 3, clients: 1, shards: 2, ttl: 600 * time.Millisecond, length: 10 * time.Second,
		noise: 0.1, pause: 0.05, crash: 0.7, pauses: seed%3 == 2,
	}
}

// shortJobs is enough where many runs are made.
func shortJobs(seed uint64) simConfig {
	cfg := smallJobs(seed)
	cfg.length /= 3
	return cfg
}

// TestLegalHistoriesPass is the false-alarm test: histories of the correct
// protocols pass, whatever happened to them, and they show what there is to show.
func TestLegalHistoriesPass(t *testing.T) {
	t.Parallel()
	seeds := uint64(60)
	if race.Enabled {
		seeds = 10
	}
	ofLocks := []string{
		property.PointTakeover, property.PointStale, property.PointSettled, property.PointLost, property.PointResend, property.PointDuplicate,
	}
	for name, c := range map[string]struct {
		seeds  uint64
		world  func(seed uint64) simConfig
		points []string
	}{
		"locks": {seeds, func(seed uint64) simConfig {
			cfg := small(seed)
			cfg.witnessed = seed%2 == 0
			return cfg
		}, slices.Concat(ofLocks, []string{"late send"})},
		"jobs": {8, func(seed uint64) simConfig {
			cfg := smallJobs(seed)
			cfg.apart = time.Duration(seed%2) * 700 * time.Millisecond
			return cfg
		}, append(ofLocks,
			property.PointRetry, property.PointRescue, property.PointDLQ, property.PointCancel, property.PointAbandon, property.PointRedrive,
			property.PointHasten, property.PointPause, property.PointSweep, property.PointHandOver, property.PointInbox, property.PointOverlap)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			points := map[string]int{}
			for seed := range c.seeds {
				r := Check(context.Background(), simulate(c.world(seed)), Options{})
				if r.Verdict != Pass {
					logFindings(t, r)
					t.Fatalf("seed %d: %s: %s", seed, r.Verdict, r.Summary)
				}
				for point, n := range r.Counts.Points {
					points[point] += n
				}
				points["late send"] += r.Counts.LateSends
			}
			t.Log(points)
			for _, point := range c.points {
				if points[point] == 0 {
					t.Errorf("the simulation never reached %q", point)
				}
			}
		})
	}
}

func logFindings(t *testing.T, r *Result) {
	t.Helper()
	for _, p := range r.Properties {
		for _, v := range p.Violations {
			t.Logf("%s: %s", p.ID, v.Message)
		}
		if p.Status == StatusUnknown {
			t.Log(p.ID, p.Detail)
		}
	}
}
