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
	"fencepost/harness/record/progress"
	"fencepost/harness/record/rundir"
)

// After a command that could not do its work the newest run is none from before it.
func TestLatest(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(runs, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	is := func(want string) {
		t.Helper()
		if got := latestRun(runs); got != want {
			t.Errorf("the newest is %q, want %q", got, want)
		}
	}
	is("")
	linkLatest(runs, filepath.Join(runs, "a"))
	is("a")
	forgetLatest(runs, "a", nil)
	forgetLatest(runs, "a", usageError(errors.New("no such scenario")))
	forgetLatest(runs, "a", exitWith(1)) // a verdict
	is("a")
	linkLatest(runs, filepath.Join(runs, "b"))
	forgetLatest(runs, "a", errors.New("the sink died")) // the run of this very command
	is("b")
	forgetLatest(runs, "b", errors.New("no cluster"))
	is("")
	linkLatest(runs, filepath.Join(runs, "b"))
	linkLatest(runs, "") // a run without a directory
	is("")
	code, out := runExplain(filepath.Join(runs, latest))
	if code != exitUsage || !strings.Contains(out, "may not have started") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// A run that could not be carried out is explained by why.
func TestExplainTellsWhyThereIsNoVerdict(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := progress.New(nil)
	if err := l.Begin(filepath.Join(dir, rundir.ProgressFile), progress.Run{Name: "r"}); err != nil {
		t.Fatal(err)
	}
	_ = ended(l, errors.New("w1.1: its history is malformed"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if code, out := runExplain(dir); code != exitUsage || !strings.Contains(out, "could not be carried out: w1.1: its history is malformed") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func TestPruneCommand(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	for name, verdict := range map[string]checker.Verdict{"run-1": checker.Pass, "run-2": checker.Fail, "run-3": checker.Pass} {
		dir := filepath.Join(runs, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-time.Duration(name[4]-'0') * 24 * time.Hour)
		if err := errors.Join(rundir.WriteJSON(filepath.Join(dir, rundir.InfoFile), rundir.Info{Run: name, Started: at, Ended: at}),
			rundir.WriteJSON(filepath.Join(dir, rundir.VerdictFile), checker.Result{Verdict: verdict})); err != nil {
			t.Fatal(err)
		}
	}
	left := func() string {
		es, err := os.ReadDir(runs)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, e := range es {
			out = append(out, e.Name())
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct{ args, want, left string }{
		{"--keep=0 --dry-run", "would delete 2 of 3 runs", "run-1 run-2 run-3"},
		{"--keep=0 --older=60h", "deleted 1 of 3 runs", "run-1 run-2"},
		{"--keep=1", "deleted 0 of 2 runs", "run-1 run-2"},
		{"--keep=0", "deleted 1 of 2 runs", "run-2"},
		{"--keep=0 --all", "deleted 1 of 1 runs", ""},
	} {
		cmd := newRootCmd()
		cmd.SetArgs(append([]string{"runs", "prune", "--runs=" + runs}, strings.Fields(c.args)...))
		var out bytes.Buffer
		cmd.SetOut(&out)
		if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), c.want) || left() != c.left {
			t.Errorf("%s: %v, %q, left %q; want %q and %q", c.args, err, out.String(), left(), c.want, c.left)
		}
	}
}
