package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/reports/reporttest"
)

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
