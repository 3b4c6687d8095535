package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/reports"
	"fencepost/reports/evidence"
)

// runRecheck runs the command and returns its exit code and output.
func runRecheck(args ...string) (int, string) {
	var out bytes.Buffer
	cmd := newRecheckCmd()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append([]string{"--memory=0"}, args...))
	return exitCode(cmd.ExecuteContext(context.Background()), &out), out.String()
}

// unreleased is a history that is FAIL: a release did happen that its client calls refused.
func unreleased(w, h []history.Event) ([]history.Event, []history.Event) {
	w[11].Type = history.Fail
	return w, h
}

// recordedRun moves a run into a directory of runs, where it has a name, and checks it.
func recordedRun(t *testing.T, runs, name string, change func(w, h []history.Event) ([]history.Event, []history.Event)) string {
	t.Helper()
	dir := filepath.Join(runs, name)
	if err := os.Rename(writeRun(t, change), dir); err != nil {
		t.Fatal(err)
	}
	if err := rundir.WriteJSON(filepath.Join(dir, rundir.InfoFile), rundir.Info{Run: name}); err != nil {
		t.Fatal(err)
	}
	if code, out := runCheck(dir); code > 1 {
		t.Fatal(out)
	}
	return dir
}

func verdictOf(t *testing.T, dir string) checker.Result {
	t.Helper()
	v, err := verdictIn(dir)
	if err != nil || v == nil {
		t.Fatal(v, err)
	}
	return *v
}

// judgedAs writes verdict.json as if the run had been judged in another way.
func judgedAs(t *testing.T, dir string, v checker.Verdict, fired ...string) {
	t.Helper()
	r := verdictOf(t, dir)
	r.Verdict = v
	for i := range r.Properties {
		r.Properties[i].Status = checker.StatusPass
		for _, id := range fired {
			if r.Properties[i].ID == id {
				r.Properties[i].Status = checker.StatusFail
			}
		}
	}
	if err := rundir.WriteJSON(filepath.Join(dir, rundir.VerdictFile), r); err != nil {
		t.Fatal(err)
	}
}

