package reports

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/reports/evidence"
)

// sample makes results of a few scenarios with one of each verdict.
func sample() []evidence.Result {
	var out []evidence.Result
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	add := func(scenario, contention string, seed uint64, attempt int, v checker.Verdict, points map[string]int) {
		start = start.Add(time.Minute)
		r := evidence.Result{
			Version: 1, Job: evidence.Job{Scenario: scenario, Contention: contention, Seed: seed, System: "core"}, Attempt: attempt, Verdict: v,
			Info: rundir.Info{
				Run: fmt.Sprintf("20260102-%s-%d", scenario, seed), Scenario: scenario, About: "Something <b>happens</b>.", Seed: seed,
				Started: start, Ended: start.Add(50 * time.Second),
				Command: "make chaos SCENARIO=" + scenario, Versions: map[string]string{"fencepost": "0123456789ab", "cassandra": "5.0.6"},
				Machine: map[string]string{"cores": "2", "load": fmt.Sprint(seed)},
			},
			Took: 55 * time.Second, Sometimes: []string{"lease-lost", "takeover"}, Orphan: 1.07, P99Before: time.Second, P99During: 3 * time.Second,
		}
		if v == evidence.Error {
			r.Error = "no worker came up"
		} else {
			status := checker.StatusPass
			if v == checker.Fail {
				status = checker.StatusFail
			}
			r.Check = &checker.Result{Verdict: v, Summary: "something in 1000 operations",
				Properties: []checker.Property{{ID: "P3", Status: status}},
				Counts: checker.Counts{Operations: 1000, Cycles: 300, Takeovers: 2, StaleRefused: 1, Unknowns: 5, UnknownSettled: 4,
					Points: points}}
		}
		out = append(out, r)
	}
	for seed := range uint64(5) {
		for _, c := range []string{"medium", "high"} {
			add("kill-worker", c, seed+1, 1, checker.Pass, map[string]int{"takeover": 1})
			add("partition", c, seed+1, 1, checker.Pass, map[string]int{"takeover": 1, "lease-lost": 1})
		}
	}
	add("pause-worker", "medium", 1, 1, checker.Invalid, nil)
	add("pause-worker", "medium", 1, 2, checker.Pass, nil)
	add("pause-worker", "high", 1, 1, checker.Fail, nil)
	add("pause-worker", "high", 2, 1, checker.Unknown, nil)
	add("pause-worker", "high", 3, 1, evidence.Error, nil)
	return out
}

func TestEvidencePage(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "locks.jsonl")
	path, err := WriteEvidence(file, sample(), "")
	must(t, err)
	d := readPage(t, path)
	chips, links, ids := map[string]int{}, []string{}, map[string]bool{}
	d.each("", func(n *html.Node) {
		if c := attrOf(n, "class"); strings.HasPrefix(c, "chip v-") && attrOf(n, "title") != "" {
			chips[strings.TrimPrefix(c, "chip v-")]++
			if h := attrOf(n, "href"); h != "" {
				links = append(links, h)
			}
		}
		ids[attrOf(n, "id")] = true
		for _, a := range []string{"src", "href"} {
			if v := attrOf(n, a); v != "" && !strings.HasPrefix(v, "#") && !strings.HasPrefix(v, "data:") {
				t.Errorf("the page loads or leads to %q", v)
			}
		}
	})
	if got, want := fmt.Sprint(chips), "map[fail:1 invalid:1 none:1 pass:21 unknown:1]"; got != want {
		t.Errorf("squares %s, want %s", got, want)
	}
	for _, l := range links {
		if !ids[strings.TrimPrefix(l, "#")] {
			t.Errorf("%s leads nowhere", l)
		}
	}
	if len(links) != 4 {
		t.Errorf("%d squares lead to an explanation, want 4", len(links))
	}
	has(t, d.raw, "FAIL – evidence locks", "25 runs of 3 scenarios", "0123456789ab", "no worker came up", "by P3", "run again: PASS",
		"1.07 ttl", "20 of 25", "Something &lt;b&gt;happens")
	again, err := WriteEvidence(file, sample(), "")
	if err != nil || readPage(t, again).raw != d.raw {
		t.Errorf("not the same bytes for the same results (%v)", err)
	}
}

