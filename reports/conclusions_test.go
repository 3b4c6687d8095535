package reports

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/harness/target/system"
	"fencepost/internal/score"
	"fencepost/reports/evidence"
	"fencepost/reports/measure"
)

// TestConclusions: each line rests on what is kept of the tree, and says so if nothing is.
func TestConclusions(t *testing.T) {
	t.Parallel()
	lines := func(k Kept) []string {
		t.Helper()
		k.Tree = "abc"
		md, err := Results(k)
		must(t, err)
		_, md, _ = strings.Cut(md, "## What these results show, and what they do not\n\n")
		md, _, _ = strings.Cut(md, "\n\n")
		return strings.Split(md, "\n")
	}
	nothing := lines(Kept{})
	if len(nothing) != 10 {
		t.Errorf("%d lines: %q", len(nothing), nothing)
	}
	for _, l := range nothing {
		if !strings.Contains(l, "not measured") && !strings.Contains(l, "**Not shown:**") {
			t.Errorf("nothing is kept, and yet: %s", l)
		}
	}

	of := map[string]string{evidence.TreeKey: "abc"}
	result := func(scenario, system string, v checker.Verdict, fired ...string) evidence.Result {
		r := evidence.Result{
			Job: evidence.Job{Scenario: scenario, Contention: "medium", Seed: 1, System: system}, Verdict: v, Info: rundir.Info{Versions: of, System: system},
			Check: &checker.Result{Verdict: v, Counts: checker.Counts{Cycles: 100, Effects: 90, Faults: 4, FaultsProven: 3}},
		}
		effects := checker.StatusPass
		if slices.Contains(fired, "P4") {
			effects = checker.StatusFail
		}
		r.Check.Properties = append(r.Check.Properties, checker.Property{ID: "P4", Status: effects})
		for _, id := range fired {
			if id != "P4" {
				r.Check.Properties = append(r.Check.Properties, checker.Property{ID: id, Status: checker.StatusFail})
			}
		}
		return r
	}
	old := result("steady", system.Core, checker.Fail, "P4")
	old.Info.Versions = map[string]string{evidence.TreeKey: "old"}
	drill := result("paxos-lease", system.Core, checker.Pass)
	drill.Check.Properties[0].Status = checker.StatusNA
	flat := result("flat", system.Core, checker.Pass)
	flat.Took, flat.Check.Growth = 4*time.Hour, []checker.Growth{{}}
	k := Kept{
		Sets: map[string][]evidence.Result{
			"locks": {result("steady", system.Core, checker.Pass), result("partition", system.Core, checker.Fail, "P11"), old,
				result("swarm", system.Core, checker.Invalid)}, // it shows nothing, and its cycles count for nothing
			"paxos": {drill},
			"jobs":  {result("jobs-steady", system.Core, checker.Pass)},
			"field": {result("pause-worker", "redlock", checker.Fail, "P4")}, // that it fails says nothing of the core
		},
		Runs: []evidence.Result{flat},
		Scores: []score.Score{
			{Kind: score.Simulation, Name: "clusters", Share: score.Share{Good: 20000, Of: 20000}, Versions: of},
			{Kind: score.Mutation, Name: "core/lock", Share: score.Share{Good: 295, Of: 300}, Versions: of},
		},
	}
	text := strings.Join(lines(k), "\n")
	has(t, text,
		"in 4 runs of 4 scenarios under 1 seed, with 300 lock cycles, 100 jobs and 360 effects, 0 had an effect twice or lost something (P4, P5, P16, P17); "+
			"1 is FAIL in all. With 95 % confidence, fewer than 52.8 % of such runs would.",
		"1 of 5 failed and 1 showed nothing.", "15 of 20 were proven", "flat for 4.0 h PASS",
		measure.FormatCount(20000)+" of "+measure.FormatCount(20000)+" clusters broke no rule",
		"core/lock 98.3 % (96.2 to 99.3)")

	for _, id := range []string{"P4", "P5", "P16"} {
		red := maps.Clone(k.Sets)
		red["more"] = []evidence.Result{result("kill-node", system.Core, checker.Fail, id)}
		text := strings.Join(lines(Kept{Sets: red}), "\n")
		if !strings.Contains(text, ", 1 had an effect twice or lost something") || !strings.Contains(text, "; 2 are FAIL in all.") || strings.Contains(text, "confidence, fewer") {
			t.Errorf("%s: %s", id, text)
		}
	}
}

func TestReadScores(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "scores.jsonl")
	if all, err := ReadScores(file); err != nil || len(all) > 0 {
		t.Error(all, err)
	}
	for _, text := range []string{`{"kind":"mutation","name":"a","good":5,"of":4}`, `{"kind":"mutation","name":"a","good":0,"of":0}`, `{"kind"`} {
		must(t, os.WriteFile(file, []byte(text+"\n"), 0o644))
		var line *evidence.LineError
		if _, err := ReadScores(file); !errors.As(err, &line) || line.Line != 1 {
			t.Errorf("%s: %v", text, err)
		}
	}
}
