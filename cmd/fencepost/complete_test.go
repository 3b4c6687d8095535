package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fencepost/harness/record/rundir"
)

// completed asks as the shells' scripts do.
func completed(t *testing.T, args ...string) []string {
	t.Helper()
	var out strings.Builder
	root := newRootCmd()
	root.SetOut(&out)
	root.SetErr(&strings.Builder{})
	root.SetArgs(append([]string{"__completeNoDesc"}, args...))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[:len(lines)-1] // the last is the directive
}

func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
		not  string
	}{
		{"chaos part", []string{"partition"}, "steady"},
		{"chaos partition,st", []string{"partition,steady"}, "partition,partition"},
		{"chaos partition --system=broken/sink", []string{"broken/sink-no-token-check"}, "core"},
		{"chaos partition --contention ", []string{"low", "medium", "high"}, ""},
		{"evidence --contention=medium,", []string{"medium,low", "medium,high"}, "medium,medium"},
		{"evidence --set ", []string{"locks", "smoke"}, ""},
		{"soak --scenarios=steady,part", []string{"steady,partition"}, ""},
		{"power --mutant sink", []string{"sink-no-token-check"}, ""},
		{"bench --subject=", []string{"locks", "jobs"}, ""},
		{"chaos steady --paxos=", []string{"v2"}, ""},
		{"chaos steady --cluster=", []string{"auto", "local"}, ""},
		{"comp", []string{"completion"}, ""},
	} {
		args := strings.Split(c.args, " ")
		got := completed(t, args...)
		for _, w := range c.want {
			// Of --flag=word the shell wants the word alone.
			if !slices.ContainsFunc(got, func(g string) bool { return g == w || strings.HasSuffix(g, "="+w) }) {
				t.Errorf("%q: no %q in %q", c.args, w, got)
			}
		}
		if c.not != "" && slices.Contains(got, c.not) {
			t.Errorf("%q: %q is in %q", c.args, c.not, got)
		}
	}
}

func TestRunsAreCompleted(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"20260101-000000-steady-1", "20260102-000000-steady-2"} {
		dir := filepath.Join("runs", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := rundir.WriteJSON(filepath.Join(dir, rundir.InfoFile), rundir.Info{Run: name, Scenario: "steady"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, typed := range []string{"runs/", "runs/2026"} {
		if got := completed(t, "replay", typed); len(got) != 2 || got[0] != "runs/20260102-000000-steady-2" {
			t.Errorf("%q: %q", typed, got)
		}
	}
	if got := completed(t, "explain", "elsewhere/x"); len(got) != 0 {
		t.Errorf("elsewhere: %q", got)
	}
}

// TestCompletionScripts: cobra's own; that it makes one for each shell.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		var out strings.Builder
		root := newRootCmd()
		root.SetOut(&out)
		root.SetArgs([]string{"completion", shell})
		if err := root.Execute(); err != nil || !strings.Contains(out.String(), "__complete") {
			t.Errorf("%s: %v, %d bytes", shell, err, out.Len())
		}
	}
}