// What was INVALID and is PASS when run again does not redden the set; a
// violation does, whatever came later.
func TestEvidenceVerdict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first, then, want checker.Verdict
	}{
		{checker.Pass, checker.Pass, checker.Pass}, {checker.Invalid, checker.Pass, checker.Pass}, {checker.Fail, checker.Pass, checker.Fail},
		{checker.Pass, checker.Invalid, checker.Invalid}, {evidence.Error, checker.Pass, checker.Pass},
		{checker.Pass, evidence.Error, evidence.Error},
	} {
		job := evidence.Job{Scenario: "steady", Contention: "high", Seed: 1, System: "core"}
		got := totalOf([]evidence.Result{{Job: job, Attempt: 1, Verdict: c.first}, {Job: job, Attempt: 2, Verdict: c.then}}).Worst
		if got != c.want {
			t.Errorf("%s then %s: %s, want %s", c.first, c.then, got, c.want)
		}
	}
}

func TestEvidencePoints(t *testing.T) {
	t.Parallel()
	var kill []evidence.Result
	for _, r := range sample() {
		if r.Job.Scenario == "kill-worker" {
			kill = append(kill, r)
		}
	}
	row, ok := pointsOf(kill)
	if !ok || row.Runs != 10 || fmt.Sprint(row.Hit) != "[takeover in 10]" || fmt.Sprint(row.Missing) != "[lease-lost]" {
		t.Errorf("%+v", row)
	}
	// The only hit is older than the newest 20.
	var long []evidence.Result
	for i := range 21 {
		r := kill[0]
		r.Job.Seed, r.Info.Started = uint64(i), kill[0].Info.Started.Add(time.Duration(i)*time.Hour)
		c := *r.Check
		if c.Counts.Points = nil; i == 0 {
			c.Counts.Points = map[string]int{"takeover": 1, "lease-lost": 3}
		}
		r.Check = &c
		long = append(long, r)
	}
	if row, _ := pointsOf(long); row.Runs != 20 || len(row.Missing) != 2 {
		t.Errorf("of 21 runs: %+v", row)
	}
	if row, _ := pointsOf(long[:20]); len(row.Missing) != 0 {
		t.Errorf("of 20 runs: %+v", row)
	}
	kill[0].Sometimes = nil
	if _, ok := pointsOf(kill[:1]); ok {
		t.Error("a row for a scenario that expects nothing now and then")
	}
}

// TestEvidenceOfATree: results that other code decided do not colour the page.
func TestEvidenceOfATree(t *testing.T) {
	t.Parallel()
	all := sample()
	for i := range all {
		if all[i].Verdict == checker.Pass {
			all[i].Info.Versions = map[string]string{evidence.CommitKey: "0123456789ab", evidence.TreeKey: "today"}
		}
	}
	for tree, want := range map[string][]string{
		"today":    {"PASS – evidence locks", "21 runs of 3 scenarios", "1 FAIL, 1 ERROR, 1 UNKNOWN", "Older results"},
		"tomorrow": {"NOTHING – evidence locks", "No run of this code is kept", "1 FAIL, 1 ERROR, 1 UNKNOWN", "Older results"},
	} {
		file := filepath.Join(t.TempDir(), "locks.jsonl")
		path, err := WriteEvidence(file, all, tree)
		must(t, err)
		raw := readPage(t, path).raw
		has(t, raw, want...)
	}
}

func TestEvidenceTable(t *testing.T) {
	t.Parallel()
	md, err := Results(Kept{Sets: map[string][]evidence.Result{"locks": sample()}})
	must(t, err)
	has(t, md, "### Set locks", "| kill-worker | medium | 5 | 5 | – | 5000 | 10 |", "**1 FAIL, 1 ERROR, 1 UNKNOWN**", "Commits: 0123456789ab")
	if md, err := Results(Kept{}); err != nil || strings.Contains(md, "## Evidence") {
		t.Errorf("a section without evidence (%v)", err)
	}
}

// TestUnexpected: of a known-broken variant the red that shows it is what should be, under its
// own scenario; of the core a PASS.
func TestUnexpected(t *testing.T) {
	t.Parallel()
	result := func(system, scenario string, seed uint64, v checker.Verdict, fired ...string) evidence.Result {
		r := evidence.Result{Job: evidence.Job{Scenario: scenario, Contention: "high", Seed: seed, System: system}, Verdict: v,
			Check: &checker.Result{Verdict: v}}
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
