package checker

import (
	"context"
	"testing"
	"time"

	"fencepost/checker/property"
)

func smallJobs(seed uint64) simConfig {
	return simConfig{
		seed: seed, workers: 3, clients: 1, shards: 2, ttl: 600 * time.Millisecond, length: 10 * time.Second,
		noise: 0.1, pause: 0.05, crash: 0.7, pauses: seed%3 == 2,
	}
}

// TestLegalJobHistoriesPass: histories of the correct engine pass, whatever
// happened to them, and they show what there is to show.
func TestLegalJobHistoriesPass(t *testing.T) {
	t.Parallel()
	points := map[string]int{}
	for seed := range uint64(8) {
		cfg := smallJobs(seed)
		cfg.apart = time.Duration(seed%2) * 700 * time.Millisecond
		r := Check(context.Background(), simulate(cfg), Options{})
		if r.Verdict != Pass {
			logFindings(t, r)
			t.Fatalf("seed %d: %s: %s", seed, r.Verdict, r.Summary)
		}
		for point, n := range r.Counts.Points {
			points[point] += n
		}
		if seed == 0 {
			t.Log(r.Summary)
		}
	}
	t.Log(points)
	for _, point := range []string{
		property.PointTakeover, property.PointStale, property.PointSettled, property.PointLost, property.PointResend, property.PointDuplicate,
		property.PointRetry, property.PointRescue, property.PointDLQ, property.PointCancel, property.PointAbandon, property.PointRedrive, property.PointHasten, property.PointPause, property.PointSweep, property.PointHandOver, property.PointInbox, property.PointOverlap,
	} {
		if points[point] == 0 {
			t.Errorf("the simulation never reached %q", point)
		}
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
