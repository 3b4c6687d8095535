package checker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"fencepost/core/engine"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/harness/target/simrun"
	"fencepost/harness/target/system"
	"fencepost/harness/target/workload"
	"fencepost/internal/race"
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

// bugCase is a simulation with one rule switched off: the property that the rule serves must
// fail, and the explanation must name the mechanism. Some cases are for one of these only.
type bugCase struct {
	bug  bug
	want string   // the property
	also []string // properties that may fail beside it
	// named is the mechanism, and beside are those that the history cannot rule out.
	named  string
	beside []string
	jobs   bool
	tune   func(*simConfig)
}

// config is the simulation with a seed; of jobs for a part of their length.
func (c bugCase) config(seed uint64, part time.Duration) simConfig {
	cfg := small(seed)
	if c.jobs {
		cfg = smallJobs(seed)
		cfg.length /= part
	}
	cfg.bug = c.bug
	if c.tune != nil {
		c.tune(&cfg)
	}
	return cfg
}

func noPauses(c *simConfig) { c.pause, c.crash = 0, 0 }

func quiet(c *simConfig) { c.noise, c.pause, c.crash = 0, 0, 0 }

func noted(c *simConfig) { c.noted = true }

// What makes mistakes of the core wrong is in TestMistakesOfTheCoreAreNamed, what a change of
// one job can show in mutationsOfJobs.
var bugCases = []bugCase{
	{bug: bugFenceKept, want: "P1", also: []string{"P3", "P4", "P6", "P7", "P8", "P10"}, named: "grant-keeps-token"},
	{bug: bugUnknownFail, want: "P2", also: []string{"P6"}, named: "unknown-refused"},
	{bug: bugBlindRelease, want: "P2", also: []string{"P1", "P3", "P4", "P6", "P8", "P9", "P10"},
		named: "unconditional-release", beside: []string{"release-without-owner"}},
	{bug: bugBlindRelease, want: "P9", also: []string{"P1", "P2", "P3", "P4", "P6", "P8", "P10"}},
	{bug: bugNoToken, want: "P3", also: []string{"P4"},
		named: "sink-checks-no-token", beside: []string{"sink-checks-what-was-read", "sink-remembers-per-process"}},
	{bug: bugForget, want: "P3", also: []string{"P4", "P10"}, named: "sink-forgets-tokens"},
	{bug: bugNoRaise, want: "P4", named: "raise-not-done"},
	{bug: bugNoDedupe, want: "P4", named: "resend-is-another-effect"},
	{bug: bugRevive, want: "P7", also: []string{"P4", "P8"}, named: "lapsed-lease-revived", beside: []string{"loss-ignored"}},
	{bug: bugAnchorReply, want: "P7", also: []string{"P4", "P8"},
		named: "lease-counted-from-answer", tune: func(c *simConfig) { c.noise = 0.3 }},
	{bug: bugNoWait, want: "P8", also: []string{"P4"}, named: "takeover-without-waiting"},
	{bug: bugRenewAttempt, want: "P9", also: []string{"P2", "P6", "P7", "P8"}, named: "renewal-changes-more"},
	{bug: bugRefuseEqual, want: "P10", also: []string{"P4"}, named: "sink-refuses-equal"},
	{bug: bugSlowTakeover, want: "P11", named: "no-takeover"},
	{bug: bugOneNode, want: "P11", named: "waits-for-one-node", beside: []string{"no-takeover"}, tune: goingOn},
	{bug: bugStopsInFault, want: "P11", named: "work-stops-in-fault", beside: []string{"no-takeover"}, tune: goingOn},
	{bug: bugHiLo, named: "tokens-from-blocks"},
	{bug: bugWallTokens, named: "tokens-from-wall-clock"},
	{bug: bugRowTTL, named: "rows-expire", tune: func(c *simConfig) { c.locks, c.workers, c.clients = 6, 2, 1 }},
	{bug: bugPlainTakeover, named: "unconditional-takeover", tune: noted},
	{bug: bugIgnoreBeat, named: "takeover-ignores-renewals", tune: noPauses},
	{bug: bugWallExpiry, named: "expiry-by-wall-clock", tune: func(c *simConfig) { c.crash, c.locks = 0, 1 }},
	{bug: bugPlainRenew, named: "unconditional-renewal", tune: noted},
	{bug: bugBlindRelease, named: "unconditional-release", tune: noted},
	{bug: bugIgnoreLoss, named: "loss-ignored", beside: []string{"keep-alive-died"}, tune: quiet},
	{bug: bugHeartbeatDies,
		named: "keep-alive-died", beside: []string{"loss-ignored"}, tune: func(c *simConfig) { c.pause, c.crash, c.noise, c.locks = 0, 0, 0.2, 4 }},
	{bug: bugWallLease, named: "lease-by-wall-clock", tune: quiet},
	{bug: bugAwakeLease, named: "lease-by-awake-clock", tune: quiet},
	{bug: bugEarlyRelease, named: "released-before-done"},
	{bug: bugCheckRead, named: "sink-checks-what-was-read", beside: []string{"sink-remembers-per-process", "sink-checks-no-token"}},
	{bug: bugProcessMemory, named: "sink-remembers-per-process", beside: []string{"sink-checks-what-was-read", "sink-checks-no-token"}},
	{bug: bugSilentRaise, named: "raise-not-done"},

	{bug: bugDoubleClaim, want: "P2", also: []string{"P5"}, named: "claim-leaves-row", jobs: true},
	{bug: bugPlainComplete, want: "P2", also: []string{"P5"}, jobs: true},
	{bug: bugOverwrite, want: "P2", also: []string{"P5"}, jobs: true},
	{bug: bugNoToken, want: "P3", also: []string{"P4"}, jobs: true, tune: func(c *simConfig) { c.noise, c.pause = 0.3, 0.3 }},
	{bug: bugNoRescue, want: "P5", named: "rescue-left-out", jobs: true},
	{bug: bugSweepEarly, want: "P5", named: "forgotten-too-early", jobs: true},
	{bug: bugNotRead, want: "P5", named: "row-not-read", jobs: true},
	{bug: bugRetryNow, want: "P12", named: "backoff-ignored", jobs: true},
	{bug: bugCountsCut, want: "P5", named: "cut-runs-counted", jobs: true},
	{bug: bugOtherToken, want: "P6", also: []string{"P4", "P10"}, jobs: true},
	{bug: bugRevive, want: "P7", also: []string{"P8", "P9"}, jobs: true},
	{bug: bugAnchorReply, want: "P7", also: []string{"P8"}, jobs: true, tune: func(c *simConfig) { c.noise, c.pause = 0.4, 0.3 }},
	{bug: bugNoWait, want: "P8", also: []string{"P7"}, named: "takeover-without-waiting", jobs: true},
	{bug: bugZombie, want: "P9", also: []string{"P1", "P2", "P4", "P5", "P6", "P7", "P8", "P12"}, jobs: true},
	{bug: bugRefuseEqual, want: "P10", also: []string{"P4"}, jobs: true},
	{bug: bugSlowTakeover, want: "P11", jobs: true},
	{bug: bugNoTakeover, want: "P11", also: []string{"P5"}, named: "no-takeover", jobs: true},
	{bug: bugNoClaims, want: "P11", named: "claims-stop", jobs: true, tune: goingOn},
	{bug: bugPlainTick, named: "unconditional-tick", jobs: true, tune: noted},
	{bug: bugPlainComplete, named: "write-beside-the-tick", jobs: true, tune: noted},
	{bug: bugEarlyHandOver, named: "given-away-with-runs", jobs: true, tune: noPauses},
	{bug: bugSilentDead, named: "silent-owner-is-dead", jobs: true, tune: noPauses},
	{bug: bugAttempts, named: "attempts-in-memory", jobs: true},
	{bug: bugClaimLeaves, named: "claim-leaves-row", jobs: true},
	{bug: bugBehindMark, named: "row-behind-the-mark", jobs: true},
	{bug: bugAckEffect, named: "acknowledged-before-done", jobs: true},
	{bug: bugNoKey, named: "effects-without-key", beside: []string{"key-of-the-attempt"}, jobs: true},
	{bug: bugKeyAttempt, named: "key-of-the-attempt", beside: []string{"effects-without-key"}, jobs: true},
	{bug: bugOneToken, named: "one-token-for-all-shards", jobs: true},
	{bug: bugOneIssuer, named: "issuer-of-another-shard", jobs: true},
}

