package checker

import (
	"context"
	"slices"
	"strings"
	"testing"

	"fencepost/checker/phrase"
)

// TestLateEffectIsTold: of a real history, with the fault that befell the worker.
func TestLateEffectIsTold(t *testing.T) {
	t.Parallel()
	cfg := small(0)
	cfg.bug = bugNoToken
	r := Check(context.Background(), simulate(cfg), Options{})
	if a := r.Answer; r.Verdict != Fail || !strings.HasPrefix(a.What, "the sink accepted token ") || !strings.HasSuffix(r.Summary, "the sink does not compare tokens") {
		t.Errorf("%s: %s", r.Verdict, r.Summary)
	}
}

// TestPassTellsWhatItRestsOn: a line each, and nothing that did not occur is claimed.
func TestPassTellsWhatItRestsOn(t *testing.T) {
	t.Parallel()
	r := Check(context.Background(), simulate(small(1)), Options{})
	a := r.Answer
	if r.Verdict != Pass || a.What != "no violation in "+phrase.Plural(r.Counts.Operations, "operation") || a.Because+a.Do != "" {
		t.Fatalf("%s: %+v", r.Verdict, a)
	}
	c := r.Counts
	c.Faults, c.FaultsProven, c.FaultNames, c.Takeovers, c.Grants, c.StaleRefused, c.Unknowns, c.UnknownSettled = 3, 3, map[string]int{"pause-worker": 2, "clock": 1}, 1, 9, 0, 5, 4
	c.Resends, c.LeasesLost, c.ServerTimeouts = 0, 0, 2
	r = &Result{Verdict: Pass, Counts: c, Properties: []Property{
		{ID: "P5", Status: StatusNA, Detail: "no jobs"}, {ID: "P8", Status: StatusNA, Detail: "not promised"}, {ID: "P12", Status: StatusNA, Detail: "no jobs"}, {ID: "P14", Status: StatusNA},
	}}
	a2 := AnswerOf(r, nil)
	if want := []string{
		"3 faults, proven: clock, pause-worker (2)", "1 takeover of 9 grants", "5 unknown outcomes, 4 settled by the final rows", "2 writes given up by a coordinator",
	}; !slices.Equal(a2.Exercised, want) {
		t.Errorf("exercised %q", a2.Exercised)
	}
	if want := []string{
		"stale writes: none reached the sink", "resent requests: none was sent again", "lost leases: none was lost", "P5, P12: no jobs", "P8: not promised",
		"other faults, other timing, and what needs more time",
	}; !slices.Equal(a2.NotExercised, want) {
		t.Errorf("not exercised %q", a2.NotExercised)
	}
}
