package evidence

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
)

// must ends the test at an error that it is not about.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pass(seed uint64) Result {
	j := jobs(1)[0].with(seed)
	check := checker.Result{Run: "run-1", Verdict: checker.Pass, Properties: checker.Catalogue()}
	for i := range check.Properties {
		check.Properties[i].Status = checker.StatusPass
	}
	return Result{
		Job: j, Verdict: checker.Pass, Check: &check,
		Info: rundir.Info{
			Run: "run-1", Scenario: j.Scenario, Seed: j.Seed, System: j.System, Started: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
			Versions: map[string]string{CommitKey: "0123456", TreeKey: "abc", "cassandra": "5.0.6"},
			Machine:  map[string]string{"cores": "2", "load": "1.0"},
		},
	}
}

func failed(seed uint64) Result {
	r := pass(seed)
	r.Verdict, r.Check.Verdict = checker.Fail, checker.Fail
	p := &r.Check.Properties[2]
	p.Status, p.Detail, p.Count, p.Violations = checker.StatusFail, "by the ledger", 2, []checker.Violation{{Message: "two", To: 7}}
	r.Check.Properties[4].Status = checker.StatusNA
	r.Check.Counts = checker.Counts{Operations: 5, Points: map[string]int{"takeover": 1}}
	return r
}

func (j Job) with(seed uint64) Job { j.Seed = seed; return j }

// aStore is a store that is not there yet.
func aStore(t *testing.T) *Store {
	t.Helper()
	return NewStore(filepath.Join(t.TempDir(), "set"+Ending))
}

// names are those of the stored results.
func names(t *testing.T, s *Store) []string {
	t.Helper()
	all, err := s.All()
	must(t, err)
	var out []string
	for _, r := range all {
		out = append(out, r.Name())
	}
	return out
}

// A line that cannot be read stops the loop before any run, and is named.
func TestBadLineIsReportedNotSkipped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		line       int
		spoil      func(string) string // of the text: an environment, seed 1, seed 3
	}{
		{"torn", "torn: the line has no end", 3, func(s string) string { return s[:len(s)-9] }},
		{"no end", "torn: the line has no end", 3, func(s string) string { return strings.TrimSuffix(s, "\n") }},
		{"torn and written on", "torn or edited", 3, func(s string) string { return s[:len(s)-9] + "\n" + s[len(s)-100:] }},
		{"empty", "torn or edited", 2, func(s string) string { return strings.Replace(s, "\n", "\n\n", 1) }},
		{"not a result", "version 0", 4, func(s string) string { return s + "{}\n" }},
		{"newer", "version 7", 2, func(s string) string { return strings.Replace(s, `"version":2`, `"version":7`, 1) }},
		{"twice", "steady-medium-3 is there twice", 4, func(s string) string {
			return s + s[strings.LastIndex(s[:len(s)-1], "\n")+1:]
		}},
		{"painted green", "not that of its check", 3, func(s string) string {
			return strings.Replace(s, `"attempt":1,"verdict":"FAIL"`, `"attempt":1,"verdict":"PASS"`, 1)
		}},
		{"no verdict", "unknown verdict", 2, func(s string) string {
			return strings.Replace(s, `"verdict":"PASS"`, `"verdict":"FINE"`, 1)
		}},
		{"no attempt", "attempt 0", 2, func(s string) string { return strings.Replace(s, `"attempt":1`, `"attempt":0`, 1) }},
		{"no environment", "no line before it has the environment", 1, func(s string) string { return s[strings.Index(s, "\n")+1:] }},
		{"another environment", "edited: the environment is", 1, func(s string) string { return strings.Replace(s, "5.0.6", "5.0.7", 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := aStore(t)
			for _, r := range []Result{pass(1), failed(3)} {
				if _, err := store.Put(r); err != nil {
					t.Fatal(err)
				}
			}
			b, err := os.ReadFile(store.File())
			if err != nil || len(names(t, store)) != 2 {
				t.Fatalf("the sound file: %v", err)
			}
			must(t, os.WriteFile(store.File(), []byte(c.spoil(string(b))), 0o644))
			r := newRuns(t)
			_, err = (&Loop{Store: store, Run: r.run}).Do(t.Context(), slices.Values(jobs(2)), 2)
			var bad *LineError
			if !errors.As(err, &bad) || bad.Line != c.line || bad.File != store.File() || !strings.Contains(err.Error(), c.want) || len(r.did) > 0 {
				t.Errorf("error %v, runs %v, want line %d: %q", err, r.did, c.line, c.want)
			}
			if _, err := store.Put(pass(2)); !errors.As(err, &bad) {
				t.Errorf("it was written all the same: %v", err)
			}
		})
	}
}

