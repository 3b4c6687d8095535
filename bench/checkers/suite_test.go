package checkers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/bench"
	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/internal/exetest"
	"fencepost/internal/race"
)

// TestMain makes this executable do what of the tool a benchmark starts.
func TestMain(m *testing.M) {
	switch args := os.Args[1:]; {
	case os.Getenv(OrderEnv) != "":
		Main()
	case slices.Equal(args, checker.ChildArgs):
		os.Exit(checker.ChildMain(os.Stdout))
	case len(args) == 3 && args[0] == "check":
		o := checker.Options{}
		if race.Enabled {
			o.Memory = -1
		}
		r, err := o.CheckInChild(context.Background(), os.Args[0], args[2])
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(r)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(r.Verdict.ExitCode())
	}
	os.Exit(m.Run())
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"few rounds": {Config: bench.Config{Rounds: 4}},
		"small":      {Sizes: []int{10}},
		"large":      {Sizes: []int{10_000, 10_000_000}},
		"twice":      {Sizes: []int{10_000, 10_000}},
	} {
		if s, err := New(c); err == nil {
			t.Errorf("%s: accepted as %+v", name, s.Config)
		}
	}
}

func TestDefaultPlan(t *testing.T) {
	t.Parallel()
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, a := range s.plan.Arms {
		ids = append(ids, a.ID+" "+a.Baseline)
	}
	if want := []string{"K/10000 ", "K/100000 K/10000", "K/300000 K/10000"}; !slices.Equal(ids, want) {
		t.Errorf("arms %v, want %v", ids, want)
	}
	if d := s.Design(); len(d.WarmUp) != 0 || d.EachTurn() != "one check" || d.Estimate > 10*time.Minute {
		t.Errorf("%+v", d)
	}
}

// TestWholeBenchmark makes and checks real histories in real processes.
func TestWholeBenchmark(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Config: bench.Config{Rounds: 5, Seed: 3}, Sizes: []int{9000, 5000}, Exe: os.Args[0]})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r, err := bench.Measure(t.Context(), s, &bench.Env{Dir: dir, Seed: 3}, bench.NewProgress(nil))
	if err != nil {
		t.Fatal(err)
	}
	if r.ExitCode() != bench.ExitOK {
		t.Fatalf("problems %q, violations %q", r.Problems, r.Violations)
	}
	numbers, err := r.Numbers()
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range numbers {
		// A run of a few virtual seconds is about as long as ordered: what is lost in it, and when
		// its worker dies, moves it by a quarter.
		wanted, made := float64(s.Sizes[i]), float64(n.OK)/5
		if made < wanted/2 || made > 2*wanted || n.Rate.N != 5 {
			t.Errorf("%s: %v operations, %d rounds", n.Arm.ID, made, n.Rate.N)
		}
		// No check takes more processor time than there are processors.
		cpu := n.Cost(quantity)
		if most := 64 * 1000 / n.Rate.Min; cpu.N != 5 || cpu.Median <= 0 || cpu.Median > most {
			t.Errorf("%s: %v CPU s for 1000 operations, at most %v", n.Arm.ID, cpu.Estimate, most)
		}
	}
	if len(r.Met) != 2 || strings.Contains(r.Met[0].Got+r.Met[1].Got, "not measured") {
		t.Errorf("targets %+v", r.Met)
	}
	for _, line := range slices.Concat(r.Suite.Headlines(r), []string{s.Round(r.Samples)}, r.Notes) {
		t.Log(line)
	}
	report, err := r.Report(bench.About{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := bench.Print(&out, r, report); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{"warm-up", "Ratio to ceiling"} {
		if strings.Contains(out.String(), wrong) {
			t.Errorf("%q is said of what has none:\n%s", wrong, out.String())
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestNoVerdict: a check that is no PASS, or none at all, is no sample.
func TestNoVerdict(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := order{Operations: 5000, Seed: 1}
	if err := o.history(t.Context(), os.Args[0], dir); err != nil {
		t.Fatal(err)
	}
	c, err := runCheck(t.Context(), os.Args[0], dir)
	if err != nil || c.operations < 2500 || c.took <= 0 || c.cpu <= 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	if err := os.Remove(filepath.Join(dir, rundir.HistoryDir, history.Harness+".jsonl")); err != nil {
		t.Fatal(err)
	}
	if _, err := runCheck(t.Context(), os.Args[0], dir); err == nil || !strings.Contains(err.Error(), "is to be a PASS") {
		t.Errorf("without the harness's file: %v", err)
	}
	for _, exe := range []string{"/bin/false", filepath.Join(dir, "none")} {
		if _, err := runCheck(t.Context(), exe, dir); err == nil {
			t.Errorf("%s: a verdict", exe)
		}
		if err := o.history(t.Context(), exe, t.TempDir()); err == nil {
			t.Errorf("%s: a history", exe)
		}
	}
}

// TestFalseAlarm: a violation that is found in a legal history is one of the checker's promises.
func TestFalseAlarm(t *testing.T) {
	t.Parallel()
	exe := filepath.Join(t.TempDir(), "tool")
	script := "#!/bin/sh\n[ \"$1\" = check ] || exit 0\necho '{\"verdict\":\"FAIL\",\"summary\":\"P1\",\"counts\":{\"operations\":7}}'\nexit 1\n"
	exetest.Write(t, exe, script)
	s, err := New(Config{Config: bench.Config{Rounds: 5}, Sizes: []int{5000}, Exe: exe})
	if err != nil {
		t.Fatal(err)
	}
	r, err := bench.Measure(t.Context(), s, &bench.Env{Dir: t.TempDir()}, bench.NewProgress(nil))
	if err != nil {
		t.Fatal(err)
	}
	if r.ExitCode() != bench.ExitViolation || len(r.Violations) != 6 || len(r.Samples) != 0 {
		t.Errorf("%d samples, violations %q", len(r.Samples), r.Violations)
	}
}

// TestOwnPeak: what may be this process's own memory is not taken for a child's.
func TestOwnPeak(t *testing.T) {
	t.Parallel()
	if got, err := ownPeak(1 << 20); got != 0 || err != nil {
		t.Errorf("1 MB: %d, %v", got, err)
	}
	if got, err := ownPeak(1 << 50); got != 1<<50 || err != nil {
		t.Errorf("a lot: %d, %v", got, err)
	}
}
