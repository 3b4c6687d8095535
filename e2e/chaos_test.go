//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/checker"
	"fencepost/harness/env/cluster"
	"fencepost/harness/plan"
	"fencepost/harness/record/rundir"
	"fencepost/harness/scenario"
	"fencepost/harness/target/system"
	"fencepost/internal/turn"
)

// root is the repository, seen from this package's directory.
const root = ".."

// runLimit bounds one run: 45 s of phases, a minute's wait for jobs that never end,
// and a busy machine.
const runLimit = 4 * time.Minute

// fencepost runs the tool and returns its exit code and output.
func fencepost(t *testing.T, args ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "fencepost"), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// Ctrl-C, so that the run ends in order and nothing stays behind.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("fencepost %s: %v\n%s", strings.Join(args, " "), err, out.String())
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// chaos makes one run and returns its exit code, verdict and output.
func chaos(t *testing.T, args ...string) (int, checker.Result, string) {
	t.Helper()
	runs := t.TempDir()
	code, out := fencepost(t, append([]string{"chaos", "--cluster=up", "--runs=" + runs}, args...)...)
	var res checker.Result
	b, err := os.ReadFile(filepath.Join(runs, "latest", rundir.VerdictFile))
	if err != nil {
		t.Fatalf("no verdict: %v\n%s", err, out)
	}
	if err := json.Unmarshal(b, &res); err != nil {
		t.Fatal(err)
	}
	report, err := os.Stat(filepath.Join(runs, "latest", rundir.ReportFile))
	if err != nil || report.Size() < 10_000 {
		t.Errorf("no report, or an empty one: %v", err)
	}
	t.Logf("%s: %s", res.Verdict, res.Summary)
	if t.Failed() || testing.Verbose() {
		t.Log(out)
	}
	return code, res, out
}

// runDir is the directory of the run that the tool's output speaks of.
func runDir(t *testing.T, out string) string {
	t.Helper()
	for line := range strings.Lines(out) {
		if report, ok := strings.CutPrefix(strings.TrimSpace(line), "report: "); ok {
			return filepath.Dir(report)
		}
	}
	t.Fatalf("the output names no report:\n%s", out)
	return ""
}

// keep copies a run whose verdict was not the expected one to where it outlives the test.
func keep(t *testing.T, out string) {
	t.Helper()
	dir := runDir(t, out)
	to, err := filepath.Abs(filepath.Join(root, "runs", "unexpected-"+filepath.Base(dir)))
	if err == nil {
		err = os.CopyFS(to, os.DirFS(dir))
	}
	t.Logf("the run is kept in %s (%v)", to, err)
}

// explained returns the mechanisms that fencepost explain names first for a run.
func explained(t *testing.T, out string) []string {
	t.Helper()
	code, text := fencepost(t, "explain", "--json", runDir(t, out))
	var e checker.Explanation
	if err := json.Unmarshal([]byte(text), &e); err != nil || code != 0 {
		t.Fatalf("fencepost explain: exit code %d, %v:\n%s", code, err, text)
	}
	return e.Best()
}

// long are the scenarios that take more than 45 s: make evidence runs them.
var long = []string{"jobs-overload", "jobs-overload-kill-node", "jobs-overload-stop-owner", "kill-nodes", "latency-spike", "rolling-restart", "swarm"}

// onAnother: the scenario needs another cluster than the one that is kept up, or another store.
func onAnother(t *testing.T, name string) bool {
	t.Helper()
	s, err := scenario.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return !s.Layout().Equal(cluster.Plain()) || !plan.OnCore(s)
}

type sound struct{ scenario, contention string }

// jobsRun is the run of jobs: half of the schedulers are of the version before and all are
// killed in turn; where that one cannot be built, all are of today's.
func jobsRun(t *testing.T) sound {
	if _, err := os.Stat(filepath.Join(root, "bin", "worker-previous")); err != nil {
		t.Logf("NOT TESTED: jobs-mixed-versions: %v (make previous)", err)
		return sound{"jobs-kill-worker", "medium"}
	}
	return sound{"jobs-mixed-versions", "medium"}
}

// soundRuns returns three fixed runs and, on odd days, one of the other lock scenarios or of
// the orders; on even days another sink has its turn.
func soundRuns(t *testing.T) []sound {
	runs := []sound{{"partition", "medium"}, {"kill-worker", "medium"}, jobsRun(t)}
	day, all := today(t)
	if day%2 == 0 && !all {
		return runs
	}
	var rest []sound
	for _, name := range scenario.Names() {
		s, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(long, name) || onAnother(t, name) || !s.Kind().Workers || strings.HasPrefix(name, "jobs-") { // a drill has no contention
			continue
		}
		for _, c := range []string{"low", "medium", "high"} {
			if r := (sound{name, c}); !slices.Contains(runs, r) {
				rest = append(rest, r)
			}
		}
	}
	return append(runs, rest[day/2%len(rest)])
}

// TestSound runs scenarios on the core: only PASS will do.
func TestSound(t *testing.T) {
	for i, r := range soundRuns(t) {
		t.Run(r.scenario+"-"+r.contention, func(t *testing.T) {
			code, res, out := chaos(t, r.scenario, "--contention="+r.contention, fmt.Sprintf("--seed=%d", 100+i))
			if code != 0 || res.Verdict != checker.Pass {
				t.Errorf("exit code %d, verdict %s, want 0 and PASS\n%s", code, res.Verdict, out)
				keep(t, out)
			}
		})
	}
}