// TestBugsAreFound: until the property fails, no other does but those that may, and it fails
// within few runs.
func TestBugsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range bugCases {
		if c.want == "" {
			continue
		}
		t.Run(fmt.Sprintf("%s %s, jobs %t", c.want, c.bug, c.jobs), func(t *testing.T) {
			most := uint64(40)
			if c.jobs {
				race.Skip(t)
				most = 20
			}
			t.Parallel()
			c.find(t, most)
		})
	}
}

func (c bugCase) find(t *testing.T, most uint64) {
	t.Helper()
	for seed := range most {
		r := Check(context.Background(), simulate(c.config(seed, 3)), Options{})
		ids := failing(r)
		for _, id := range ids {
			if id != c.want && !slices.Contains(c.also, id) {
				t.Fatalf("seed %d: %s failed too: %s", seed, id, firstViolation(r, id))
			}
		}
		if slices.Contains(ids, c.want) {
			t.Logf("found with seed %d, failing %v: %s", seed, ids, firstViolation(r, c.want))
			checkExplained(t, r)
			return
		}
	}
	t.Fatalf("not found in %d runs", most)
}

func firstViolation(r *Result, id string) string {
	for _, p := range r.Properties {
		if p.ID == id && len(p.Violations) > 0 {
			return p.Violations[0].Message
		}
	}
	return "no violation"
}

