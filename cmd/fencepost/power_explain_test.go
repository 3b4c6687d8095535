package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/harness/record/rundir"
	"fencepost/harness/target/system"
	"fencepost/reports/reporttest"
)

// Kept runs are counted by whether the planted mechanism is named; what is no red run of
// a variant is left out.
func TestPowerExplain(t *testing.T) {
	t.Parallel()
	variant := func(name string) system.System {
		for _, s := range system.Broken() {
			if s.Name == name {
				return s
			}
		}
		t.Fatal(name)
		return system.System{}
	}
	mine := []system.System{variant("broken/sink-no-token-check")}
	runs := t.TempDir()
	if err := explainPower(io.Discard, mine, runs); exitCode(err, io.Discard) != exitNotDone {
		t.Errorf("no runs: %v", err)
	}
	red, err := reporttest.Write(runs, reporttest.Options{Seed: 2, Fault: "pause-worker", Broken: reporttest.SinkNoTokenCheck, Verdict: "FAIL"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reporttest.Write(runs, reporttest.Options{Seed: 3, Verdict: "PASS"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Base(red), filepath.Join(runs, "latest")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := explainPower(&out, mine, runs); err != nil || !strings.Contains(out.String(), "100 % of the planted mechanisms are named, over 1 variants") || !strings.Contains(out.String(), "sink-no-token-check") {
		t.Errorf("%v:\n%s", err, out.String())
	}
	other := *mine[0].Red
	other.Mechanism = "rows-expire"
	mine[0].Red = &other
	out.Reset()
	if err := explainPower(&out, mine, runs); exitCode(err, io.Discard) != 1 || !strings.Contains(out.String(), "sink-checks-no-token (1)") {
		t.Errorf("%v:\n%s", err, out.String())
	}
	var ee *exitError
	if err := os.WriteFile(filepath.Join(red, rundir.VerdictFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := explainPower(&out, mine, runs); err == nil || errors.As(err, &ee) {
		t.Errorf("a torn verdict: %v", err)
	}
}
