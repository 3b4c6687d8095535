package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/checker"
	"fencepost/harness/plan"
	"fencepost/harness/record/rundir"
	"fencepost/harness/scenario"
	"fencepost/reports/evidence"
)

// run carries out a command line that must not get as far as a cluster.
func refused(t *testing.T, args ...string) (int, string) {
	t.Helper()
	cmd := newRootCmd()
	cmd.SetArgs(args)
	cmd.SetOut(io.Discard)
	var stderr bytes.Buffer
	code := exitCode(cmd.ExecuteContext(t.Context()), &stderr)
	return code, stderr.String()
}

func TestEvidenceRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"evidence --set=no-such", "unknown set \"no-such\"; there are: locks, jobs, orders, smoke, paxos"},
		{"evidence --scenarios=no-such", "the set locks has no scenario \"no-such\""},
		{"evidence --set=smoke --scenarios=partition", "the set smoke has no scenario \"partition\""},
		{"evidence --contention=none", "unknown contention \"none\""},
		{"evidence --contention=high,high", "named twice"},
		{"evidence --sink=redis", "unknown sink \"redis\""},
		{"evidence --set=paxos --sink=http", "it has no workers"},
		{"evidence --seeds=0", "--seeds=0"},
		{"evidence --seed=1", "unknown flag"},
		{"evidence --cluster=moon", "unknown cluster"},
		{"evidence --set=bugs --cassandra=4.0.19 --scenarios=late-unlock", "the set bugs has no such run on Cassandra 4.0.19"},
		{"soak", "say how long"},
		{"soak --set=bugs --scenarios=late-unlock --hours=1", "system core keeps its locks in cassandra"},
		{"soak --hours=-1", "say how long"},
		{"soak --hours=NaN", "say how long"},
		{"replay", "one argument"},
		{"replay no-such", "no such file"},
		{"replay . --times=0", "--times=0"},
		{"runs nonsense", "unknown command \"nonsense\"; there are: list, points, prune"},
		{"runs lst", "did you mean \"list\"?"},
		{"runs list --runs=no-such", "there is no such directory"},
		{"runs prune --runs=no-such", "there is no such directory"},
		{"runs list more", "unknown command"},
		{"runs points no-such", "neither a set"},
		{"runs points --runs=no-such", "there is no such directory"},
		{"chaso", "unknown command \"chaso\" (did you mean \"chaos\"?)"},
		{"help chaso", "unknown command \"chaso\" (did you mean \"chaos\"?)"},
		{"doctor now", "unknown store \"now\"; there are: cassandra, etcd"},
		{"serve now", "unknown command"},
		{"power --mutant=sink-no-token-chek", "did you mean \"sink-no-token-check\"?"},
		{"chaos stedy", "unknown scenario \"stedy\" (did you mean \"steady\"?)"},
		{"chaos steady --system=broken/token-rest", "did you mean \"broken/token-reset\"?"},
		{"scenario chek", "unknown command \"chek\" (did you mean \"check\"?)"},
		{"scenario check", "check what?"},
		{"scenario check steady no-such.yaml", "open no-such.yaml: no such file"},
		{"runs prune --keep=-1", "negative"},
		{"runs prune --older=7", "not an age"},
		{"runs prune --older=-3h", "not an age"},
	} {
		args := strings.Fields(c.args)
		if args[0] == "evidence" {
			args = append(args, "--results="+t.TempDir())
		}
		if code, text := refused(t, args...); code != exitUsage || !strings.Contains(text, c.want) {
			t.Errorf("%s: exit code %d, %q, want 64 and %q", c.args, code, text, c.want)
		}
	}
}

// A torn result stops the command before a cluster is started.
func TestEvidenceNamesATornResult(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "smoke"+evidence.Ending)
	if err := os.WriteFile(file, []byte(`{"version": 1, "job": {`), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, text := refused(t, "evidence", "--set=smoke", "--results="+dir); code != exitUsage || !strings.Contains(text, file) || !strings.Contains(text, "torn") {
		t.Errorf("exit code %d, %q", code, text)
	}
}

// Whatever scenarios there are, the sets take them as they should.
func TestSetsOfThisTool(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"locks", "smoke"} {
		if mine, _, err := chosen(s, "", "low,medium,high"); err != nil || len(mine) < 3 {
			t.Errorf("%s: %d scenarios, %v", s, len(mine), err)
		}
	}
}

// TestBugSet: its scenarios are those of its bugs, on whatever store, and no other set has them; each run
// begins with servers of its own if its locks are not on Cassandra.
func TestBugSet(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]bool{"bugs": true, "locks": false, "releases": false} {
		mine, _, err := chosen(set, "", "medium")
		has := slices.ContainsFunc(mine, func(s evidence.Scenario) bool { return s.Name == "late-unlock" })
		if err != nil || has != want {
			t.Errorf("%s has late-unlock: %t, %v", set, has, err)
		}
		if other := slices.ContainsFunc(mine, func(s evidence.Scenario) bool { return s.Name == "kill-nodes" }); other == (set != "locks") {
			t.Errorf("%s has kill-nodes: %t", set, other)
		}
	}
	mine, _, err := chosen("bugs", "late-unlock,trap-lease-2038", "medium")
	jobs, err2 := evidenceFlags{set: "bugs", seeds: 1, first: 1}.jobs(mine, nil)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	closed := 0
	s := &site{}
	run := onFreshServers(s, func(context.Context, evidence.Job) (evidence.Result, error) { return evidence.Result{}, nil })
	var got []string
	for _, j := range jobs {
		s.end = func() error { closed++; return nil }
		if _, err := run(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(j, " closed ", closed))
	}
	want := []string{"late-unlock medium seed 1 etcd-mutex-one-session closed 1", "late-unlock medium seed 1 etcd-mutex-new-session closed 2",
		"late-unlock medium seed 1 etcd-mutex closed 3",
		"trap-lease-2038 none seed 1 on Cassandra 3.11.9 closed 3", "trap-lease-2038 none seed 1 on Cassandra 3.11.1 closed 3"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if where, _, err := onReleases("auto", jobs[:3]); where != "local" || err != nil {
		t.Errorf("locks of etcd are run at %q: %v", where, err)
	}
}

