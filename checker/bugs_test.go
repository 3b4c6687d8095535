package checker

import (
	"context"
	"slices"
	"testing"
)

// failing lists the properties that failed.
func failing(r *Result) []string {
	var ids []string
	for _, p := range r.Properties {
		if p.Status == StatusFail {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// TestProtocolBugsAreFound runs the simulation with one rule switched off: the
// property that the rule serves must fail, and within few runs.
func TestProtocolBugsAreFound(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		bug  bug
		want string   // must fail
		also []string // may fail beside it
		tune func(*simConfig)
	}{
		{bugFenceKept, "P1", []string{"P3", "P4", "P6", "P7", "P8", "P10"}, nil},
		{bugUnknownFail, "P2", []string{"P6"}, nil},
		{bugBlindRelease, "P2", []string{"P1", "P3", "P4", "P6", "P8", "P9", "P10"}, nil},
		{bugBlindRelease, "P9", []string{"P1", "P2", "P3", "P4", "P6", "P8", "P10"}, nil},
		{bugNoToken, "P3", []string{"P4"}, nil},
		{bugForget, "P3", []string{"P4", "P10"}, nil},
		{bugNoRaise, "P4", nil, nil},
		{bugNoDedupe, "P4", nil, nil},
		{bugUnknownOK, "P6", []string{"P1", "P2", "P8", "P4", "P7", "P10"}, nil},
		{bugRevive, "P7", []string{"P4", "P8"}, nil},
		{bugAnchorReply, "P7", []string{"P4", "P8"}, func(c *simConfig) { c.noise = 0.3 }},
		{bugNoWait, "P8", []string{"P4"}, nil},
		{bugRenewAttempt, "P9", []string{"P2", "P6", "P7", "P8"}, nil},
		{bugRefuseEqual, "P10", []string{"P4"}, nil},
		{bugSlowTakeover, "P11", nil, nil},
		{bugOneNode, "P11", nil, goingOn},
		{bugStopsInFault, "P11", nil, goingOn},
	} {
		t.Run(tc.want+" "+string(tc.bug), func(t *testing.T) {
			t.Parallel()
			findBug(t, 40, small, tc.bug, tc.want, tc.also, tc.tune)
		})
	}
}

// findBug simulates a world with the bug until the property wanted fires, and
// demands that until then no other does but those named.
func findBug(t *testing.T, most uint64, world func(seed uint64) simConfig, b bug, want string, also []string, tune func(*simConfig)) *Result {
	t.Helper()
	for seed := range most {
		cfg := world(seed)
		cfg.bug = b
		if tune != nil {
			tune(&cfg)
		}
		r := Check(context.Background(), simulate(cfg), Options{})
		ids := failing(r)
		for _, id := range ids {
			if id != want && !slices.Contains(also, id) {
				t.Fatalf("seed %d: %s failed too: %s", seed, id, firstViolation(r, id))
			}
		}
		if slices.Contains(ids, want) {
			t.Logf("found with seed %d, failing %v: %s", seed, ids, firstViolation(r, want))
			return r
		}
	}
	t.Fatalf("not found in %d runs", most)
	return nil
}

func firstViolation(r *Result, id string) string {
	for _, p := range r.Properties {
		if p.ID == id && len(p.Violations) > 0 {
			return p.Violations[0].Message
		}
	}
	return "no violation"
}
