package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