// plannedRun is the directory of a run that can be replayed.
func plannedRun(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run-7")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	spec, err := scenario.Load("pause-worker")
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := plan.New(*spec, 7, "broken/sink-no-token-check")
	if err != nil {
		t.Fatal(err)
	}
	if err := drawn.Write(filepath.Join(dir, rundir.PlanFile)); err != nil {
		t.Fatal(err)
	}
	info := rundir.Info{Run: "run-7", Seed: 7, System: "broken/sink-no-token-check", Started: time.Now()}
	if err := rundir.WriteJSON(filepath.Join(dir, rundir.InfoFile), info); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestReplayReadsTheRun(t *testing.T) {
	t.Parallel()
	good := plannedRun(t)
	r, err := loadReplayed(good)
	if err != nil || r.sys.Variant != "sink-no-token-check" || r.verdict != nil || len(r.plan.Steps) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, c := range []struct {
		name, file, old, new, want string
	}{
		{"plan of another version", rundir.PlanFile, "version: 1", "version: 9", "plan.yaml:1: version 9"},
		{"plan of another system", rundir.PlanFile, "system: broken/sink-no-token-check", "system: core", "not of one run"},
		{"plan of another seed", rundir.PlanFile, "seed: 7", "seed: 8", "not of one run"},
		{"torn info", rundir.InfoFile, "{", "", "not the directory of a run"},
		{"torn verdict", rundir.VerdictFile, "", "{", "verdict.json"},
	} {
		dir := plannedRun(t)
		path := filepath.Join(dir, c.file)
		b, err := os.ReadFile(path)
		if err != nil && c.file != rundir.VerdictFile {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(b), c.old, c.new, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err = loadReplayed(dir)
		var ee *exitError
		if !errors.As(err, &ee) || ee.code != exitUsage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q and exit code 64", c.name, err, c.want)
		}
	}
}

func fired(v checker.Verdict, ids ...string) *checker.Result {
	r := &checker.Result{Verdict: v}
	for _, id := range ids {
		r.Properties = append(r.Properties, checker.Property{ID: id, Status: checker.StatusFail})
	}
	return r
}

func TestReplayConclusion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		old  *checker.Result
		all  []*checker.Result
		want string
		code int
	}{
		{"all again", fired(checker.Fail, "P3"), []*checker.Result{fired(checker.Fail, "P3", "P4"), fired(checker.Fail, "P3")}, "2 of 2 red again as it was (FAIL by P3); fired: P3 in 2, P4 in 1", 1},
		{"one green", fired(checker.Fail, "P3"), []*checker.Result{fired(checker.Fail, "P3"), fired(checker.Pass)}, "1 of 2 red again", 1},
		{"another property", fired(checker.Fail, "P3"), []*checker.Result{fired(checker.Fail, "P7")}, "0 of 1 red again", 1},
		{"another verdict", fired(checker.Fail, "P3"), []*checker.Result{fired(checker.Invalid, "P3")}, "0 of 1 red again", 3},
		{"was green", fired(checker.Pass), []*checker.Result{fired(checker.Pass), fired(checker.Fail, "P1")}, "1 of 2 red; fired: P1 in 1", 1},
		{"was not checked", nil, []*checker.Result{fired(checker.Pass)}, "0 of 1 red\n", 0},
	} {
		var out bytes.Buffer
		err := conclude(&out, c.old, c.all)
		if code := exitCode(err, io.Discard); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: exit code %d, %q, want %d and %q", c.name, code, out.String(), c.code, c.want)
		}
	}
}

func TestFinish(t *testing.T) {
	t.Parallel()
	store := evidence.NewStore(filepath.Join(t.TempDir(), "smoke"+evidence.Ending))
	for _, c := range []struct {
		worst checker.Verdict
		err   error
		code  int
	}{
		{checker.Pass, nil, 0}, {checker.Fail, nil, 1}, {evidence.Error, nil, 2}, {checker.Invalid, nil, 3}, {checker.Unknown, nil, 4},
		{checker.Pass, evidence.ErrInterrupted, 2}, {checker.Invalid, evidence.ErrInterrupted, 2}, {checker.Fail, evidence.ErrInterrupted, 1},
	} {
		var text bytes.Buffer
		err := finish(io.Discard, evidence.Tally{Worst: c.worst}, 3, store, c.err)
		if code := exitCode(err, &text); code != c.code || c.err != nil && !strings.Contains(text.String(), "resumes there") {
			t.Errorf("%s, %v: exit code %d, %q, want %d", c.worst, c.err, code, text.String(), c.code)
		}
	}
}
