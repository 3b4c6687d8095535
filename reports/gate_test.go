package reports

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/reports/reporttest"
)

// gateRun is a run with a property of every status.
func gateRun() GateRun {
	v := func(m string) []checker.Violation {
		return []checker.Violation{{Message: m, Events: []checker.EventRef{{File: "history/w1.1.jsonl", Line: 7}}}}
	}
	at := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	return GateRun{
		Name: "run-1", Page: "runs/run-1/report.html",
		Info: rundir.Info{Scenario: "partition", Seed: 7, System: "core", Contention: "high", Started: at,
			Ended: at.Add(61500 * time.Millisecond), Command: "make chaos SCENARIO=partition"},
		Result: &checker.Result{
			Verdict: checker.Fail, Answer: &checker.Answer{What: "the sink took 5 | 4", Because: "w1 was paused", Properties: []string{"P1"}},
			Properties: []checker.Property{
				{ID: "P1", Title: "tokens <rise>", Status: checker.StatusFail, Count: 3, Violations: v("token 5 & token 4 \x01"), Millis: 1500},
				{ID: "P2", Title: "rows", Status: checker.StatusUnknown, Count: 1, Detail: "no time", Violations: v("not conclusive")},
				{ID: "P5", Title: "jobs", Status: checker.StatusNA, Detail: "no jobs"},
				{ID: "P6", Title: "citations", Status: checker.StatusPass, Checked: 9, Detail: "all of them"},
				{ID: "P14", Title: "validity", Status: checker.StatusInvalid, Count: 1, Violations: v("fault f1 | not proven")},
			},
			Thresholds: []checker.Bound{{Name: "p99 of lock in phase fault", Status: checker.StatusPass, MS: 12, MostMS: 20,
				Detail: "12.0 ms, of 300 operations; at most 20.0 ms are allowed"}},
		},
	}
}

// parsed is what a consumer sees; attributes and elements are those that every usual
// schema of JUnit's XML has.
type parsed struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Text    string     `xml:",chardata"`
	Nodes   []parsed   `xml:",any"`
}

var junitAllows = map[string][2][]string{
	"testsuites": {{"name", "tests", "failures", "errors", "time"}, {"testsuite"}},
	"testsuite":  {{"name", "tests", "failures", "errors", "skipped", "time", "timestamp"}, {"properties", "testcase", "system-out"}},
	"properties": {nil, {"property"}},
	"property":   {{"name", "value"}, nil},
	"testcase":   {{"name", "classname", "time"}, {"failure", "error", "skipped"}},
	"failure":    {{"message", "type"}, nil}, "error": {{"message", "type"}, nil}, "skipped": {{"message"}, nil}, "system-out": {},
}

