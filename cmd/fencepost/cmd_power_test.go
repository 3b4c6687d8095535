package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/harness/target/system"
	"fencepost/reports/evidence"
	"fencepost/reports/reporttest"
)

func TestPowerJobs(t *testing.T) {
	t.Parallel()
	onHTTP := len(system.Broken())
	for _, s := range system.Broken() {
		if s.Sink != "" && s.Sink != "http" || s.Store != "" {
			onHTTP-- // it is wrong in how it uses another sink, or on another store
		}
	}
	for name, c := range map[string]struct {
		f    powerFlags
		jobs int
		want string // in the error
	}{
		"all twice":       {powerFlags{times: 2}, 2 * len(system.Directed()), ""},
		"a hole":          {powerFlags{times: 1, mutants: "lock-per-job/job-lost"}, 1, ""},
		"a whole design":  {powerFlags{times: 1, mutants: "lock-per-job"}, 0, `unknown variant "lock-per-job"`},
		"some":            {powerFlags{times: 1, mutants: "hilo-tokens,broken/row-ttl"}, 2, ""},
		"a sink":          {powerFlags{times: 1, mutants: "hilo-tokens", sink: "http"}, 1, ""},
		"all with a sink": {powerFlags{times: 1, sink: "http"}, onHTTP, ""},
		"no such sink":    {powerFlags{times: 1, sink: "redis"}, 0, `unknown sink "redis"`},
		"not its sink":    {powerFlags{times: 1, mutants: "lock-per-job/job-lost", sink: "http"}, 0, "not http"},
		"seeds":           {powerFlags{times: 2, mutants: "hilo-tokens", seeds: "7,8,9"}, 3, ""},
		"unknown variant": {powerFlags{times: 1, mutants: "hilo"}, 0, `unknown variant "hilo"`},
		"no runs":         {powerFlags{}, 0, "--times=0"},
		"bad seed":        {powerFlags{times: 1, seeds: "1,x"}, 0, `"x" is not a seed`},
	} {
		_, jobs, err := c.f.jobs()
		if len(jobs) != c.jobs || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d jobs, %v", name, len(jobs), err)
		}
	}
}

// The exit code is 0 only if every variant was killed in every run.
func TestJudgePower(t *testing.T) {
	t.Parallel()
	s := system.Broken()[0]
	result := func(v checker.Verdict, prop string) evidence.Result {
		return evidence.Result{
			Job: evidence.Job{Scenario: s.Red.Scenario, Contention: s.Red.Contention, Seed: 1, System: s.Name}, Verdict: v,
			Check: &checker.Result{Verdict: v, Properties: []checker.Property{{ID: prop, Status: checker.StatusFail}}},
		}
	}
	lost := result(evidence.Error, "P3")
	lost.Check = nil
	for name, c := range map[string]struct {
		all     []evidence.Result
		loopErr error
		code    int
	}{
		"killed":               {[]evidence.Result{result(s.Red.Verdict, s.Red.Properties[0])}, nil, 0},
		"red by another":       {[]evidence.Result{result(s.Red.Verdict, "P12")}, nil, 1},
		"green":                {[]evidence.Result{result(checker.Pass, s.Red.Properties[0])}, nil, 1},
		"nothing ran":          {nil, nil, 1},
		"could not be run":     {[]evidence.Result{lost}, nil, 2},
		"the loop was stopped": {[]evidence.Result{result(s.Red.Verdict, s.Red.Properties[0])}, evidence.ErrInterrupted, 2},
	} {
		var out bytes.Buffer
		err := judgePower(&out, []system.System{s}, "", c.all, c.loopErr)
		code := 0
		var exit *exitError
		if errors.As(err, &exit) {
			code = exit.code
		}
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d\n%s", name, code, c.code, out.String())
		}
	}
}

func TestDetection(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, rundir.HistoryDir, "harness.jsonl")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	header := fmt.Sprintf(`{"format":%q,"version":%d,"run":"r","proc":"harness","pid":1,"host":"h","boot_id":"b","wall_time":"2026-01-02T03:04:05Z","ts":1,"drift_bound":0.01,"margin_base_ms":100}`+"\n", history.Format, history.FormatVersion)
	if err := os.WriteFile(file, []byte(header), 0o644); err != nil {
		t.Fatal(err)
	}
	s := system.System{Red: &system.Red{Properties: []string{"P7", "P8"}}}
	if _, err := detection(dir, s, 0); err == nil || !strings.Contains(err.Error(), "no phase") {
		t.Errorf("a record without phases: %v", err)
	}
	if err := os.WriteFile(file, []byte(header+`{"ts":1000000000,"proc":"harness","type":"note","op":"phase","phase":"warmup"}`+"\n"+`{"ts":9000000000,"proc":"harness","type":"note","op":"phase","phase":"before"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	v := checker.Result{Properties: []checker.Property{
		{ID: "P1", Violations: []checker.Violation{{To: 2e9}}}, // not expected
		{ID: "P7", Violations: []checker.Violation{{To: 8e9}, {To: 0}}},
		{ID: "P8", Violations: []checker.Violation{{To: 6e9}}},
	}}
	if err := rundir.WriteJSON(filepath.Join(dir, rundir.VerdictFile), v); err != nil {
		t.Fatal(err)
	}
	d, err := detection(dir, s, 31e9)
	if err != nil || d.Violation != 5*time.Second || d.Verdict != 30*time.Second {
		t.Errorf("%+v, %v", d, err)
	}
}

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
