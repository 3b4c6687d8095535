package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/harness/record/rundir"
	"fencepost/reports"
)

// comparedRun is the result of a run with an A/A copy, whose costs have 4 % of noise and whose rates 10 %.
func comparedRun(seed uint64, cost, rate float64) reports.BenchResult {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := reports.BenchResult{Version: reports.BenchVersion, Name: fmt.Sprintf("run-%d", seed), Seed: seed}
	for _, a := range []reports.BenchArm{{ID: "L/8/6s"}, {ID: "L2/8/6s", Control: "L/8/6s"}} {
		a.Scenario, a.Threads = "lock cycle", 8
		for round := range 8 {
			ops := int64(600 * rate * math.Exp(0.1*rng.NormFloat64()))
			a.Rounds = append(a.Rounds, reports.BenchRound{Round: round + 1, Seconds: 2, OK: ops, Cost: &reports.BenchCost{
				Ops: ops, Spent: map[string]float64{reports.SpentNetBytes: 9000 * cost * math.Exp(0.04*rng.NormFloat64()) * float64(ops)},
			}})
		}
		b.Arms = append(b.Arms, a)
	}
	return b
}

// runBenchCompare runs the command.
func runBenchCompare(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	root := newRootCmd()
	root.SetOut(&out)
	root.SetArgs(append([]string{"bench", "compare"}, args...))
	code = exitCode(root.ExecuteContext(t.Context()), &errs)
	return code, out.String(), errs.String()
}

func TestBenchCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, b reports.BenchResult) string {
		sub := filepath.Join(dir, name)
		if err := os.Mkdir(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := rundir.WriteJSON(filepath.Join(sub, reports.BenchFile), b); err != nil {
			t.Fatal(err)
		}
		return sub
	}
	old := write("old", comparedRun(1, 1, 1))
	once, again := comparedRun(6, 1, 1), comparedRun(7, 1, 1)
	for lwts, b := range map[float64]reports.BenchResult{3: once, 4: again} {
		for _, a := range b.Arms {
			for _, r := range a.Rounds {
				r.Cost.Spent[reports.SpentLWTs] = lwts * float64(r.Cost.Ops)
			}
		}
	}
	noisy, costless := comparedRun(2, 1, 1), comparedRun(2, 1, 1)
	noisy.Problems = []string{"unsteady"}
	for i := range costless.Arms {
		for j := range costless.Arms[i].Rounds {
			costless.Arms[i].Rounds[j].Cost = nil
		}
	}
	kept := filepath.Join(dir, "kept.jsonl")
	if err := reports.KeepBench(kept, comparedRun(3, 1.15, 1)); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := runBenchCompare(t, write("once", once), write("again", again)); code != 1 || !strings.Contains(out, "FAIL  2 gated costs are worse: lwt_per_op\n") {
		t.Errorf("renewed twice: exit code %d\n%s", code, out)
	}
	for _, c := range []struct {
		name, to string
		code     int
		want     string
	}{
		{"equal", write("equal", comparedRun(2, 1, 1)), 0, "PASS  no gated cost is worse"},
		{"a file", filepath.Join(old, reports.BenchFile), 0, "PASS"},
		{"dearer, as it is kept", kept + "#run-3", 1, "FAIL  2 gated costs are worse: net_bytes_per_op"},
		{"cheaper", write("cheaper", comparedRun(4, 0.8, 1)), 0, "better"},
		{"slower", write("slower", comparedRun(5, 1, 0.7)), 0, "worse (rate only)"},
		{"invalid", write("invalid", noisy), 0, "NEW is INVALID: unsteady"},
		{"no costs", write("costless", costless), 3, "NEW lacks it for L/8/6s, L2/8/6s"},
	} {
		code, out, errs := runBenchCompare(t, old, c.to)
		if code != c.code || !strings.Contains(out, c.want) || errs != "" {
			t.Errorf("%s: exit code %d, want %d, and %q in\n%s%s", c.name, code, c.code, c.want, out, errs)
		}
		var got reports.BenchComparison
		code, out, _ = runBenchCompare(t, "--json", old, c.to)
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != c.code || len(got.Differences) == 0 {
			t.Errorf("%s: --json: exit code %d, %v in\n%s", c.name, code, err, out)
		}
	}
}

func TestBenchCompareUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, other, twice := filepath.Join(dir, "good.json"), filepath.Join(dir, "other.json"), filepath.Join(dir, "twice.json")
	kept := filepath.Join(dir, "kept.jsonl")
	b := comparedRun(1, 1, 1)
	o, two := comparedRun(1, 1, 1), comparedRun(1, 1, 1)
	o.Arms = o.Arms[:1]
	o.Arms[0].ID = "J/4"
	two.Arms[1].ID = "L/8/6s"
	for path, b := range map[string]reports.BenchResult{good: b, other: o, twice: two} {
		if err := rundir.WriteJSON(path, b); err != nil {
			t.Fatal(err)
		}
	}
	if err := reports.KeepBench(kept, b); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{}, "compare takes two results"},
		{[]string{good}, "compare takes two results"},
		{[]string{good, filepath.Join(dir, "gone")}, "name the directory of a result"},
		{[]string{good, dir}, "has no bench.json: name the directory of a benchmark that is over"},
		{[]string{good, file("text.json", "# no")}, "name the bench.json of a benchmark"},
		{[]string{good, file("new.json", `{"version": 99}`)}, "format version 99 is not supported"},
		{[]string{good, kept}, "add one, as in " + kept + "#NAME; there are: run-1"},
		{[]string{kept + "#run-2", good}, `unknown result "run-2" (did you mean "run-1"?)`},
		{[]string{filepath.Join(dir, "gone.jsonl") + "#run-1", good}, "there is no "},
		{[]string{good, other}, "no arm of OLD is in NEW: compare results of one --subject"},
		{[]string{good, twice}, "NEW: bench result: arm 1 has the id"},
		{[]string{good, good, "--margin=3"}, "unknown flag"},
	} {
		code, out, errs := runBenchCompare(t, c.args...)
		if code != exitUsage || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%q: exit code %d, %q; want %q", c.args, code, errs, c.want)
		}
	}
}
