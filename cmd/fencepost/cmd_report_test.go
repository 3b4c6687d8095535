package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/reports"
	"fencepost/reports/reporttest"
)

func TestReportCommand(t *testing.T) {
	t.Parallel()
	run, err := reporttest.Write(t.TempDir(), reporttest.Options{Seed: 1, Verdict: "PASS"})
	if err != nil {
		t.Fatal(err)
	}
	torn, err := reporttest.Write(t.TempDir(), reporttest.Options{Seed: 2, Verdict: "PASS"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(torn, "history", "w1.1.jsonl"), []byte("nonsense\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	bench := t.TempDir()
	if err := os.WriteFile(filepath.Join(bench, reports.BenchFile), []byte(`{"version":1,"name":"b"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		args []string
		code int
		out  string // a file that must be written and named
		says string
	}{
		{"a run", []string{run}, 0, filepath.Join(run, "report.html"), ""},
		{"a benchmark", []string{bench}, 0, filepath.Join(bench, "bench.html"), ""},
		{"an unreadable history", []string{torn}, exitNotDone, filepath.Join(torn, "report.html"), "w1.1.jsonl:1"},
		{"nothing", nil, exitUsage, "", "runs/latest"},
		{"no run", []string{t.TempDir()}, exitUsage, "", "not a run's directory"},
		{"no directory", []string{filepath.Join(t.TempDir(), "none")}, exitUsage, "", "no such file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cmd := newReportCmd()
			var out bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			cmd.SetArgs(append([]string{}, tc.args...))
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			err := cmd.ExecuteContext(context.Background())
			code := exitCode(err, io.Discard)
			if err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %q does not say %q", err, tc.says)
			}
			if code != tc.code {
				t.Errorf("exit code %d (%v), want %d", code, err, tc.code)
			}
			if tc.out == "" {
				return
			}
			if !strings.Contains(out.String(), tc.out) {
				t.Errorf("output %q does not name %s", out.String(), tc.out)
			}
			if _, err := os.Stat(tc.out); err != nil {
				t.Error(err)
			}
		})
	}
}
