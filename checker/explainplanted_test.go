package checker

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"fencepost/checker/property"
	"fencepost/harness/record/history"
	"fencepost/internal/race"
)

// plantedCase is a mistake and the mechanism that must be named for it.
type plantedCase struct {
	bug  bug
	want string
	// also are mechanisms that the history of this mistake cannot rule out.
	also []string
	jobs bool
	tune func(*simConfig)
}

func noPauses(c *simConfig) { c.pause, c.crash = 0, 0 }

func quiet(c *simConfig) { c.noise, c.pause, c.crash = 0, 0, 0 }

func noted(c *simConfig) { c.noted = true }

var plantedCases = []plantedCase{
	{bugHiLo, "tokens-from-blocks", nil, false, nil},
	{bugWallTokens, "tokens-from-wall-clock", nil, false, nil},
	{bugRowTTL, "rows-expire", nil, false, func(c *simConfig) { c.locks, c.workers, c.clients = 6, 2, 1 }},
	{bugPlainTakeover, "unconditional-takeover", nil, false, noted},
	{bugIgnoreBeat, "takeover-ignores-renewals", nil, false, noPauses},
	{bugSlowTakeover, "no-takeover", nil, false, nil},
	{bugWallExpiry, "expiry-by-wall-clock", nil, false, func(c *simConfig) { c.crash, c.locks = 0, 1 }},
	{bugNoWait, "takeover-without-waiting", nil, false, nil},
	{bugPlainRenew, "unconditional-renewal", nil, false, noted},
	{bugBlindRelease, "unconditional-release", []string{"release-without-owner"}, false, nil},
	{bugBlindRelease, "unconditional-release", nil, false, noted},
	{bugIgnoreLoss, "loss-ignored", []string{"keep-alive-died"}, false, quiet},
	{bugHeartbeatDies, "keep-alive-died", []string{"loss-ignored"}, false, func(c *simConfig) { c.pause, c.crash, c.noise, c.locks = 0, 0, 0.2, 4 }},
	{bugAnchorReply, "lease-counted-from-answer", nil, false, func(c *simConfig) { c.noise = 0.3 }},
	{bugRevive, "lapsed-lease-revived", []string{"loss-ignored"}, false, nil},
	{bugWallLease, "lease-by-wall-clock", nil, false, quiet},
	{bugAwakeLease, "lease-by-awake-clock", nil, false, quiet},
	{bugEarlyRelease, "released-before-done", nil, false, nil},
	{bugUnknownOK, "unknown-granted", nil, false, nil},
	{bugUnknownFail, "unknown-refused", nil, false, nil},
	{bugAppliedIgnored, "refusal-granted", nil, false, noPauses},
	{bugNoToken, "sink-checks-no-token", []string{"sink-checks-what-was-read", "sink-remembers-per-process"}, false, nil},
	{bugCheckRead, "sink-checks-what-was-read", []string{"sink-remembers-per-process", "sink-checks-no-token"}, false, nil},
	{bugProcessMemory, "sink-remembers-per-process", []string{"sink-checks-what-was-read", "sink-checks-no-token"}, false, nil},
	{bugForget, "sink-forgets-tokens", nil, false, nil},
	{bugRefuseEqual, "sink-refuses-equal", nil, false, nil},
	{bugNoDedupe, "resend-is-another-effect", nil, false, nil},
	{bugNoRaise, "raise-not-done", nil, false, nil},
	{bugSilentRaise, "raise-not-done", nil, false, nil},
	{bugRenewAttempt, "renewal-changes-more", nil, false, nil},
	{bugFenceKept, "grant-keeps-token", nil, false, nil},

	{bugTickBlind, "late-copy-done-again", nil, true, func(c *simConfig) { c.noise = 0.2 }},
	{bugPlainTick, "unconditional-tick", nil, true, noted},
	{bugPlainComplete, "write-beside-the-tick", nil, true, noted},
	{bugEarlyHandOver, "given-away-with-runs", nil, true, noPauses},
	{bugSilentDead, "silent-owner-is-dead", nil, true, noPauses},
	{bugNoWait, "takeover-without-waiting", nil, true, nil},
	{bugNoRescue, "rescue-left-out", nil, true, nil},
	{bugAttempts, "attempts-in-memory", nil, true, nil},
	{bugClaimLeaves, "claim-leaves-row", nil, true, nil},
	{bugDoubleClaim, "claim-leaves-row", nil, true, nil},
	{bugBehindMark, "row-behind-the-mark", nil, true, nil},
	{bugNotRead, "row-not-read", nil, true, nil},
	{bugCountsCut, "cut-runs-counted", nil, true, nil},
	{bugSweepEarly, "forgotten-too-early", nil, true, nil},
	{bugAckEffect, "acknowledged-before-done", nil, true, nil},
	{bugNoKey, "effects-without-key", []string{"key-of-the-attempt"}, true, nil},
	{bugKeyAttempt, "key-of-the-attempt", []string{"effects-without-key"}, true, nil},
	{bugOneToken, "one-token-for-all-shards", nil, true, nil},
	{bugOneIssuer, "issuer-of-another-shard", nil, true, nil},
	{bugNoTakeover, "no-takeover", nil, true, nil},
	{bugOneNode, "waits-for-one-node", []string{"no-takeover"}, false, goingOn},
	{bugStopsInFault, "work-stops-in-fault", []string{"no-takeover"}, false, goingOn},
	{bugNoClaims, "claims-stop", nil, true, goingOn},
}

