package evidence

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/env/cluster"
	"fencepost/harness/plan"
	"fencepost/harness/scenario"
	"fencepost/harness/target/system"
	"fencepost/internal/docpage"
)

// TestBugsPageIsCurrent: the page's table is what the rows say.
func TestBugsPageIsCurrent(t *testing.T) {
	docpage.Check(t, "releases.md", "bugs", table(Bugs))
	docpage.Check(t, "bugs.md", "libraries", table(Libraries))
}

func table(bugs []Bug) string {
	var b strings.Builder
	b.WriteString("| bug | what it does | source | red | green |\n|---|---|---|---|---|\n")
	runs := func(all []BugRun) string {
		var words []string
		for _, r := range all {
			on := r.Cassandra
			if s, err := system.Find(r.System); err == nil && r.System != "" {
				on = fmt.Sprintf("`%s` (%s)", s.Name, s.Store)
			}
			words = append(words, fmt.Sprintf("[%s](scenarios.md#%[1]s) on %s", r.Scenario, on))
		}
		return strings.Join(words, ", ")
	}
	for _, x := range bugs {
		source := x.Source
		if source == "" {
			source = "*unconfirmed*"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", x.Name, x.About, source, runs(x.Red), runs(x.Green))
	}
	return b.String()
}

// TestBugsAreComplete: each has red runs and at least as many green ones, drills that there are on releases that
// there are, or systems under scenarios that suit them; no run is both. What must be red of a system is
// in a row of it.
func TestBugsAreComplete(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, b := range slices.Concat(Libraries, Bugs) {
		if names[b.Name] || b.Name == "" || b.About == "" || len(b.Red) == 0 || len(b.Red) > len(b.Green) {
			t.Errorf("%+v", b)
		}
		names[b.Name] = true
		for i, r := range slices.Concat(b.Red, b.Green) {
			job, err := jobOf(r)
			if err != nil {
				t.Errorf("%s: %+v: %v", b.Name, r, err)
			}
			if red := i < len(b.Red); (MustFind(job) != nil) != red {
				t.Errorf("%s: %s: is in red: %t, and must find %v", b.Name, job, red, MustFind(job))
			}
		}
	}
	for _, b := range Libraries {
		if b.Source == "" {
			t.Errorf("%s: a library's bug has a report", b.Name)
		}
	}
	if _, err := jobOf(BugRun{Scenario: "late-unlock", System: "redlock"}); err == nil {
		t.Error("a run of a system on another store's scenario is taken")
	}
}

// jobOf is a run's job, or why there is none.
func jobOf(r BugRun) (Job, error) {
	s, err := scenario.Load(r.Scenario)
	if err != nil {
		return Job{}, err
	}
	if (r.System == "") != (s.Drill != "") || (r.System == "") == (r.Cassandra == "") {
		return Job{}, errors.New("neither a drill on a release nor a system under a scenario")
	}
	if r.System == "" {
		j := r.job(NoContention, 1)
		return j, errors.Join(cluster.CheckRelease(r.Cassandra, ""), j.check())
	}
	j := r.job(s.Workload.Contention, 1)
	sys, err := system.Find(r.System)
	if err == nil && s.Cluster.Store != "" && s.Cluster.Store != sys.Store {
		err = fmt.Errorf("the scenario is of %s, the system of %s", s.Cluster.Store, sys.Store)
	}
	if err == nil {
		err = s.Apply(scenario.Overrides{Contention: j.Contention, Store: sys.Store})
	}
	if err == nil {
		err = plan.Suits(s, sys)
	}
	return j, errors.Join(err, j.check())
}

func TestBugJobs(t *testing.T) {
	t.Parallel()
	all := []Scenario{{Name: "paxos-lease", Default: NoContention}, {Name: "trap-lease-2038", Default: NoContention}, {Name: "steady"}}
	var got []string
	for _, j := range BugJobs(Bugs, all, 4, 2) {
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

// TestLibraryJobs: the runs of one system are together, at the contention of the scenario or of the row.
func TestLibraryJobs(t *testing.T) {
	t.Parallel()
	bugs := []Bug{
		{Red: []BugRun{{Scenario: "a", System: "old"}, {Scenario: "b", System: "old", Contention: "low"}}, Green: []BugRun{{Scenario: "a", System: "new"}}},
		{Red: []BugRun{{Scenario: "c", System: "old"}}},
	}
	var got []string
	for _, j := range BugJobs(bugs, []Scenario{{Name: "a", Default: "high"}, {Name: "b", Default: "high"}}, 1, 2) {
		got = append(got, j.String())
	}
	want := []string{"a high seed 1 old", "b low seed 1 old", "a high seed 2 old", "b low seed 2 old", "a high seed 1 new", "a high seed 2 new"}
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

// TestInertTwins: a red run has one twin, which counts if it finds nothing, though it proves no fault.
func TestInertTwins(t *testing.T) {
	t.Parallel()
	red := Result{Verdict: checker.Fail, Job: Job{Scenario: "pause-worker", Contention: "medium", Seed: 1, System: "redis-set"}}
	pass := red
	pass.Verdict, pass.Job.Seed = checker.Pass, 2
	twins := FieldTwins([]Result{red, pass, red})
	if len(twins) != 1 || !twins[0].Inert || twins[0].Seed != 1 || MustFind(twins[0]) != nil {
		t.Fatalf("%v", twins)
	}
	if again := FieldTwins([]Result{{Verdict: checker.Fail, Job: twins[0]}}); len(again) != 0 {
		t.Errorf("a twin of a twin: %v", again)
	}
	if a, b := red.Job.String(), twins[0].String(); a == b || red.Job.name() == twins[0].name() {
		t.Errorf("%q and %q have one name", a, b)
	}
	for v, want := range map[checker.Verdict]checker.Verdict{
		checker.Invalid: checker.Pass, checker.Pass: checker.Pass, checker.Fail: checker.Fail, Error: Error, checker.Unknown: checker.Unknown,
	} {
		if got := Counts([]Result{{Job: twins[0], Verdict: v}}); got != want {
			t.Errorf("%s counts as %s, want %s", v, got, want)
		}
	}
}
