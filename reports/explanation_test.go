package reports

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/target/system"
	"fencepost/reports/reporttest"
)

// The page, report.json and the summary of a red run name the cause, with its chain.
func TestCauseOnThePage(t *testing.T) {
	t.Parallel()
	dir := makeRun(t, reporttest.Options{Seed: 2, Fault: "pause-worker", Broken: reporttest.SinkNoTokenCheck, Verdict: "FAIL"})
	page, err := WriteRun(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	raw := readPage(t, page).raw
	for _, want := range []string{`<section id="cause"`, "The sink does not compare tokens.", "sink-checks-no-token", `<li class="r-mistake">`, `<li class="r-fault">`, `href="#violation-P3-1"`, "Ruled out by</th>", `<a href="#cause">what would tell them apart</a>`, ", because worker w2 was paused for "} {
		if !strings.Contains(raw, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, JSONFile))
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	if got := summaryOf(t, g); !strings.Contains(got, "### Likely cause") || !strings.Contains(got, "| The sink does not compare tokens. (sink-checks-no-token) | Any effect that is refused as stale. |") {
		t.Errorf("the summary lacks the cause:\n%s", got)
	}
	good := makeRun(t, reporttest.Options{Seed: 1, Verdict: "PASS"})
	if page, err = WriteRun(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(readPage(t, page).raw, `id="cause"`) {
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
	for _, want := range []string{"75 % of the planted mechanisms are named, over 2 variants; 1 variants have no kept run", "nothing (1), " + right(1) + " (1)", "4     2      1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, out.String())
		}
	}
}
