package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/progress"
	"fencepost/harness/record/rundir"
	"fencepost/internal/terminal"
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
		{"bench --subject=", []string{"locks", "jobs", "recorder", "checker"}, ""},
		{"bench --system=", []string{"core", "broken/renews-twice"}, "lock-per-job"},
		{"chaos --system=broken/re", []string{"broken/renew-throttled"}, "broken/renews-twice"},
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

func TestWithJSONEverythingIsAnEvent(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	cmd := newChaosCmd()
	cmd.SetOut(&b)
	cmd.SetContext(t.Context())
	if err := cmd.ParseFlags([]string{"--json"}); err != nil {
		t.Fatal(err)
	}
	out := outputOf(cmd)
	fmt.Fprintf(out, "\n[1/2] steady\n  more\n")
	out.verdict(&checker.Result{Verdict: checker.Fail})
	out.show(progress.Event{Kind: progress.KindEnd})
	var kinds, texts []string
	for line := range strings.Lines(b.String()) {
		var e progress.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		kinds, texts = append(kinds, string(e.Kind)), append(texts, e.Text)
	}
	if strings.Join(kinds, " ") != "step step end" || texts[0] != "[1/2] steady" || texts[1] != "more" {
		t.Errorf("%q %q", kinds, texts)
	}
}

func TestTextOfAVerdictIsPainted(t *testing.T) {
	t.Parallel()
	res := &checker.Result{Verdict: checker.Fail, Answer: &checker.Answer{What: "1 violation"}, Properties: []checker.Property{
		{ID: "P1", Status: checker.StatusFail, Count: 1, Violations: []checker.Violation{{Message: "twice"}}}, {ID: "P2", Status: checker.StatusPass},
	}}
	var plain, painted strings.Builder
	textOutput(&plain, terminal.Style{}).verdict(res)
	textOutput(&painted, terminal.Style{Color: true}).verdict(res)
	if strings.Contains(plain.String(), "\x1b") || !strings.HasPrefix(plain.String(), "FAIL  1 violation") {
		t.Errorf("plain %q", plain.String())
	}
	for _, want := range []string{"\x1b[31mFAIL\x1b[0m  1 violation", "\x1b[32mpass\x1b[0m", "\x1b[31mP1\x1b[0m: twice"} {
		if !strings.Contains(painted.String(), want) {
			t.Errorf("no %q in %q", want, painted.String())
		}
	}
	bare := strings.NewReplacer("\x1b[31m", "", "\x1b[32m", "", "\x1b[0m", "").Replace(painted.String())
	if bare != plain.String() {
		t.Errorf("but for the colours it is %q, not %q", bare, plain.String())
	}
}

// In the kept cluster's daemon it is the client's environment that counts.
func TestEnvironmentIsTheClients(t *testing.T) {
	t.Setenv("NO_COLOR", "of the process")
	if got := environment(t.Context())("NO_COLOR"); got != "of the process" {
		t.Errorf("here: %q", got)
	}
	ctx := context.WithValue(t.Context(), keptKey{}, keptRun{env: []string{"TERM=dumb", "NO_COLOR=old", "NO_COLOR=of the client"}})
	if env := environment(ctx); env("NO_COLOR") != "of the client" || env("TERM") != "dumb" || env("HOME") != "" {
		t.Errorf("in the daemon: %q, %q, %q", env("NO_COLOR"), env("TERM"), env("HOME"))
	}
}

// A violation that was seen points at the event that contradicts what was before.
func TestSoFarNamesTheLastEvent(t *testing.T) {
	t.Parallel()
	v := soFar(checker.Finding{Property: "P3", Title: "order", Violation: checker.Violation{Key: "res", Message: "m", Events: []checker.EventRef{
		{File: "history/w1.1.jsonl", Line: 3, Event: history.Event{TS: 1}}, {File: "history/w2.1.jsonl", Line: 9, Event: history.Event{TS: 2}},
	}}})
	if v != (progress.Violation{Property: "P3", Title: "order", Text: "m", Key: "res", File: "history/w2.1.jsonl", Line: 9}) {
		t.Errorf("%+v", v)
	}
}

// A run that could not be carried out says so in its file, as its last word.
func TestErrorEndsTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "progress.jsonl")
	log := progress.New(nil)
	if err := log.Begin(path, progress.Run{}); err != nil {
		t.Fatal(err)
	}
	if err := ended(log, os.ErrDeadlineExceeded); err != os.ErrDeadlineExceeded {
		t.Errorf("error %v", err)
	}
	es, err := progress.Read(path, 0)
	if err != nil || len(es) != 2 || !es[1].Last() || es[1].Kind != progress.KindError || es[1].Text == "" {
		t.Errorf("%+v, %v", es, err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}
