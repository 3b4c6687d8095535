package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/reports/reporttest"
)

// A checking child of these tests is this test binary.
func init() {
	if os.Getenv(checker.ChildEnv) != "" {
		os.Exit(checker.ChildMain(os.Stdout))
	}
}

// cycle is a whole legal run of one client: a grant, an effect, a release, sealed.
func cycle() (worker, host []history.Event) {
	n, zero := int64(1), int64(0)
	client := "w1.1/c1"
	absent := &history.Version{Absent: true}
	held := &history.Version{Fence: 1, Attempt: "a", Holder: client, TTLMS: 6000}
	free := &history.Version{Fence: 1, Beat: 1, Attempt: "b"}
	sealed := &history.Version{Fence: 2, Attempt: "c"}
	worker = []history.Event{
		{ID: 1, Type: history.Invoke, Op: history.OpLock, Key: "l"},
		{ID: 2, Type: history.Invoke, Op: history.OpAcquire, Key: "l", From: absent, To: held},
		{ID: 2, Type: history.OK, Op: history.OpAcquire, Key: "l", Sends: []int64{1002}},
		{ID: 1, Type: history.OK, Op: history.OpLock, Key: "l", Token: 1},
		{ID: 3, Type: history.Invoke, Op: history.OpRaise, Key: "r", Issuer: "l", Token: 1},
		{ID: 3, Type: history.OK, Op: history.OpRaise, Key: "r", Result: "applied", Seen: 1, Seq: 1},
		{ID: 4, Type: history.Invoke, Op: history.OpGet, Key: "r"},
		{ID: 4, Type: history.OK, Op: history.OpGet, Key: "r", Value: &zero, Seen: 1, Seq: 1},
		{ID: 5, Type: history.Invoke, Op: history.OpEffect, Key: "r", Issuer: "l", Token: 1, EffectKey: "k", Value: &n, DecidedAt: 1008},
		{ID: 5, Type: history.OK, Op: history.OpEffect, Key: "r", Result: "applied", Seen: 1, Seq: 2},
		{ID: 6, Type: history.Invoke, Op: history.OpRelease, Key: "l", From: held, To: free},
		{ID: 6, Type: history.OK, Op: history.OpRelease, Key: "l"},
	}
	for i := range worker {
		worker[i].Proc, worker[i].TS = client, int64(1001+i)
	}
	worker = append(worker, history.Event{Proc: "w1.1", TS: 1100, Type: history.Note, Op: history.NoteExit})
	host = []history.Event{
		{TS: 1000, Type: history.Note, Op: history.NoteExpect, Details: &history.Details{Expect: &history.Expect{
			Workers: 1, Exempt: map[string]string{"P11": "nobody dies", "P13": "no statements"},
		}}},
		{TS: 1200, ID: 1, Type: history.Invoke, Op: history.OpSeal, Key: "l", From: free, To: sealed},
		{TS: 1201, ID: 1, Type: history.OK, Op: history.OpSeal, Key: "l"},
		{TS: 1202, ID: 2, Type: history.Invoke, Op: history.OpGet, Key: "r"},
		{TS: 1203, ID: 2, Type: history.OK, Op: history.OpGet, Key: "r", Value: &n, Seen: 1, Seq: 2},
		{TS: 1204, Type: history.Note, Op: history.NoteLedger, Key: "r", Details: &history.Details{Ledger: &history.LedgerEntry{Seq: 1, Kind: history.LedgerRaise, Issuer: "l", Token: 1}}},
		{TS: 1205, Type: history.Note, Op: history.NoteLedger, Key: "r", Details: &history.Details{Ledger: &history.LedgerEntry{Seq: 2, Kind: history.LedgerAccept, Issuer: "l", Token: 1, EffectKey: "k", Value: &n}}},
	}
	for i := range host {
		host[i].Proc = "harness"
	}
	return worker, host
}

// writeRun writes a run directory, changed by change.
func writeRun(t *testing.T, change func(worker, host []history.Event) (w, h []history.Event)) string {
	t.Helper()
	worker, host := cycle()
	if change != nil {
		worker, host = change(worker, host)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, rundir.HistoryDir), 0o755); err != nil {
		t.Fatal(err)
	}
	for proc, events := range map[string][]history.Event{"w1.1": worker, "harness": host} {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		if err := enc.Encode(history.Header{Format: history.Format, Version: history.FormatVersion, Run: "r", Proc: proc, BootID: "b", WallTime: "2025-01-02T03:04:05Z", TS: 1}); err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if err := enc.Encode(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, rundir.HistoryDir, proc+".jsonl"), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// runCheck runs the command and returns its exit code and output.
func runCheck(args ...string) (int, string) {
	var out bytes.Buffer
	cmd := newCheckCmd()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(newRootCmd().FlagErrorFunc())
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append([]string{"--memory=0"}, args...)) // the race detector needs more than any limit
	return exitCode(cmd.ExecuteContext(context.Background()), &out), out.String()
}

