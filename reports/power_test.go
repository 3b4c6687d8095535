package reports

import (
	"strings"
	"testing"
	"time"

	"fencepost/checker"
	"fencepost/harness/target/system"
	"fencepost/reports/evidence"
)

func powerSystem(name string, v checker.Verdict, props ...string) system.System {
	return system.System{Name: "broken/" + name, Red: &system.Red{Scenario: "steady", Contention: "high", Verdict: v, Properties: props}}
}

func powerResult(name string, seed uint64, v checker.Verdict, fired ...string) evidence.Result {
	r := evidence.Result{
		Job: evidence.Job{Scenario: "steady", Contention: "high", Seed: seed, System: "broken/" + name}, Attempt: 1, Verdict: v,
		Check:     &checker.Result{Verdict: v},
		Detection: &evidence.Detection{Violation: 5 * time.Second, Verdict: 20 * time.Second},
	}
	for _, p := range fired {
		r.Check.Properties = append(r.Check.Properties, checker.Property{ID: p, Status: checker.StatusFail})
	}
	r.Check.Properties = append(r.Check.Properties, checker.Property{ID: "P10", Status: checker.StatusPass})
	return r
}

// A kill needs the verdict and the property expected.
func TestPowerCountsKills(t *testing.T) {
	t.Parallel()
	old := powerResult("one", 3, checker.Pass)
	again := powerResult("one", 3, checker.Fail, "P7")
	again.Attempt = 2
	elsewhere := powerResult("one", 9, checker.Fail, "P7")
	elsewhere.Job.Scenario = "swarm"
	failed := powerResult("two", 2, evidence.Error)
	failed.Check, failed.Detection = nil, nil
	rows := Power([]system.System{powerSystem("one", checker.Fail, "P7", "P8"), powerSystem("two", checker.Invalid, "P14"), powerSystem("three", checker.Fail, "P1")},
		"", []evidence.Result{
			powerResult("one", 1, checker.Fail, "P4", "P8"), // a kill
			powerResult("one", 2, checker.Fail, "P4"),       // red by something else
			old, again, // the last attempt counts
			powerResult("two", 1, checker.Fail, "P14"), failed,
			elsewhere,
		})
	one, two, three := rows[0], rows[1], rows[2]
	if one.Runs != 3 || one.Kills != 2 || one.EndToEnd != 2 || one.Violation != 5*time.Second || one.Verdict != 20*time.Second {
		t.Errorf("one: %+v", one)
	}
	if got := one.firedText(); got != "P4 (2 of 3), P7 (1 of 3), P8 (1 of 3)" {
		t.Errorf("fired: %s", got)
	}
	if two.Runs != 1 || two.Kills != 0 || two.Errors != 1 {
		t.Errorf("two: %+v", two)
	}
	if three.Runs != 0 || three.kills() != "not run" {
		t.Errorf("three: %+v, %s", three, three.kills())
	}
	var md strings.Builder
	powerTables(&md, rows)
	for _, want := range []string{"| one | steady, high | P7 or P8 (FAIL) | 2/3 |", "| two | 0/1 | 0/1 |", "would have caught: 0 of 2 variants", "not run"} {
		if !strings.Contains(md.String(), want) {
			t.Errorf("no %q in\n%s", want, md.String())
		}
	}
	md.Reset()
	powerTables(&md, Power([]system.System{powerSystem("one", checker.Fail, "P7")}, "", nil))
	if !strings.Contains(md.String(), "No run") {
		t.Errorf("without runs: %s", md.String())
	}
}