func TestRecheckRuns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		make func(t *testing.T, runs string)
		code int
		says []string
	}{
		{"as before", func(t *testing.T, runs string) {
			recordedRun(t, runs, "a", nil)
			recordedRun(t, runs, "b", unreleased)
		}, 0, []string{"a  PASS", "b  FAIL by P2", "2 judged again, 0 verdicts changed"}},
		{"packed", func(t *testing.T, runs string) {
			dir := recordedRun(t, runs, "a", nil)
			if _, err := rundir.Pack(dir); err != nil {
				t.Fatal(err)
			}
			if err := rundir.Remove(dir); err != nil {
				t.Fatal(err)
			}
		}, 0, []string{"a  PASS", "1 judged again, 0 verdicts changed"}},
		{"a PASS that is FAIL by this checker", func(t *testing.T, runs string) {
			recordedRun(t, runs, "a", nil)
			judgedAs(t, recordedRun(t, runs, "b", unreleased), checker.Pass)
		}, 1, []string{"b  FAIL by P2", ", was PASS", "1 verdicts changed, 1 of them to FAIL", "\nchanged:\n"}},
		{"a FAIL that is PASS by this checker", func(t *testing.T, runs string) {
			judgedAs(t, recordedRun(t, runs, "a", nil), checker.Fail, "P3")
		}, 3, []string{"a  PASS, was FAIL by P3", "1 verdicts changed, 0 of them to FAIL"}},
		{"a FAIL by another property", func(t *testing.T, runs string) {
			judgedAs(t, recordedRun(t, runs, "a", unreleased), checker.Fail, "P3")
		}, 3, []string{"a  FAIL by P2", ", was FAIL by P3"}},
		{"malformed", func(t *testing.T, runs string) {
			dir := recordedRun(t, runs, "a", nil)
			if err := os.WriteFile(filepath.Join(dir, rundir.HistoryDir, "w1.1.jsonl"), []byte("{}\n{}\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			recordedRun(t, runs, "b", nil)
		}, 2, []string{"a  not judged: ", "w1.1.jsonl:1", "b  PASS", "1 that could not be"}},
		{"never judged", func(t *testing.T, runs string) {
			if err := os.Remove(filepath.Join(recordedRun(t, runs, "a", nil), rundir.VerdictFile)); err != nil {
				t.Fatal(err)
			}
		}, 2, []string{"a  not judged: it never was", "0 judged again"}},
		{"nothing there", func(*testing.T, string) {}, 64, []string{"neither results nor runs"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			runs := t.TempDir()
			tc.make(t, runs)
			code, out := runRecheck(runs)
			if code != tc.code {
				t.Errorf("exit code %d, want %d:\n%s", code, tc.code, out)
			}
			for _, s := range tc.says {
				if !strings.Contains(out, s) {
					t.Errorf("it does not say %q:\n%s", s, out)
				}
			}
		})
	}
}

// TestRecheckChangesNothing: neither a verdict nor what else is in a run's directory.
func TestRecheckChangesNothing(t *testing.T) {
	t.Parallel()
	dir := recordedRun(t, t.TempDir(), "a", unreleased)
	judgedAs(t, dir, checker.Pass)
	drawing := filepath.Join(dir, "porcupine-lock-l.html")
	if err := os.WriteFile(drawing, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out := runRecheck(dir); code != 1 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	if v := verdictOf(t, dir); v.Verdict != checker.Pass {
		t.Errorf("verdict.json says %s now", v.Verdict)
	}
	if _, err := os.Stat(drawing); err != nil {
		t.Error(err)
	}
}

// TestRecheckResults: the histories are those that the stored results name.
func TestRecheckResults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, runs string, r *evidence.Result)
		code  int
		says  string
	}{
		{"as before", func(*testing.T, string, *evidence.Result) {}, 0, "steady medium seed 1  PASS"},
		{"another archive", func(t *testing.T, runs string, _ *evidence.Result) {
			f, err := os.OpenFile(filepath.Join(runs, rundir.ArchiveDir, "a"+rundir.ArchiveEnding), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.Write([]byte{0}); err != nil {
				t.Fatal(err)
			}
		}, 2, "not what was packed"},
		{"no archive", func(t *testing.T, runs string, r *evidence.Result) {
			if err := r.History.Remove(runs); err != nil {
				t.Fatal(err)
			}
		}, 2, "no such file"},
		{"a result that is older than archives", func(_ *testing.T, _ string, r *evidence.Result) { r.History = nil }, 2, "1 without a history here"},
		{"the result says otherwise", func(_ *testing.T, _ string, r *evidence.Result) {
			r.Verdict, r.Check.Verdict = checker.Unknown, checker.Unknown
		}, 3, "PASS, was UNKNOWN"},
		{"it could not be carried out", func(_ *testing.T, _ string, r *evidence.Result) {
			r.Verdict, r.Check = evidence.Error, nil
		}, 2, "1 that never were judged"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			runs, results := filepath.Join(home, "runs"), filepath.Join(home, "results")
			if err := os.Mkdir(runs, 0o755); err != nil {
				t.Fatal(err)
			}
			dir := recordedRun(t, runs, "a", nil)
			a, err := rundir.Pack(dir)
			if err != nil {
				t.Fatal(err)
			}
			v := verdictOf(t, dir)
			r := evidence.Result{
				Job: evidence.Job{Scenario: "steady", Contention: "medium", Seed: 1, System: "core"}, Verdict: v.Verdict,
				Check: evidence.Condense(v), Info: rundir.Info{Run: "a"}, History: &a,
			}
			if err := rundir.Remove(dir); err != nil {
				t.Fatal(err)
			}
			tc.spoil(t, runs, &r)
			if _, err := evidence.NewStore(filepath.Join(results, reports.KeptEvidence, "smoke"+evidence.Ending)).Put(r); err != nil {
				t.Fatal(err)
			}
			code, out := runRecheck("--runs="+runs, "--results="+results, "smoke")
			if code != tc.code || !strings.Contains(out, tc.says) {
				t.Errorf("exit code %d, want %d and %q:\n%s", code, tc.code, tc.says, out)
			}
		})
	}
}

// A set's runs that are not PASS keep their directories, which are judged then.
func TestRecheckKeptDirectory(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := recordedRun(t, home, "a", unreleased)
	v := verdictOf(t, dir)
	store := evidence.NewStore(filepath.Join(home, "mine"+evidence.Ending))
	if _, err := store.Put(evidence.Result{
		Job: evidence.Job{Scenario: "steady", Contention: "medium", Seed: 1, System: "core"}, Verdict: v.Verdict, Check: evidence.Condense(v), Info: rundir.Info{Run: "a"},
	}); err != nil {
		t.Fatal(err)
	}
	if code, out := runRecheck("--runs="+home, store.File()); code != 0 || !strings.Contains(out, "FAIL by P2") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if code, out := runRecheck(); code != exitUsage || !strings.Contains(out, "recheck what?") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if code, out := runRecheck(filepath.Join(home, "nothing")); code != exitUsage || !strings.Contains(out, "neither a set") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}