func TestPutNeverReplaces(t *testing.T) {
	t.Parallel()
	store := aStore(t)
	for range 3 {
		if _, err := store.Put(pass(4)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := names(t, store), []string{"steady-medium-4", "steady-medium-4.2", "steady-medium-4.3"}; !slices.Equal(got, want) {
		t.Errorf("results %v, want %v", got, want)
	}
	for _, name := range []string{"../x", "", "a b"} {
		r := pass(1)
		r.Job.Scenario = name
		if _, err := store.Put(r); err == nil {
			t.Errorf("the scenario name %q was accepted", name)
		}
	}
	r := pass(1)
	r.Job.System = "broken/hilo-tokens"
	if s, err := store.Put(r); err != nil || s.Name() != "steady-medium-1-broken_hilo-tokens" {
		t.Errorf("a variant's result: %s, %v", s.Name(), err)
	}
	r.Job.Sink = "http"
	if s, err := store.Put(r); err != nil || s.Name() != "steady-medium-1-broken_hilo-tokens-sink_http" {
		t.Errorf("the result of a sink: %s, %v", s.Name(), err)
	}
	r.Job.Sink = "../x"
	if _, err := store.Put(r); err == nil {
		t.Error("the sink ../x was accepted")
	}
	if got := names(t, store); len(got) != 5 {
		t.Errorf("results %v", got)
	}
	if left, err := os.ReadDir(filepath.Dir(store.File())); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestPutTogether: many that store at once, as processes do, lose nothing, and the attempts of
// one job are told apart.
func TestPutTogether(t *testing.T) {
	t.Parallel()
	file := aStore(t).File()
	var all errgroup.Group
	for seed := range uint64(20) {
		all.Go(func() error {
			_, err := NewStore(file).Put(pass(seed % 5))
			return err
		})
	}
	must(t, all.Wait())
	if got := names(t, NewStore(file)); len(got) != 20 || !slices.Contains(got, "steady-medium-0.4") {
		t.Errorf("results %v", got)
	}
}

// TestLines: what is stored is what was put, nothing that runs share is there twice, and a new
// result leaves the other lines as they are.
func TestLines(t *testing.T) {
	t.Parallel()
	store := aStore(t)
	want := []Result{pass(1), failed(3)}
	for i, r := range want {
		r.Info.About = "not stored"
		if _, err := store.Put(r); err != nil {
			t.Fatal(err)
		}
		want[i].Version, want[i].Attempt = Version, 1
	}
	got, err := store.All()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v\n%+v", err, got, want)
	}
	before, err := os.ReadFile(store.File())
	must(t, err)
	if n := strings.Count(string(before), "5.0.6"); n != 1 {
		t.Errorf("the version of Cassandra is there %d times:\n%s", n, before)
	}
	other := pass(2)
	other.Info.Versions["cassandra"] = "5.0.7"
	if _, err := store.Put(other); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(store.File())
	if err != nil || strings.Count(string(after), "\n") != strings.Count(string(before), "\n")+2 {
		t.Errorf("%v\n%s", err, after)
	}
	for line := range strings.Lines(string(before)) {
		if !strings.Contains(string(after), line) {
			t.Errorf("the line is another one now:\n%s", line)
		}
	}
}

func TestSets(t *testing.T) {
	t.Parallel()
	all := []Scenario{{Name: "contention-100", Contentions: []string{"high"}, Default: "high"}, {Name: "kill-worker", Default: "medium"},
		{Name: "paxos-lease"}, {Name: "paxos-repair", Default: "medium"}, {Name: "orders-steady", Default: "medium"}, {Name: "pause-worker"}, {Name: "soak"},
		{Name: "steady", Default: "medium"}}
	for set, want := range map[string]string{"locks": "contention-100 kill-worker pause-worker steady",
		"smoke": "kill-worker pause-worker steady", "paxos": "paxos-lease paxos-repair", "releases": "paxos-lease", "bugs": "paxos-lease pause-worker steady", "orders": "orders-steady"} {
		s, err := FindSet(set)
		must(t, err)
		var names []string
		for _, c := range s.Of(all) {
			names = append(names, c.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", set, got, want)
		}
	}
	if _, err := FindSet("no-such"); err == nil || !strings.Contains(err.Error(), "locks, jobs, orders, smoke, paxos") {
		t.Errorf("an unknown set: %v", err)
	}
	var got []string
	for _, j := range Jobs(all[:2], []string{"medium", "low"}, 7, 2) {
		got = append(got, j.name())
	}
	want := []string{"contention-100-high-7", "kill-worker-medium-7", "kill-worker-low-7", "contention-100-high-8", "kill-worker-medium-8",
		"kill-worker-low-8"}
	if !slices.Equal(got, want) {
		t.Errorf("jobs %v, want %v", got, want)
	}
}

func TestRandomEndsWithTheTime(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	clock := func() time.Time { now = now.Add(time.Minute); return now }
	draw := func() []Job {
		now = time.Unix(0, 0)
		return slices.Collect(Random([]Scenario{{Name: "steady"}, {Name: "partition"}}, []string{"medium", "high"},
			rand.New(rand.NewPCG(1, 2)), time.Unix(3600, 0), clock))
	}
	a := draw()
	if len(a) != 59 || !slices.Equal(a, draw()) {
		t.Errorf("%d jobs, want 59, the same from the same seed", len(a))
	}
	if n := len(slices.Collect(Random(nil, nil, nil, time.Unix(3600, 0), clock))); n != 0 {
		t.Errorf("%d jobs of no scenario", n)
	}
}

// TestNoPathsOfTheMachine: of a path in an error only the last name is stored.
func TestNoPathsOfTheMachine(t *testing.T) {
	t.Parallel()
	store := aStore(t)
	r := Result{Job: Job{Scenario: "steady", Contention: "medium", Seed: 1, System: "core"}, Verdict: Error,
		Error: "task setup of /home/me/bin/locks ended: its log is '/tmp/runs/r-1/setup.log', see results/evidence/field.jsonl; dial tcp 127.0.0.1:6379: reset"}
	if _, err := store.Put(r); err != nil {
		t.Fatal(err)
	}
	all, err := store.All()
	if want := "task setup of locks ended: its log is 'setup.log', see results/evidence/field.jsonl; dial tcp 127.0.0.1:6379: reset"; err != nil || all[0].Error != want {
		t.Errorf("%v, %+v", err, all)
	}
}
