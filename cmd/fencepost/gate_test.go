package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/reports"
	"fencepost/reports/evidence"
)

func mustRead(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A check tells the CI system what its exit code says, whatever that is.
func TestCheckTellsCI(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code    int
		change  func(w, h []history.Event) ([]history.Event, []history.Event)
		junit   string
		summary string
	}{
		"legal": {0, nil, `failures="0" errors="0"`, "\n- faults: none was injected\n"},
		"violation": {1, func(w, h []history.Event) ([]history.Event, []history.Event) {
			w[11].Type = history.Fail
			return w, h
		}, `<failure message="release by w1.1/c1`, "\nRelease by w1.1/c1"},
		"vacuous": {3, func(w, h []history.Event) ([]history.Event, []history.Event) { return w, h[1:] },
			`<error message="the run proves nothing: the history has no expect note: nothing says what it must contain to count as a test (the first of 2 reasons); give the history`, "give the history an expect note (docs/history-format.md)."},
		"malformed": {64, func(w, h []history.Event) ([]history.Event, []history.Event) {
			w[0].Type = "perhaps"
			return w, h
		}, "unknown type", "NOT CARRIED OUT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, to := writeRun(t, c.change), t.TempDir()
			junit, summary := filepath.Join(to, "j.xml"), filepath.Join(to, "s.md")
			if err := os.WriteFile(summary, []byte("before\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if code, out := runCheck("--junit="+junit, "--summary=+"+summary, dir); code != c.code {
				t.Fatalf("exit code %d, want %d:\n%s", code, c.code, out)
			}
			if got := mustRead(t, junit); !strings.Contains(got, c.junit) {
				t.Errorf("JUnit lacks %q:\n%s", c.junit, got)
			}
			if got := mustRead(t, summary); !strings.HasPrefix(got, "before\n") || !strings.Contains(got, c.summary) {
				t.Errorf("the summary lacks %q:\n%s", c.summary, got)
			}
			if code, _ := runCheck("--summary="+summary, dir); code != c.code || strings.HasPrefix(mustRead(t, summary), "before\n") {
				t.Errorf("exit code %d, and the old file is still there", code)
			}
		})
	}
}

func TestGateRefuses(t *testing.T) {
	t.Parallel()
	dir := writeRun(t, nil)
	for _, flag := range []string{"--junit=/no/such/place/j.xml", "--summary=/no/such/place/s.md", "--summary=+/no/such/place/s.md", "--junit=" + dir, "--summary=" + dir} {
		if code, out := runCheck(flag, dir); code != exitUsage || !strings.Contains(out, "directory") {
			t.Errorf("%s: exit code %d, %q", flag, code, out)
		}
		if code, text := refused(t, "chaos", "steady", "--cluster=local", flag); code != exitUsage || !strings.Contains(text, "directory") {
			t.Errorf("chaos %s: exit code %d, %q", flag, code, text)
		}
	}
}

// auto is the file that the CI system names; without one it says so and writes none.
func TestAutoSummary(t *testing.T) {
	to := filepath.Join(t.TempDir(), "page.md")
	for value, want := range map[string]string{to: "+" + to, "": ""} {
		t.Setenv(summaryEnv, value)
		var out bytes.Buffer
		g := gateFlags{summary: autoSummary}
		if err := g.resolve(t.Context(), &out); err != nil || g.summary != want || (want == "") != strings.Contains(out.String(), summaryEnv) {
			t.Errorf("%q: %q, %v, %q", value, g.summary, err, out.String())
		}
	}
}

// The command's own exit code stands whether the CI system can be told or not.
func TestGateEnd(t *testing.T) {
	t.Parallel()
	full := gateFlags{junit: "/dev/full"}
	boom := errors.New("boom")
	for _, c := range []struct {
		gate gateFlags
		err  error
		code int
		says string
	}{
		{gateFlags{}, nil, 0, ""}, {gateFlags{}, exitWith(3), 3, ""}, {gateFlags{}, boom, 2, "boom"},
		{full, nil, 2, "tell the CI system"}, {full, exitWith(1), 1, "tell the CI system"}, {full, usageError(boom), 64, "boom\ntell the CI system"},
	} {
		var text bytes.Buffer
		if code := exitCode(c.gate.end(nil, c.err), &text); code != c.code || !strings.Contains(text.String(), c.says) {
			t.Errorf("%+v, %v: exit code %d, %q, want %d and %q", c.gate, c.err, code, text.String(), c.code, c.says)
		}
	}
}

// What never came to a run is told too, each run as an error.
func TestGateTellsWhatNeverRan(t *testing.T) {
	t.Parallel()
	g := gateFlags{junit: filepath.Join(t.TempDir(), "j.xml")}
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	err := g.onSite(cmd, "moon", nodeChoice{}, nil, nil, []string{"steady", "partition"}, func(*site) ([]reports.GateRun, error) {
		t.Error("it runs on the moon")
		return nil, nil
	})
	if code := exitCode(err, io.Discard); code != exitUsage {
		t.Errorf("exit code %d", code)
	}
	if got := mustRead(t, g.junit); strings.Count(got, "<testsuite ") != 2 || !strings.Contains(got, `errors="2"`) || !strings.Contains(got, "unknown cluster") {
		t.Error(got)
	}
}

// A set tells of each job by the attempt that counts, and of those that have none.
func TestStanding(t *testing.T) {
	t.Parallel()
	jobs := []evidence.Job{{Scenario: "a", System: "core"}, {Scenario: "b", System: "core"}, {Scenario: "c", System: "core"}}
	result := func(j evidence.Job, attempt int, v checker.Verdict) evidence.Result {
		r := evidence.Result{Job: j, Attempt: attempt, Verdict: v, Check: &checker.Result{Verdict: v, Summary: string(rune('0' + attempt))}}
		if v == evidence.Error {
			r.Check, r.Error = nil, "no cluster"
		}
		return r
	}
	got := standing(jobs, []evidence.Result{
		result(jobs[0], 1, checker.Fail), result(jobs[0], 2, checker.Pass), result(jobs[1], 1, checker.Pass), result(jobs[1], 2, evidence.Error),
	})
	if len(got) != 3 || got[0].Result.Verdict != checker.Fail || got[1].Result != nil || got[1].Err != "no cluster" || got[2].Result != nil || got[2].Err != errNotRun.Error() {
		t.Errorf("%+v", got)
	}
}
