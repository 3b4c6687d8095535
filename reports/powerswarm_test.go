package reports

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"fencepost/checker"
	"fencepost/harness/target/system"
	"fencepost/reports/evidence"
)

func swarmResult(name string, seed uint64, v checker.Verdict, fired ...string) evidence.Result {
	r := powerResult(name, seed, v, fired...)
	r.Job.Scenario, r.Took = "swarm", time.Minute
	return r
}

// Runs count up to the one that found the variant; INVALID finds a broken harness alone, by what it
// must be invalid by.
func TestSwarmRows(t *testing.T) {
	t.Parallel()
	lost := swarmResult("errors", 1, evidence.Error)
	lost.Check = nil
	elsewhere := swarmResult("sink", 1, checker.Fail, "P4")
	elsewhere.Job.Sink = "postgres"
	systems := []system.System{}
	for _, name := range []string{"first", "third", "never", "errors", "none", "sink"} {
		systems = append(systems, powerSystem(name, checker.Fail, "P7"))
	}
	systems = append(systems, powerSystem("harness", checker.Invalid, "P14"), powerSystem("invalid", checker.Invalid, "P14"))
	rows := Swarm(systems, "", []evidence.Result{
		swarmResult("third", 3, checker.Fail, "P7"), swarmResult("third", 1, checker.Pass), swarmResult("third", 2, checker.Invalid, "P15"),
		swarmResult("third", 4, checker.Pass), powerResult("third", 1, checker.Fail, "P7"),
		swarmResult("first", 1, checker.Fail, "P4"),
		swarmResult("never", 1, checker.Pass), swarmResult("never", 2, checker.Pass),
		lost, elsewhere, swarmResult("harness", 1, checker.Invalid, "P14"), swarmResult("invalid", 1, checker.Invalid, "P15"),
	})
	for i, want := range []struct {
		runs, errors int
		spent        time.Duration
		verdict, by  string
	}{
		{1, 0, time.Minute, "found", "P4"},
		{3, 0, 3 * time.Minute, "found", "P7"},
		{2, 0, 2 * time.Minute, "not yet", "–"},
		{0, 1, time.Minute, "not yet", "–"},
		{0, 0, 0, "not run", "–"},
		{0, 0, 0, "not run", "–"},
		{1, 0, time.Minute, "found", "P14"},
		{1, 0, time.Minute, "not yet", "–"},
	} {
		r := rows[i]
		if r.Runs != want.runs || r.Errors != want.errors || r.Spent != want.spent || r.verdict(20*time.Minute) != want.verdict || r.by() != want.by {
			t.Errorf("%s: %+v: %s, %s", r.System.Name, r, r.verdict(20*time.Minute), r.by())
		}
	}
	if rows[2].Done(3*time.Minute) || !rows[2].Done(2*time.Minute) || !rows[0].Done(time.Hour) || rows[2].verdict(time.Minute) != "not found" {
		t.Error("when a variant is done")
	}
	if r := (SwarmRow{Errors: 3}); !r.Done(time.Hour) {
		t.Error("a variant whose runs cannot be carried out has more")
	}
	var out bytes.Buffer
	PrintSwarm(&out, rows, 20*time.Minute)
	for _, want := range []string{"third", "3 of 5 variants found", "one of the others had 60 s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	var md strings.Builder
	swarmTable(&md, rows)
	if !strings.Contains(md.String(), "| third | steady, high | P7 (FAIL) | found | 3 | 180 s | P7 |") || strings.Contains(md.String(), "| none |") {
		t.Error(md.String())
	}
}

// The time within which half are found is known only if the others had as long.
func TestSwarmTotal(t *testing.T) {
	t.Parallel()
	row := func(found bool, spent time.Duration) SwarmRow { return SwarmRow{Runs: 1, Found: found, Spent: spent} }
	for _, c := range []struct {
		name string
		rows []SwarmRow
		want string
	}{
		{"none", nil, "0 of 0 variants found by random faults"},
		{"not run", []SwarmRow{{}}, "0 of 0 variants found by random faults"},
		{"all", []SwarmRow{row(true, time.Minute), row(true, 3*time.Minute), row(true, 2*time.Minute)}, "3 of 3 variants found by random faults, half of them all within 120 s"},
		{"more than half", []SwarmRow{row(true, time.Minute), row(false, 3*time.Minute), row(true, 2*time.Minute)}, "2 of 3 variants found by random faults, half of them all within 120 s"},
		{"others short of time", []SwarmRow{row(true, time.Minute), row(false, time.Second), row(true, 2*time.Minute)}, "2 of 3 variants found by random faults; one of the others had 1 s, too short a time to say when half of them are"},
		{"less than half", []SwarmRow{row(true, time.Minute), row(false, time.Hour), row(false, time.Hour)}, "1 of 3 variants found by random faults"},
	} {
		if got := TotalOfSwarm(c.rows).String(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
