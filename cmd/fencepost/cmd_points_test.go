package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/reports"
	"fencepost/reports/evidence"
	"fencepost/reports/measure"
)

// killAnswered is a job whose plan waits for four points.
var killAnswered = evidence.Job{Scenario: "kill-answered", Contention: "medium", Seed: 1, System: "core"}

// pointRun is a run of that plan in which one point was reached and one was not.
func pointRun(t *testing.T, runs, name string) string {
	t.Helper()
	dir := recordedRun(t, runs, name, func(w, h []history.Event) ([]history.Event, []history.Event) {
		arm := func(point, proc, key string) history.Event {
			last := h[len(h)-1]
			return history.Event{TS: last.TS, Proc: history.Harness, Type: history.Note, Op: history.NoteArm, Key: key,
				Details: &history.Details{Point: point, Armed: &history.Armed{Fault: "f1", Name: "kill-worker", Since: 1, Proc: proc}}}
		}
		return w, append(h, arm("renew-answered", "w1.1/c1", "a"), arm("effect-answered", "", ""))
	})
	_, _, drawn, err := planOf(killAnswered)
	if err == nil {
		err = drawn.Write(filepath.Join(dir, rundir.PlanFile))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func runPoints(t *testing.T, args ...string) (int, map[string]string, string) {
	t.Helper()
	cmd := newRootCmd()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"runs", "points"}, args...))
	code := exitCode(cmd.ExecuteContext(t.Context()), &out)
	rows := map[string]string{}
	for line := range strings.Lines(out.String()) {
		name, rest, _ := strings.Cut(line, " ")
		rows[name] = strings.Join(strings.Fields(rest), " ")
	}
	return code, rows, out.String()
}

func TestPointsOfRuns(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	a, b := pointRun(t, runs, "a"), pointRun(t, runs, "b")
	for _, args := range [][]string{{a, b}, {runs}, {"--runs=" + runs}} {
		code, rows, out := runPoints(t, args...)
		for point, want := range map[string]string{
			"renew-answered":   "2 2 2 0 0 0 0 2 0", // no renewal was under way
			"effect-answered":  "2 0 0 of 2 ! · · · · · ·",
			"release-answered": "0 0 0 of 2 ! · · · · · ·", // it is in the plan, and was never armed
			"holding":          "0 0 · · · · · · ·",
		} {
			if code != 0 || rows[point] != want || !strings.Contains(out, "2 runs.") {
				t.Errorf("%v: exit code %d, %s is %q, want %q:\n%s", args, code, point, rows[point], want, out)
			}
		}
	}
	if code, _, out := runPoints(t, a, writeRun(t, nil)); code != 0 || !strings.Contains(out, "never checked") || !strings.Contains(out, "1 run.") {
		t.Errorf("a run that was not checked: exit code %d:\n%s", code, out)
	}
	if code, _, out := runPoints(t, a, recordedRun(t, t.TempDir(), "c", nil)); code != exitNotDone || !strings.Contains(out, rundir.PlanFile) {
		t.Errorf("a run without a plan: exit code %d:\n%s", code, out)
	}
}

// A set is summed up from its stored results, beside the plans of their jobs.
func TestPointsOfASet(t *testing.T) {
	t.Parallel()
	results := t.TempDir()
	store := evidence.NewStore(filepath.Join(results, reports.KeptEvidence, "locks"+evidence.Ending))
	other := killAnswered
	other.Seed = 2
	for _, r := range []evidence.Result{
		{Job: killAnswered, Verdict: evidence.Error, Error: "no worker came up"},
		{Job: other, Verdict: evidence.Error, Error: "it was cut short",
			Points: []measure.Reach{{Point: "acquire-answered", Fault: "kill-worker", Armed: 1, Reached: 1, NoEnd: 1}}},
	} {
		r.Info.Versions = map[string]string{evidence.TreeKey: today()}
		if _, err := store.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	code, rows, out := runPoints(t, "--results="+results, "locks")
	if code != 0 || rows["acquire-answered"] != "1 1 1 of 2 0 0 0 1 0 0" || rows["effect-answered"] != "0 0 0 of 2 ! · · · · · ·" {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}