// shownByJobs are the mistakes of jobs that runs without a cluster are known to show; there
// are no schedules in them, and clocks are right.
var shownByJobs = []string{"jobs-tick-blind", "jobs-unknown-means-no", "jobs-dlq-lost", "jobs-early-bird"}

// besideMistake are mechanisms that the history of a mistake cannot rule out.
var besideMistake = map[string][]string{
	"release-anyone":        {"unconditional-release"},
	"unknown-acquire-fails": {"resend-misread"},
	"jobs-tick-blind":       {"claim-leaves-row"},
	"jobs-unknown-means-no": {"unknown-recorded-as-failed"},
	"jobs-early-bird":       {"backoff-exceeded"}, // retries are due by the same clock
}

// realMistake is a mistake in the production core, and how its variant of real runs is found.
type realMistake struct {
	mistake.Mistake
	red *system.Red
}

func realMistakes(t *testing.T) (all []realMistake) {
	t.Helper()
	for _, m := range mistake.All {
		if m.Locks == nil && !slices.Contains(shownByJobs, m.ID) {
			continue
		}
		s, err := system.Find("broken/" + m.ID)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, realMistake{m, s.Red})
	}
	return all
}

// run is a run with the mistake.
func (m realMistake) run(seed uint64) (c simrun.Config) {
	if m.Locks != nil {
		c = simrun.Draw(seed)
		c.Plant = func(rows store.Locks, ttl time.Duration) store.Locks { return m.Locks(mistake.Process{TTL: ttl}, rows) }
		return c
	}
	c = simrun.DrawJobs(seed)
	c.PlantJobs = func(shards store.Shards, ttl time.Duration) (store.Shards, workload.Hooks) {
		p, hooks := mistake.Process{TTL: ttl, Members: shards.(*sim.Session), Cell: "q"}, workload.Hooks{}
		if m.Engine != nil {
			hooks.Engine = func(_ workload.Config, o *engine.Options) { m.Engine(p, o) }
		}
		if m.Shards != nil {
			shards = m.Shards(p, shards)
		}
		return shards, hooks
	}
	return c
}

// TestMistakesOfTheCoreAreNamed: each mistake that is planted in the production core turns a
// property red that its variant of real runs must turn red too, and the explanation of one
// of the first such runs names it, with nothing beside it.
func TestMistakesOfTheCoreAreNamed(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for _, m := range realMistakes(t) {
		t.Run(m.ID, func(t *testing.T) {
			t.Parallel()
			var n tally
			for seed := uint64(0); seed < 60 && n.red < 3 && n.alone == 0; seed++ {
				h := simrun.Make(t, m.run(seed))
				r := Check(t.Context(), h, Options{})
				if !slices.ContainsFunc(failing(r), func(id string) bool { return slices.Contains(m.red.Properties, id) }) {
					continue
				}
				n.explain(t, seed, h, r, m.red.Mechanism, besideMistake[m.ID])
			}
			if n.alone == 0 {
				t.Errorf("%d runs fail one of %v, and none is explained by %s alone", n.red, m.red.Properties, m.red.Mechanism)
			}
		})
	}
}