func TestCheckExitCodes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		code   int
		says   string
		args   []string
		change func(w, h []history.Event) ([]history.Event, []history.Event)
	}{
		{"legal", 0, "operations\n  not exercised  faults: none was injected\n", nil, nil},
		{"violation", 1, "history/w1.1.jsonl:", nil, func(w, h []history.Event) ([]history.Event, []history.Event) {
			w[11].Type = history.Fail // the release, which the seal found applied
			return w, h
		}},
		{"vacuous", 3, "INVALID  the run proves nothing: the history has no expect note: nothing says what it must contain to count as a test (the first of 2 reasons); give the history an expect note", nil, func(w, h []history.Event) ([]history.Event, []history.Event) { return w, h[1:] }},
		{"unfinished", 4, "time for searching", []string{"--search=1ns"}, nil},
		{"malformed", 64, `w1.1.jsonl:2: not a valid event: type: unknown type "perhaps"`, nil, func(w, h []history.Event) ([]history.Event, []history.Event) {
			w[0].Type = "perhaps"
			return w, h
		}},
		{"bad flag", 64, "unknown flag", []string{"--colour"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := writeRun(t, tc.change)
			code, out := runCheck(append(tc.args, dir)...)
			if code != tc.code || !strings.Contains(out, tc.says) {
				t.Fatalf("exit code %d, want %d and %q:\n%s", code, tc.code, tc.says, out)
			}
			_, err := os.Stat(filepath.Join(dir, rundir.VerdictFile))
			if written := err == nil; written != (tc.code != 64) {
				t.Errorf("verdict.json written: %v", written)
			}
		})
	}
}

func TestCheckOutput(t *testing.T) {
	t.Parallel()
	dir := writeRun(t, nil)
	file := filepath.Join(t.TempDir(), "v.json")
	code, out := runCheck("--json", "--out="+file, filepath.Join(dir, rundir.HistoryDir))
	var printed, stored checker.Result
	if err := json.Unmarshal([]byte(out), &printed); err != nil || code != 0 || printed.Verdict != checker.Pass {
		t.Fatalf("exit code %d, %v:\n%s", code, err, out)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &stored); err != nil || stored.Summary != printed.Summary {
		t.Errorf("--out: %v, %s", err, stored.Summary)
	}
	if _, err := os.Stat(filepath.Join(dir, rundir.VerdictFile)); err == nil {
		t.Error("bare histories: verdict.json was written without --out")
	}
	if code, out := runCheck(); code != exitUsage || !strings.Contains(out, "check what?") {
		t.Errorf("no arguments: exit code %d: %s", code, out)
	}
	if code, out := runCheck(filepath.Join(dir, "none")); code != exitUsage {
		t.Errorf("nothing there: exit code %d: %s", code, out)
	}
}

func runExplain(args ...string) (int, string) {
	var out bytes.Buffer
	cmd := newRootCmd()
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append([]string{"explain"}, args...))
	return exitCode(cmd.Execute(), &out), out.String()
}

func TestExplainCommand(t *testing.T) {
	t.Parallel()
	red, err := reporttest.Write(t.TempDir(), reporttest.Options{Seed: 2, Fault: "pause-worker", Broken: reporttest.SinkNoTokenCheck, Verdict: "FAIL"})
	if err != nil {
		t.Fatal(err)
	}
	if code, out := runExplain(red); code != 0 || !strings.Contains(out, "\n  sink-checks-no-token        the sink does not compare tokens ") || !strings.Contains(out, ", because worker w2 was paused for ") || !strings.Contains(out, red+"/history/w2.1.jsonl:") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	code, out := runExplain("--json", red)
	var e checker.Explanation
	if err := json.Unmarshal([]byte(out), &e); err != nil || code != 0 || e.Verdict != checker.Fail || len(e.Causes) == 0 {
		t.Errorf("exit code %d, %v:\n%s", code, err, out)
	}
	unchecked, err := reporttest.Write(t.TempDir(), reporttest.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	good, err := reporttest.Write(t.TempDir(), reporttest.Options{Seed: 1, Verdict: "PASS"})
	if err != nil {
		t.Fatal(err)
	}
	torn := filepath.Join(red, rundir.HistoryDir, "w1.1.jsonl")
	for _, c := range []struct {
		args []string
		code int
		says string
		do   func() error
	}{
		{[]string{good}, 0, "nothing to explain", nil},
		{[]string{unchecked}, exitUsage, "fencepost check", nil},
		{[]string{t.TempDir()}, exitUsage, "fencepost check", nil},
		{nil, exitUsage, "one argument", nil},
		{[]string{red}, exitUsage, "w1.1.jsonl:1", func() error { return os.WriteFile(torn, []byte("nonsense\n"), 0o644) }},
		{[]string{red}, exitNotDone, rundir.VerdictFile, func() error {
			return os.WriteFile(filepath.Join(red, rundir.VerdictFile), []byte("{"), 0o644)
		}},
	} {
		if c.do != nil {
			if err := c.do(); err != nil {
				t.Fatal(err)
			}
		}
		if code, out := runExplain(c.args...); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s", c.args, code, c.code, c.says, out)
		}
	}
}
