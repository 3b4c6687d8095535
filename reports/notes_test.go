package reports

import (
	"slices"
	"testing"

	"fencepost/checker"
	"fencepost/reports/evidence"
)

// TestUnexpected: of a known-broken variant the red that shows it is what should be, under its
// own scenario; of the core a PASS.
func TestUnexpected(t *testing.T) {
	t.Parallel()
	result := func(system, scenario string, seed uint64, v checker.Verdict, fired ...string) evidence.Result {
		r := evidence.Result{Job: evidence.Job{Scenario: scenario, Contention: "high", Seed: seed, System: system}, Verdict: v, Check: &checker.Result{Verdict: v}}
		for _, id := range fired {
			r.Check.Properties = append(r.Check.Properties, checker.Property{ID: id, Status: checker.StatusFail})
		}
		if v == evidence.Error {
			r.Check = nil
		}
		return r
	}
	const variant = "broken/sink-no-token-check"
	all := results{
		power: []evidence.Result{
			result(variant, "pause-worker", 1, checker.Fail, "P3", "P4"),
			result(variant, "pause-worker", 2, checker.Invalid, "P14"), // its trigger never came
			result(variant, "pause-worker", 3, checker.Fail, "P1"),     // red by something else
			result(variant, "pause-worker", 4, checker.Pass),
			result(variant, "steady", 5, checker.Pass), // nothing says that it must show there
			result("broken/no-longer-known", "steady", 6, checker.Fail, "P1"),
		},
		sets: map[string][]evidence.Result{"locks": {
			result("core", "steady", 1, checker.Pass), result("core", "steady", 2, checker.Unknown), result("core", "steady", 3, evidence.Error),
		}},
	}
	var got []string
	for _, u := range all.unexpected() {
		got = append(got, u.result+" "+u.verdict)
	}
	want := []string{
		"evidence/locks/steady-high-2 UNKNOWN", "evidence/locks/steady-high-3 ERROR",
		"power/pause-worker-high-2-broken_sink-no-token-check INVALID by P14",
		"power/pause-worker-high-3-broken_sink-no-token-check FAIL by P1",
		"power/pause-worker-high-4-broken_sink-no-token-check PASS",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