// score sums up how well the mistakes of a test are named, each counting the same.
type score struct {
	mu           sync.Mutex
	n            int
	named, alone float64
}

// add counts one mistake.
func (s *score) add(t *testing.T, n tally) {
	t.Helper()
	t.Logf("named in %d of %d, with nothing beside it but what the history cannot rule out in %d", n.named, n.red, n.alone)
	if n.red == 0 {
		t.Error("no history is red")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	s.named += float64(n.named) / float64(n.red)
	s.alone += float64(n.alone) / float64(n.red)
}

// check: nine of ten must be named, and three of four precisely.
func (s *score) check(t *testing.T) {
	t.Helper()
	if s.n == 0 {
		return // -run chose none
	}
	named, alone := s.named/float64(s.n), s.alone/float64(s.n)
	t.Logf("of %d mistakes %.0f %% are named, %.0f %% precisely", s.n, 100*named, 100*alone)
	if named < 0.9 || alone < 0.75 {
		t.Errorf("of %d mistakes %.0f %% are named, want 90; %.0f %% precisely, want 75", s.n, 100*named, 100*alone)
	}
}

// tally is how well one mistake is explained, over several histories.
type tally struct{ red, named, alone int }

// explain explains one history, and counts whether the mistake is named, and precisely.
func (n *tally) explain(t *testing.T, seed uint64, h *history.History, r *Result, want string, also []string) {
	t.Helper()
	e := Explain(h, r, Options{})
	got := e.Best()
	n.red++
	if slices.Contains(got, want) {
		n.named++
	}
	if precise(got, want, also) {
		n.alone++
	} else {
		t.Logf("seed %d: %s by %v: %v", seed, r.Verdict, failing(r), got)
	}
	checkChains(t, h, e)
	bare := *r
	bare.Answer = nil
	if a := AnswerOf(&bare, e); !reflect.DeepEqual(a, *r.Answer) || a.What == "" || len(e.Causes) > 0 && len(a.Properties) == 0 {
		t.Errorf("seed %d: the result is told as %+v, the explanation as %+v", seed, r.Answer, a)
	}
}

// precise says whether nothing is named but the mistake and what may stand beside it.
func precise(got []string, want string, also []string) bool {
	return slices.Contains(got, want) && !slices.ContainsFunc(got, func(id string) bool { return id != want && !slices.Contains(also, id) })
}

// TestPlantedMistakesAreNamed: for histories of systems with one known mistake the
// explanation names it first.
func TestPlantedMistakesAreNamed(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	var sum score
	t.Run("mistake", func(t *testing.T) {
		for _, c := range plantedCases {
			t.Run(fmt.Sprintf("%s %s", c.want, c.bug), func(t *testing.T) {
				t.Parallel()
				var n tally
				for seed := uint64(0); seed < 40 && n.red < 4; seed++ {
					h := simulate(c.config(seed))
					r := Check(context.Background(), h, Options{})
					if r.Verdict != Fail {
						continue
					}
					n.explain(t, seed, h, r, c.want, c.also)
				}
				sum.add(t, n)
			})
		}
	})
	sum.check(t)
}

func (c plantedCase) config(seed uint64) simConfig {
	cfg := small(seed)
	if c.jobs {
		cfg = smallJobs(seed)
		cfg.length /= 2
	}
	cfg.bug = c.bug
	if c.tune != nil {
		c.tune(&cfg)
	}
	return cfg
}

// checkChains: every cause has evidence and a chain in order, with a mistake unless it is
// about what the record lacks, and what it points at is there.
func checkChains(t *testing.T, h *history.History, e *Explanation) {
	t.Helper()
	lines := map[string]bool{}
	for _, ev := range h.Events {
		lines[fmt.Sprintf("%s:%d", ev.File, ev.Line)] = true
	}
	for _, c := range e.Causes {
		mistakes := 0
		for i, s := range c.Chain {
			if s.Text == "" || s.File != "" && !lines[fmt.Sprintf("%s:%d", s.File, s.Line)] || i > 0 && s.TS < c.Chain[i-1].TS {
				t.Errorf("%s: step %d: %+v", c.Mechanism, i, s)
			}
			if s.Role == RoleMistake {
				mistakes++
			}
		}
		lacks := property.MechanismByID[c.Mechanism].OfRecord
		if len(c.Evidence) == 0 || mistakes == 0 && !lacks || len(c.Properties) == 0 || c.Statement == "" || c.Apart != "" && len(c.Alternatives) == 0 {
			t.Errorf("%s: %+v", c.Mechanism, c)
		}
	}
}