func (p parsed) attr(name string) string {
	for _, a := range p.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func (p parsed) check(t *testing.T) {
	t.Helper()
	allowed, known := junitAllows[p.XMLName.Local]
	if !known {
		t.Errorf("element %s", p.XMLName.Local)
	}
	for _, a := range p.Attrs {
		if !slices.Contains(allowed[0], a.Name.Local) {
			t.Errorf("%s has the attribute %s", p.XMLName.Local, a.Name.Local)
		}
	}
	last := 0
	for _, n := range p.Nodes {
		i := slices.Index(allowed[1], n.XMLName.Local)
		if i < last {
			t.Errorf("%s holds %s, or not in this order", p.XMLName.Local, n.XMLName.Local)
		}
		last = max(last, i)
		n.check(t)
	}
}

func junit(t *testing.T, runs ...GateRun) parsed {
	t.Helper()
	var b bytes.Buffer
	must(t, WriteJUnit(&b, runs))
	var p parsed
	if err := xml.Unmarshal(b.Bytes(), &p); err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	p.check(t)
	return p
}

func TestJUnit(t *testing.T) {
	t.Parallel()
	lost := GateRun{Name: "steady", Err: "no cluster:\nit did not start"}
	p := junit(t, gateRun(), lost)
	if p.attr("tests") != "6" || p.attr("failures") != "1" || p.attr("errors") != "3" || len(p.Nodes) != 2 {
		t.Errorf("%+v", p.Attrs)
	}
	run, none := p.Nodes[0], p.Nodes[1]
	for name, want := range map[string]string{"name": "run-1", "tests": "5", "failures": "1", "errors": "2", "skipped": "1",
		"time": "61.500", "timestamp": "2025-01-02T03:04:05"} {
		if got := run.attr(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	cases := map[string]parsed{}
	for _, n := range run.Nodes {
		if n.XMLName.Local == "testcase" {
			cases[strings.Fields(n.attr("name"))[0]] = n
			if n.attr("classname") != "fencepost.partition" {
				t.Errorf("%+v", n.Attrs)
			}
		}
	}
	for id, want := range map[string]struct{ element, typ, message, text string }{
		"P1": {"failure", "FAIL", "the sink took 5 | 4, because w1 was paused", "token 5 & token 4 \uFFFD\n  history/w1.1.jsonl:7\n2 more"},
		"P2": {"error", "UNKNOWN", "no time", ""},
		"P5": {"skipped", "", "no jobs", ""}, "P14": {"error", "INVALID", "fault f1 | not proven", "history/w1.1.jsonl:7"},
	} {
		c := cases[id]
		if len(c.Nodes) != 1 || c.Nodes[0].XMLName.Local != want.element || c.Nodes[0].attr("type") != want.typ ||
			c.Nodes[0].attr("message") != want.message || !strings.Contains(c.Nodes[0].Text, want.text) {
			t.Errorf("%s: %+v, want %+v", id, c, want)
		}
	}
	if len(cases["P6"].Nodes) != 0 || cases["P1"].attr("time") != "1.500" {
		t.Errorf("%+v", cases)
	}
	if none.attr("errors") != "1" || none.attr("tests") != "1" ||
		!strings.HasPrefix(none.Nodes[0].Nodes[0].attr("message"), "the run was not carried out, or not checked: no cluster; mend that") {
		t.Errorf("%+v", none)
	}
	if p := junit(t); p.attr("tests") != "0" {
		t.Errorf("%+v", p)
	}
}

func summaryOf(t *testing.T, runs ...GateRun) string {
	t.Helper()
	var b strings.Builder
	must(t, WriteSummary(&b, runs))
	return b.String()
}

func TestJobSummary(t *testing.T) {
	t.Parallel()
	one := summaryOf(t, gateRun())
	has(t, one,
		"## fencepost: FAIL", "**partition, high contention, seed 7, system core**", `The sink took 5 \| 4, because w1 was paused.`,
		"- **P1** token 5", `- **P14** fault f1 \| not proven`,
		"| P1 | tokens &lt;rise&gt; | **FAIL** | 0 | 3 found |", "| P2 | rows | **UNKNOWN** | 0 | no time |",
		"| P5 | jobs | n/a | 0 | no jobs |", "| P6 | citations | pass | 9 | all of them |",
		"| p99 of lock in phase fault | PASS | 12.0 ms, of 300", "[runs/run-1/report.html](runs/run-1/report.html)",
		"`make chaos SCENARIO=partition`",
	)
	if strings.Index(one, "because w1 was paused") > strings.Index(one, "### Properties") {
		t.Error("the answer does not come first")
	}
	if strings.Contains(one, "not conclusive") {
		t.Error("what is not conclusive is shown as found")
	}
	good := gateRun()
	good.Name, good.Result = "run-2", &checker.Result{Verdict: checker.Pass, Counts: checker.Counts{Operations: 9, Takeovers: 1, Grants: 2}}
	for _, want := range []string{"\nNo violation in 9 operations.\n\nExercised:\n\n- 1 takeover of 2 grants\n\nNot exercised:\n\n- faults: " +
		"none was injected\n"} {
		if got := summaryOf(t, good); !strings.Contains(got, want) {
			t.Errorf("a PASS lacks %q:\n%s", want, got)
		}
	}
	vacuous := gateRun()
	vacuous.Result = &checker.Result{Verdict: checker.Invalid, Properties: gateRun().Result.Properties[4:]}
	if got := summaryOf(t, vacuous); !strings.Contains(got, `The run proves nothing: fault f1 \| not proven; run it again.`) {
		t.Errorf("an INVALID run lacks what to do:\n%s", got)
	}
	if got := junit(t, vacuous).Nodes[0]; got.attr("errors") != "1" ||
		got.Nodes[1].Nodes[0].attr("message") != "the run proves nothing: fault f1 | not proven; run it again" {
		t.Errorf("%+v", got)
	}
	lost := GateRun{Name: "steady", Err: "no cluster"}
	all := summaryOf(t, good, lost, gateRun())
	has(t, all, "## fencepost: 1 FAIL, 1 NOT CARRIED OUT, 1 PASS", "| run-2 | PASS | – | 9 |", "| run-1 | FAIL | P1, P2, P14 | 0 |",
		"| steady | NOT CARRIED OUT |", "The run was not carried out, or not checked: no cluster; mend that and run it again",
		"```\nno cluster\n```", "## fencepost: FAIL")
	if strings.Contains(all, "No violation") {
		t.Error("a PASS among several is shown in full")
	}
	if !strings.Contains(summaryOf(t), "nothing was run") {
		t.Error("nothing is shown as something")
	}
}

// A run's directory gives the numbers of its page.
func TestReadGateRun(t *testing.T) {
	t.Parallel()
	dir, err := reporttest.Write(t.TempDir(), reporttest.Options{Seed: 1, Fault: "pause-worker", Verdict: "PASS"})
	must(t, err)
	res := &checker.Result{Verdict: checker.Pass}
	g, err := ReadGateRun(dir, res)
	if err != nil || g.Report != nil || g.Page != "" || g.Info.Scenario != "pause-worker" {
		t.Errorf("before the report: %+v, %v", g, err)
	}
	if _, err := WriteRun(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if g, err = ReadGateRun(dir, res); err != nil || g.Report == nil || g.Page != filepath.Join(dir, rundir.ReportFile) {
		t.Fatalf("%+v, %v", g, err)
	}
	got := summaryOf(t, g)
	has(t, got, "| f1 pause-worker | w2 |", "| yes | the process was in state T", "| lock wait | fault |", "### Counts")
	must(t, os.WriteFile(filepath.Join(dir, JSONFile), []byte("{"), 0o644))
	if _, err := ReadGateRun(dir, res); err == nil || !strings.Contains(err.Error(), JSONFile) {
		t.Errorf("a torn report: %v", err)
	}
	if err := WriteJUnit(failing{}, []GateRun{g}); err == nil {
		t.Error("a full disk is no error")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// The page shows the thresholds with what was measured.
func TestThresholdsOnThePage(t *testing.T) {
	t.Parallel()
	dir := makeRun(t, reporttest.Options{Seed: 1, Verdict: "PASS"})
	var v checker.Result
	path := filepath.Join(dir, rundir.VerdictFile)
	b, err := os.ReadFile(path)
	must(t, err)
	must(t, json.Unmarshal(b, &v))
	v.Thresholds = []checker.Bound{{Name: "p99 of lock in phase fault", Status: checker.StatusFail, Detail: "30.0 ms, of 300 <operations>"}}
	v.Growth = []checker.Growth{{Process: "w1.1", Of: "descriptors", Begin: 30, End: 42, By: 11.5, Low: 11, High: 12.25, PerHour: 690}}
	must(t, rundir.WriteJSON(path, v))
	raw := reported(t, dir).raw
	has(t, raw, `<tr class="p-fail"><th scope="row">p99 of lock in phase fault</th>`, "30.0 ms, of 300 &lt;operations&gt;.",
		`<th scope="row" class="mono">w1.1</th><td>descriptors</td>`, ">&#43;11.0 to &#43;12.2<", ">&#43;690.0<")
}
