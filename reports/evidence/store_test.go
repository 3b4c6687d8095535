package evidence

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/checker"
)

func pass(seed uint64) Result {
	return Result{Job: jobs(1)[0].with(seed), Verdict: checker.Pass, Check: &checker.Result{Verdict: checker.Pass}}
}

func (j Job) with(seed uint64) Job { j.Seed = seed; return j }

// A file that cannot be read stops the loop before any run, and is named.
func TestBadFileIsReportedNotSkipped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		spoil      func(string) (string, string) // of the text: the new text and file name
	}{
		{"torn", "torn or edited", func(s string) (string, string) { return s[:len(s)/2], "steady-medium-1.json" }},
		{"empty", "torn or edited", func(string) (string, string) { return "", "steady-medium-1.json" }},
		{"not a result", "version 0", func(string) (string, string) { return "{}", "steady-medium-1.json" }},
		{"newer", "version 7", func(s string) (string, string) {
			return strings.Replace(s, `"version": 1`, `"version": 7`, 1), "steady-medium-1.json"
		}},
		{"renamed", "by its content it is steady-medium-1.json", func(s string) (string, string) { return s, "steady-medium-2.json" }},
		{"painted green", "not that of its check", func(s string) (string, string) {
			return strings.Replace(s, `"verdict": "PASS"`, `"verdict": "FAIL"`, 1), "steady-medium-1.json"
		}},
		{"no verdict", "unknown verdict", func(s string) (string, string) {
			return strings.Replace(s, `"verdict": "PASS"`, `"verdict": "FINE"`, 1), "steady-medium-1.json"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := NewStore(t.TempDir())
			file, err := store.Put(pass(1))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.All(); err != nil {
				t.Fatalf("the sound file: %v", err)
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text, name := c.spoil(string(b))
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(store.Dir(), name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			r := newRuns(t)
			_, err = (&Loop{Store: store, Run: r.run}).Do(t.Context(), slices.Values(jobs(2)), 2)
			var bad *FileError
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), name) || len(r.did) > 0 {
				t.Errorf("error %v, runs %v, want %q", err, r.did, c.want)
			}
		})
	}
}

func TestPutNeverReplaces(t *testing.T) {
	t.Parallel()
	store := NewStore(t.TempDir())
	var files []string
	for range 3 {
		f, err := store.Put(pass(4))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, filepath.Base(f))
	}
	if want := []string{"steady-medium-4.json", "steady-medium-4.2.json", "steady-medium-4.3.json"}; !slices.Equal(files, want) {
		t.Errorf("files %v, want %v", files, want)
	}
	left, err := filepath.Glob(filepath.Join(store.Dir(), ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
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
	if f, err := store.Put(r); err != nil || filepath.Base(f) != "steady-medium-1-broken_hilo-tokens.json" {
		t.Errorf("a variant's file: %s, %v", f, err)
	}
	r.Job.Sink = "http"
	if f, err := store.Put(r); err != nil || filepath.Base(f) != "steady-medium-1-broken_hilo-tokens-sink_http.json" {
		t.Errorf("the file of a sink: %s, %v", f, err)
	}
	r.Job.Sink = "../x"
	if _, err := store.Put(r); err == nil {
		t.Error("the sink ../x was accepted")
	}
	if all, err := store.All(); err != nil || len(all) != 5 {
		t.Errorf("%d results, %v", len(all), err)
	}
}

func TestSets(t *testing.T) {
	t.Parallel()
	all := []Scenario{{Name: "contention-100", Contentions: []string{"high"}, Default: "high"}, {Name: "kill-worker", Default: "medium"}, {Name: "paxos-repair", Default: "medium"}, {Name: "orders-steady", Default: "medium"}, {Name: "pause-worker"}, {Name: "soak"}, {Name: "steady", Default: "medium"}}
	for set, want := range map[string]string{"locks": "contention-100 kill-worker pause-worker steady", "smoke": "kill-worker pause-worker steady", "paxos": "paxos-repair", "orders": "orders-steady"} {
		s, err := FindSet(set)
		if err != nil {
			t.Fatal(err)
		}
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
	want := []string{"contention-100-high-7", "kill-worker-medium-7", "kill-worker-low-7", "contention-100-high-8", "kill-worker-medium-8", "kill-worker-low-8"}
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
		return slices.Collect(Random([]Scenario{{Name: "steady"}, {Name: "partition"}}, []string{"medium", "high"}, rand.New(rand.NewPCG(1, 2)), time.Unix(3600, 0), clock))
	}
	a := draw()
	if len(a) != 59 || !slices.Equal(a, draw()) {
		t.Errorf("%d jobs, want 59, the same from the same seed", len(a))
	}
	if n := len(slices.Collect(Random(nil, nil, nil, time.Unix(3600, 0), clock))); n != 0 {
		t.Errorf("%d jobs of no scenario", n)
	}
}
