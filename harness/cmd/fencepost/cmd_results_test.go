package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fencepost/checker"
	"fencepost/harness/history"
	"fencepost/harness/rundir"
	"fencepost/reports"
	"fencepost/reports/measure"
)

// chaosRun writes the files of a checked and reported run.
func chaosRun(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(file string, v any) {
		if err := rundir.WriteJSON(filepath.Join(dir, file), v); err != nil {
			t.Fatal(err)
		}
	}
	write(rundir.InfoFile, rundir.Info{
		Run: name, Scenario: "steady", System: "core", Contention: "high", Seed: 5, TTL: 6 * time.Second,
		Command: "make chaos SCENARIO=steady SEED=5", Versions: map[string]string{"fencepost": "0123456789ab"},
	})
	write(rundir.VerdictFile, checker.Result{Version: 1, Run: name, Verdict: checker.Fail, Properties: []checker.Property{{
		ID: "P1", Status: checker.StatusFail, Count: 2, Visualization: "porcupine-x.html",
		Violations: []checker.Violation{{Message: "first"}, {Message: "second"}},
	}}})
	write(reports.JSONFile, reports.Report{
		Version: 1, Latencies: []measure.Latency{{Op: history.OpLock, Phase: "before", OK: 5, P99: time.Millisecond}},
		Takeovers: []reports.ReportTakeover{{Lock: "a"}},
	})
	return dir
}

func benchRun(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	b := reports.BenchResult{Version: reports.BenchVersion, Name: name, Arms: []reports.BenchArm{{ID: "C/1", Scenario: "bare LWT", Contention: "low", Threads: 1,
		Rounds: []reports.BenchRound{{Round: 1, Seconds: 2, OK: 10}}}}}
	if err := rundir.WriteJSON(filepath.Join(dir, reports.BenchFile), b); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestResultsKeepAndWriteAgain(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	f := resultsFlags{dir: filepath.Join(home, "results"), file: filepath.Join(home, "RESULTS.md")}
	var out bytes.Buffer
	if err := f.run(&out, []string{chaosRun(t, "run-a"), benchRun(t, "bench-a")}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "1 runs, 1 benchmarks") {
		t.Errorf("it says %q", out.String())
	}
	if !strings.Contains(out.String(), "bench-a was made by a state of the program that no commit holds") || strings.Contains(out.String(), "run-a was") {
		t.Errorf("a result without a commit must be named, one with must not: %q", out.String())
	}
	text, err := os.ReadFile(f.file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"run-a", "bench-a", "1 FAIL", "0123456789ab"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the file lacks %q:\n%s", want, text)
		}
	}
	var kept checker.Result
	if err := readJSON(filepath.Join(f.dir, "chaos", "run-a", rundir.VerdictFile), &kept); err != nil {
		t.Fatal(err)
	}
	if p := kept.Properties[0]; len(p.Violations) != 1 || p.Count != 2 || p.Visualization != "" {
		t.Errorf("the kept verdict is not condensed: %+v", p)
	}

	// From the kept files alone it is the same text again.
	f.check = true
	if err := f.run(&out, nil); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(f.file, append(text, "edited\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := f.run(&out, nil); err == nil {
		t.Error("--check accepted a file that was edited")
	}
	if err := os.Remove(f.file); err != nil {
		t.Fatal(err)
	}
	if err := f.run(&out, nil); err == nil {
		t.Error("--check accepted a missing file")
	}
}

func TestResultsRefuse(t *testing.T) {
	t.Parallel()
	unchecked := chaosRun(t, "unchecked")
	if err := os.Remove(filepath.Join(unchecked, rundir.VerdictFile)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir, want string
		usage           bool
	}{
		{"nothing there", filepath.Join(t.TempDir(), "gone"), "no such file", true},
		{"an empty directory", t.TempDir(), "neither a chaos run", true},
		{"not checked", unchecked, "check it first", false},
		{"a name that leaves the directory", benchRun(t, "../../etc/x"), "cannot be that of a file", false},
		{"no name", benchRun(t, ""), "cannot be that of a file", false},
	} {
		home := t.TempDir()
		f := resultsFlags{dir: filepath.Join(home, "results"), file: filepath.Join(home, "RESULTS.md")}
		err := f.run(&bytes.Buffer{}, []string{c.dir})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
		var ee *exitError
		if usage := errors.As(err, &ee) && ee.code == exitUsage; usage != c.usage {
			t.Errorf("%s: a usage error: %v, want %v", c.name, usage, c.usage)
		}
		if _, err := os.Stat(f.file); err == nil {
			t.Errorf("%s: the file was written", c.name)
		}
	}
}