// canaries are the variants that every run of these tests must find: one of locks, one of
// jobs, and one that dies while all else is well.
var canaries = []string{"broken/sink-no-token-check", "broken/jobs-key-with-attempt", "broken/dies-steady"}

// rotating is how many of the other variants of locks take turns by the date. All
// variants are run by make power.
const rotating = 2

// chosen returns the canaries and the variants whose turn it is. The holes of whole
// designs take longer: their jobs are waited for that never end.
func chosen(t *testing.T, all []system.System) []system.System {
	var out, rest []system.System
	for _, s := range all {
		switch {
		case onAnother(t, s.Red.Scenario), slices.Contains(long, s.Red.Scenario): // TestTwoDatacenters; make power
		case slices.Contains(canaries, s.Name):
			out = append(out, s)
		case !strings.HasPrefix(s.Name, "broken/jobs-") && !strings.HasPrefix(s.Name, "broken/orders-"):
			rest = append(rest, s)
		}
	}
	// Spread over the list, which is sorted by what is broken.
	day, _ := today(t)
	for i := range min(rotating, len(rest)) {
		out = append(out, rest[(day+i*len(rest)/rotating)%len(rest)])
	}
	return out
}

// TestKnownBroken runs known-broken variants under their directed scenarios: each
// must turn red, in this one run, by the property named, and the explanation, which
// knows the history alone, must name the mistake that was planted: in nine of ten runs
// (make power), so that of these few one may be missed.
func TestKnownBroken(t *testing.T) {
	variants := chosen(t, system.Broken())
	var missed []string
	if len(variants) != len(canaries)+rotating {
		t.Fatalf("%d variants: every run must have the canaries %s", len(variants), strings.Join(canaries, ", "))
	}
	for _, s := range variants {
		t.Run(s.Label(), func(t *testing.T) {
			code, res, out := chaos(t, s.Red.Scenario, "--system="+s.Name, "--contention="+s.Red.Contention, "--seed=1")
			if res.Verdict != s.Red.Verdict || code != s.Red.Verdict.ExitCode() {
				t.Errorf("exit code %d, verdict %s, want %d and %s\n%s", code, res.Verdict, s.Red.Verdict.ExitCode(), s.Red.Verdict, out)
				keep(t, out)
			}
			var fired []string
			for _, p := range res.Properties {
				if p.Status == checker.StatusFail || p.Status == checker.StatusInvalid {
					fired = append(fired, p.ID)
				}
			}
			if !slices.ContainsFunc(fired, func(id string) bool { return slices.Contains(s.Red.Properties, id) }) {
				t.Errorf("%v fired, want one of %v\n%s", fired, s.Red.Properties, out)
				keep(t, out)
			}
			if got := explained(t, out); !slices.Contains(got, s.Red.Mechanism) {
				t.Logf("explained by %v, want %s among them", got, s.Red.Mechanism)
				missed = append(missed, s.Label())
				keep(t, out)
			}
		})
	}
	if len(missed) > 1 {
		t.Errorf("the mistake is not named for %s", strings.Join(missed, ", "))
	}
}

// TestBadInput: exit code 64 and an error that names what is wrong and where.
func TestBadInput(t *testing.T) {
	file := func(t *testing.T, body string) string {
		name := filepath.Join(t.TempDir(), "mine.yaml")
		if err := os.WriteFile(name, []byte("name: mine\nabout: mine\n"+body), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for name, c := range map[string]struct {
		args func(t *testing.T) []string
		want string
	}{
		"misspelt key": {func(t *testing.T) []string { return []string{"chaos", file(t, "fauls: []\n")} }, `mine.yaml:3: unknown key "fauls"`},
		"unknown fault": {func(t *testing.T) []string {
			return []string{"chaos", file(t, "faults:\n  - fault: meteor\n    targets: [n1]\n    for: 1s\n")}
		}, `mine.yaml:4: unknown fault "meteor"`},
		"negative duration": {func(t *testing.T) []string { return []string{"chaos", file(t, "phases: {before: -3s}\n")} }, `mine.yaml:3: duration -3s is negative`},
		"unknown scenario":  {func(*testing.T) []string { return []string{"chaos", "no-such"} }, `unknown scenario "no-such"`},
		"unknown system":    {func(*testing.T) []string { return []string{"chaos", "steady", "--system=broken/no-such"} }, `unknown system`},
		"no such program":   {func(*testing.T) []string { return []string{"chaos", "steady", "--system=exec:./no-such --fast"} }, `exec:./no-such --fast: the program cannot be started`},
		"clocks of others":  {func(*testing.T) []string { return []string{"chaos", "clock-jump", "--system=exec:sh mine"} }, `its fault clock changes the clocks`},
		"unknown variant":   {func(*testing.T) []string { return []string{"chaos", "steady", "--paxos=v3"} }, `unknown Paxos variant "v3"`},
		"other variant": {func(*testing.T) []string {
			return []string{"chaos", "paxos-lease", "--cluster=up", "--paxos=v1"}
		}, `kept up has Paxos v2, not v1: use --cluster=local`},
		"unknown flag": {func(*testing.T) []string { return []string{"chaos", "steady", "--sede=3"} }, `unknown flag`},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := fencepost(t, c.args(t)...)
			if code != 64 || !strings.Contains(out, c.want) {
				t.Errorf("exit code %d, want 64; output %q, want %q in it", code, out, c.want)
			}
		})
	}
}

// today is the turn that decides which of a long list a run has.
func today(t *testing.T) (day int, all bool) {
	t.Helper()
	day, all, err := turn.Today()
	if err != nil {
		t.Fatal(err)
	}
	return day, all
}
