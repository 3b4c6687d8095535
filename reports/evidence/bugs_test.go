package evidence

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/env/cluster"
	"fencepost/harness/scenario"
	"fencepost/internal/docpage"
)

// TestBugsPageIsCurrent: the page's table is what the rows say.
func TestBugsPageIsCurrent(t *testing.T) {
	var b strings.Builder
	b.WriteString("| bug | what it does | source | red | green |\n|---|---|---|---|---|\n")
	runs := func(all []OnRelease) string {
		var words []string
		for _, r := range all {
			words = append(words, fmt.Sprintf("[%s](scenarios.md#%[1]s) on %s", r.Scenario, r.Cassandra))
		}
		return strings.Join(words, ", ")
	}
	for _, x := range Bugs {
		source := x.Source
		if source == "" {
			source = "*unconfirmed*"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", x.Name, x.About, source, runs(x.Red), runs(x.Green))
	}
	docpage.Check(t, "releases.md", "bugs", b.String())
}

// TestBugsAreComplete: each has red runs and as many green ones, drills that there are on
// releases that there are; no run is both.
func TestBugsAreComplete(t *testing.T) {
	t.Parallel()
	for _, b := range Bugs {
		if b.Name == "" || b.About == "" || len(b.Red) == 0 || len(b.Red) != len(b.Green) {
			t.Errorf("%+v", b)
		}
		for _, r := range slices.Concat(b.Red, b.Green) {
			s, err := scenario.Load(r.Scenario)
			if err != nil || s.Drill == "" || !slices.Contains(cluster.Releases(), r.Cassandra) {
				t.Errorf("%s: %+v: %v", b.Name, r, err)
			}
		}
		for _, r := range b.Green {
			if MustBeRed(Job{Scenario: r.Scenario, Cassandra: r.Cassandra, System: core}) {
				t.Errorf("%s: %+v is red and green", b.Name, r)
			}
		}
	}
}

func TestBugJobs(t *testing.T) {
	t.Parallel()
	all := []Scenario{{Name: "paxos-lease"}, {Name: "trap-lease-2038"}, {Name: "steady"}}
	var got []string
	for _, j := range BugJobs(all, 4, 2) {
		got = append(got, j.String())
	}
	want := []string{
		"paxos-lease none seed 4 on Cassandra 3.11.9", "trap-lease-2038 none seed 4 on Cassandra 3.11.9",
		"paxos-lease none seed 5 on Cassandra 3.11.9", "trap-lease-2038 none seed 5 on Cassandra 3.11.9",
		"paxos-lease none seed 4 on Cassandra 3.11.10", "paxos-lease none seed 5 on Cassandra 3.11.10",
		"trap-lease-2038 none seed 4 on Cassandra 3.11.1", "trap-lease-2038 none seed 5 on Cassandra 3.11.1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestCounts: what must be red counts as PASS only if it is, by the property that finds it.
func TestCounts(t *testing.T) {
	t.Parallel()
	bug := Job{Scenario: "paxos-lease", Contention: NoContention, System: core, Cassandra: "3.11.9"}
	fixed := bug
	fixed.Cassandra = "3.11.10"
	res := func(j Job, v checker.Verdict, fired string) Result {
		r := Result{Job: j, Verdict: v, Check: &checker.Result{Verdict: v}}
		if fired != "" {
			r.Check.Properties = []checker.Property{{ID: fired, Status: checker.StatusFail}}
		}
		return r
	}
	for name, c := range map[string]struct {
		all  []Result
		want checker.Verdict
	}{
		"found":               {[]Result{res(bug, checker.Fail, "P2")}, checker.Pass},
		"by another property": {[]Result{res(bug, checker.Fail, "P1")}, checker.Fail},
		"not found":           {[]Result{res(bug, checker.Pass, "")}, checker.Fail},
		"found, then not":     {[]Result{res(bug, checker.Fail, "P2"), res(bug, checker.Pass, "")}, checker.Fail},
		"nothing tested":      {[]Result{res(bug, checker.Invalid, "P14")}, checker.Invalid},
		"not carried out":     {[]Result{res(bug, Error, "")}, Error},
		"the fix":             {[]Result{res(fixed, checker.Pass, "")}, checker.Pass},
		"the fix, red":        {[]Result{res(fixed, checker.Fail, "P2"), res(fixed, checker.Pass, "")}, checker.Fail},
		"nothing":             {nil, checker.Unknown},
	} {
		if got := Counts(c.all); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
