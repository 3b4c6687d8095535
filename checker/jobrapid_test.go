package checker

import (
	"context"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func drawJobConfig(t *rapid.T) simConfig {
	return simConfig{
		seed:    rapid.Uint64Range(0, 1<<32).Draw(t, "seed"),
		workers: rapid.IntRange(1, 4).Draw(t, "workers"),
		clients: rapid.IntRange(1, 2).Draw(t, "clients"),
		shards:  rapid.IntRange(1, 3).Draw(t, "shards"),
		ttl:     time.Duration(rapid.IntRange(200, 1000).Draw(t, "ttl ms")) * time.Millisecond,
		length:  time.Duration(rapid.IntRange(500, 3000).Draw(t, "length ms")) * time.Millisecond,
		noise:   rapid.Float64Range(0, 0.6).Draw(t, "noise"),
		pause:   rapid.Float64Range(0, 0.4).Draw(t, "pause"),
		crash:   rapid.Float64Range(0, 1).Draw(t, "crash"),
	}
}

// TestNoFalseAlarmWithJobs: no history of the correct engine fails or stays unknown.
// (It may be INVALID: a short run can miss what its expect note demands.)
func TestNoFalseAlarmWithJobs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := Check(context.Background(), simulate(drawJobConfig(t)), Options{})
		if r.Verdict == Fail || r.Verdict == Unknown {
			t.Fatalf("%s: %s", r.Verdict, r.Summary)
		}
		for _, p := range r.Properties {
			for _, v := range p.Violations {
				if !strings.HasPrefix(v.Message, "phase") && !strings.HasPrefix(v.Message, "in phase") && !strings.HasPrefix(v.Message, "no job") {
					t.Fatalf("%s: %s", p.ID, v.Message)
				}
			}
		}
	})
}
