package checker

import (
	"testing"

	"fencepost/internal/race"
)

// TestEngineBugsAreFound runs the simulation with one rule of the engine switched
// off: the property that the rule serves must fail, and within few runs.
func TestEngineBugsAreFound(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for _, tc := range []struct {
		bug  bug
		want string   // must fail
		also []string // may fail beside it
		tune func(*simConfig)
	}{
		{bugReuseRuns, "P1", []string{"P2", "P3", "P4", "P5", "P6", "P7", "P10", "P12"}, nil},
		{bugDoubleClaim, "P2", []string{"P5"}, nil},
		{bugPlainComplete, "P2", []string{"P5"}, nil},
		{bugOverwrite, "P2", []string{"P5"}, nil},
		{bugNoToken, "P3", []string{"P4"}, func(c *simConfig) { c.noise, c.pause = 0.3, 0.3 }},
		{bugFreshKeys, "P4", nil, nil},
		{bugExtraEffect, "P4", nil, nil},
		{bugNoEffect, "P4", nil, nil},
		{bugAckEarly, "P5", nil, nil},
		{bugInboxLost, "P5", nil, nil},
		{bugDropFailed, "P5", nil, func(c *simConfig) { c.noise, c.pause, c.crash = 0, 0, 0 }}, // a takeover would heal it,
		{bugNeverDLQ, "P5", nil, nil},
		{bugNoRescue, "P5", nil, nil},
		{bugSweepEarly, "P5", nil, nil},
		{bugNotRead, "P5", nil, nil},
		{bugCountsCut, "P5", nil, nil},
		{bugTwoOnce, "P5", nil, nil},
		{bugOtherToken, "P6", []string{"P4", "P10"}, nil},
		{bugStartUnsettled, "P6", []string{"P2", "P4", "P5", "P7"}, nil},
		{bugTwiceStarted, "P6", nil, nil},
		{bugRevive, "P7", []string{"P8", "P9"}, nil},
		{bugAnchorReply, "P7", []string{"P8"}, func(c *simConfig) { c.noise, c.pause = 0.4, 0.3 }},
		{bugNoWait, "P8", []string{"P7"}, nil},
		{bugZombie, "P9", []string{"P1", "P2", "P4", "P5", "P6", "P7", "P8", "P12"}, nil},
		{bugRefuseEqual, "P10", []string{"P4"}, nil},
		{bugSlowTakeover, "P11", nil, nil},
		{bugNoTakeover, "P11", []string{"P5"}, nil},
		{bugNoClaims, "P11", nil, goingOn},
		{bugDueNow, "P12", nil, nil},
		{bugNoOwnTime, "P12", nil, nil},
		{bugClaimPaused, "P12", nil, func(c *simConfig) { c.pauses, c.crash = true, 1 }},
	} {
		t.Run(tc.want+" "+string(tc.bug), func(t *testing.T) {
			t.Parallel()
			short := func(seed uint64) simConfig {
				cfg := smallJobs(seed)
				cfg.length /= 3
				return cfg
			}
			checkExplained(t, findBug(t, 20, short, tc.bug, tc.want, tc.also, tc.tune))
		})
	}
}
