package reports

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fencepost/checker"
	"fencepost/harness/target/system"
	"fencepost/reports/evidence"
	"fencepost/reports/reporttest"
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
	rows := Power([]system.System{powerSystem("one", checker.Fail, "P7", "P8"), powerSystem("two", checker.Invalid, "P14"),
		powerSystem("three", checker.Fail, "P1")},
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
	if got := firedText(one.Fired, one.Runs); got != "P4 (2 of 3), P7 (1 of 3), P8 (1 of 3)" {
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
	has(t, md.String(), "| one | steady, high | P7 or P8 (FAIL) | 2/3 |", "| two | 0/1 | 0/1 |", "would have caught: 0 of 2 variants",
		"not run")
	md.Reset()
	powerTables(&md, Power([]system.System{powerSystem("one", checker.Fail, "P7")}, "", nil))
	if !strings.Contains(md.String(), "No run") {
		t.Errorf("without runs: %s", md.String())
	}
}

// The page, report.json and the summary of a red run name the cause, with its chain.
func TestCauseOnThePage(t *testing.T) {
	t.Parallel()
	dir := makeRun(t, reporttest.Options{Seed: 2, Fault: "pause-worker", Broken: reporttest.SinkNoTokenCheck, Verdict: "FAIL"})
	raw := reported(t, dir).raw
	has(t, raw, `<section id="cause"`, "The sink does not compare tokens.", "sink-checks-no-token", `<li class="r-mistake">`,
		`<li class="r-fault">`, `href="#violation-P3-1"`, "Ruled out by</th>", `<a href="#cause">what would tell them apart</a>`,
		", because worker w2 was paused for ")
	b, err := os.ReadFile(filepath.Join(dir, JSONFile))
	must(t, err)
	var rep Report
	if err := json.Unmarshal(b, &rep); err != nil || rep.Explanation == nil || len(rep.Explanation.Causes) == 0 {
		t.Fatalf("report.json: %v, %+v", err, rep.Explanation)
	}
	for _, s := range rep.Explanation.Causes[0].Chain {
		if s.File != "" {
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(s.File))); err != nil {
				t.Errorf("%+v: %v", s, err)
			}
		}
	}
	g, err := ReadGateRun(dir, &checker.Result{Verdict: checker.Fail})
	must(t, err)
	if got := summaryOf(t, g); !strings.Contains(got, "### Likely cause") ||
		!strings.Contains(got, "| The sink does not compare tokens. (sink-checks-no-token) | Any effect that is refused as stale. |") {
		t.Errorf("the summary lacks the cause:\n%s", got)
	}
	good := makeRun(t, reporttest.Options{Seed: 1, Verdict: "PASS"})
	if strings.Contains(reported(t, good).raw, `id="cause"`) {
		t.Error("a PASS is explained")
	}
}

func TestExplained(t *testing.T) {
	t.Parallel()
	all := system.Broken()[:3]
	name := func(i int) string { return all[i].Name }
	right := func(i int) string { return all[i].Red.Mechanism }
	rows := Explained(all, []ExplainedRun{
		{System: name(0), Killed: true, Best: []string{right(0)}},
		{System: name(0), Killed: true, Best: []string{right(1), right(0)}},
		{System: name(0), Killed: true, Best: []string{right(1)}},
		{System: name(0), Killed: true},
		{System: name(0), Best: []string{right(0)}},
		{System: name(1), Killed: true, Best: []string{right(1)}},
		{System: "core", Killed: true, Best: []string{right(1)}},
	})
	if r := rows[0]; r.Runs != 4 || r.Otherwise != 1 || r.Named != 2 || r.Alone != 1 || r.Instead[right(1)] != 1 || r.Instead["nothing"] != 1 {
		t.Errorf("%+v", r)
	}
	if share, n := NamedShare(rows); share != 0.75 || n != 2 {
		t.Errorf("%f over %d variants, want 0.75 over 2", share, n)
	}
	var out bytes.Buffer
	PrintExplained(&out, rows)
	has(t, out.String(), "75 % of the planted mechanisms are named, over 2 variants; 1 variants have no kept run",
		"nothing (1), "+right(1)+" (1)", "4     2      1")
}
