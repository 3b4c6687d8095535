package reports

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/harness/target/system"
	"fencepost/internal/race"
	"fencepost/reports/evidence"
	"fencepost/reports/reporttest"
)

// benchSample makes a benchmark in which a lock reaches share of its ceiling,
// on a machine whose speed changes from round to round.
func benchSample(t testing.TB, share float64) BenchResult {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	b := BenchResult{
		Name: "20250102-030405-bench-high", About: "Contention high: all clients want one lock.", Seed: 3, Cluster: "local",
		Started: time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC), Ended: time.Date(2025, 1, 2, 3, 9, 5, 0, time.UTC),
		Command: "fencepost bench --contention high --seed 3", Versions: map[string]string{"cassandra": "5.0.6", "fencepost": "4be0c11"},
		Machine: map[string]string{"cores": "2"},
	}
	speed := make([]float64, 12)
	for i := range speed {
		speed[i] = 0.6 + 0.8*rng.Float64()
	}
	arm := func(id, scenario, ceiling string, threads int, lwts, rate float64, ttl time.Duration) {
		a := BenchArm{ID: id, Scenario: scenario, About: "about " + scenario, Contention: "high", Threads: threads, TTL: ttl, Ceiling: ceiling,
			LWTsPerOp: lwts}
		for i, s := range speed {
			n := int64(rate * s * 2)
			enc := latencies(t, rng, int(n), time.Duration(float64(threads)/rate/s*float64(time.Second)))
			a.Rounds = append(a.Rounds, BenchRound{Round: i + 1, Seconds: 2, OK: n, Fail: n / 10, Latency: enc})
		}
		b.Arms = append(b.Arms, a)
	}
	for _, n := range []int{1, 4, 16} {
		rate := 80 / (1 + 0.1*float64(n))
		arm(fmt.Sprintf("cas-%d", n), "bare LWT", "", n, 1, rate, 0)
		arm(fmt.Sprintf("lock-%d", n), "lock cycle", fmt.Sprintf("cas-%d", n), n, 2, rate/2*share, 30*time.Second)
		arm(fmt.Sprintf("lock-again-%d", n), "lock cycle, again", fmt.Sprintf("cas-%d", n), n, 2, rate/2*share, 30*time.Second)
	}
	return b
}

func TestWriteBench(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if *samples != "" {
		dir = filepath.Join(*samples, "bench")
		must(t, os.MkdirAll(dir, 0o755))
	}
	b := benchSample(t, 0.9)
	must(t, WriteBench(dir, b))
	d := readPage(t, filepath.Join(dir, BenchPage))
	d.selfContained()
	if n, curves := d.count("svg", "charts"), d.count("figure", "charts"); n != 2 || curves != 4 {
		t.Errorf("%d drawings of %d charts, want 2 of 4", n, curves)
	}
	back, err := ReadBench(filepath.Join(dir, BenchFile))
	must(t, err)
	if back.Version != BenchVersion || len(back.Arms) != len(b.Arms) || back.Arms[1].Rounds[3] != b.Arms[1].Rounds[3] {
		t.Error("bench.json does not read back")
	}
	arms := readCSV(t, filepath.Join(dir, BenchCSV))
	rounds := readCSV(t, filepath.Join(dir, BenchRoundsCSV))
	if len(arms) != 10 || len(rounds) != 9*12+1 {
		t.Errorf("%d arms and %d rounds in the CSV files", len(arms)-1, len(rounds)-1)
	}
	if strings.Contains(d.raw, "Do not quote") {
		t.Error("a benchmark without problems is called unquotable")
	}
	b.Problems = []string{"the control differs <by> 20 %"}
	must(t, WriteBench(dir, b))
	if s := text(readPage(t, filepath.Join(dir, BenchPage)).root); !strings.Contains(s, "Do not quote these numbers") ||
		!strings.Contains(s, "differs <by> 20 %") {
		t.Error("the page does not tell the problems")
	}
	if *samples != "" {
		must(t, WriteBench(dir, benchSample(t, 0.9)))
	}
}

// TestRatiosArePerRound: a machine whose speed changes between rounds does not
// change the ratio, because both arms of a round see the same speed.
func TestRatiosArePerRound(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0.5, 0.9} {
		ns, err := benchSample(t, share).Numbers()
		must(t, err)
		for _, n := range ns {
			if n.Arm.Ceiling == "" {
				if n.ToCeiling.Estimate.N != 0 {
					t.Errorf("%s is a ceiling and has a ratio", n.Arm.ID)
				}
				continue
			}
			if e := n.ToCeiling.Estimate; e.N != 12 || e.Median < share*0.93 || e.Median > share*1.07 {
				t.Errorf("%s: ratio %+v, want about %.2f", n.Arm.ID, e, share)
			}
			if n.Rate.Max < 1.3*n.Rate.Min {
				t.Errorf("%s: rates %+v do not spread: the test shows nothing", n.Arm.ID, n.Rate)
			}
		}
	}
}

func TestMalformedBench(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for name, spoil := range map[string]func(b *BenchResult){
		"an id twice":         func(b *BenchResult) { b.Arms[1].ID = b.Arms[0].ID },
		"no id":               func(b *BenchResult) { b.Arms[0].ID = "" },
		"no such ceiling":     func(b *BenchResult) { b.Arms[1].Ceiling = "nothing" },
		"its own ceiling":     func(b *BenchResult) { b.Arms[1].Ceiling = b.Arms[1].ID },
		"not a histogram":     func(b *BenchResult) { b.Arms[1].Rounds[0].Latency = "!" },
		"truncated histogram": func(b *BenchResult) { b.Arms[1].Rounds[0].Latency = b.Arms[1].Rounds[0].Latency[:20] },
	} {
		b := benchSample(t, 0.9)
		spoil(&b)
		if err := WriteBench(t.TempDir(), b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	empty := BenchResult{Name: "e"}
	dir := t.TempDir()
	if err := WriteBench(dir, empty); err != nil {
		t.Errorf("no arms: %v", err)
	}
	readPage(t, filepath.Join(dir, BenchPage)).selfContained()
}

func TestResults(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	parent := t.TempDir()
	var runs []evidence.Result
	for _, o := range []reporttest.Options{
		{Seed: 1, Fault: "pause-worker", Verdict: "PASS"},
		{Seed: 2, Fault: "pause-worker", Verdict: "PASS"},
		{Seed: 3, Verdict: "PASS", Locks: 1},
		{Seed: 4, Fault: "pause-worker", Verdict: "INVALID", Unproven: true},
		{Seed: 2, Fault: "pause-worker", Verdict: "FAIL", Broken: reporttest.SinkNoTokenCheck, Locks: 3, Hold: 200 * time.Millisecond,
			TTL: 4 * time.Second},
	} {
		dir, err := reporttest.Write(filepath.Join(parent, fmt.Sprint(len(runs))), o)
		must(t, err)
		if _, err := WriteRun(context.Background(), dir); err != nil {
			t.Fatal(err)
		}
		r, err := ReadRunResult(dir)
		must(t, err)
		runs = append(runs, r)
	}
	bench := t.TempDir()
	must(t, WriteBench(bench, benchSample(t, 0.9)))
	benches := keptBench(t, filepath.Join(bench, BenchFile))
	md, err := Results(Kept{Runs: runs, Benches: benches})
	must(t, err)
	slices.Reverse(runs)
	again, err := Results(Kept{Runs: runs, Benches: benches})
	must(t, err)
	if md != again {
		t.Error("the order of the arguments changes the results")
	}
	has(t, md,
		"| pause-worker | core | medium | 6 s | 3 | 1, 2, 4 | **1 INVALID**, 2 PASS |", "| steady | core | high | 6 s | 1 | 3 | 1 PASS |",
		"| sink-no-token-check |", "P3 or P4 (FAIL) | 1 FAIL | P3 | 1 of 1 |", "not run", "| lock cycle | 16 | 30 s | high |", "ceiling",
	)
	for _, v := range system.Directed() {
		if !regexp.MustCompile(`(\| |, |: )` + regexp.QuoteMeta(v.Label()) + `( \||, |\.\n)`).MatchString(md) {
			t.Errorf("%s is not listed", v.Label())
		}
	}
	for i, line := range strings.Split(md, "\n") {
		if strings.HasPrefix(line, "|") && !strings.HasSuffix(line, "|") {
			t.Errorf("line %d is a broken row: %s", i+1, line)
		}
	}
	if *samples != "" {
		write(t, *samples, "RESULTS.md", md)
	}
}

func TestResultsRefusesWhatHasNoResult(t *testing.T) {
	t.Parallel()
	unchecked := makeRun(t, reporttest.Options{Seed: 1})
	if _, err := ReadRunResult(unchecked); err == nil || !strings.Contains(err.Error(), "check it first") {
		t.Errorf("an unchecked run: %v", err)
	}
	unreported := makeRun(t, reporttest.Options{Seed: 1, Verdict: "PASS"})
	if _, err := ReadRunResult(unreported); err == nil || !strings.Contains(err.Error(), "report it first") {
		t.Errorf("a run without a report: %v", err)
	}
	if _, err := ReadRunResult(t.TempDir()); !errors.Is(err, ErrNoRun) {
		t.Errorf("an empty directory: %v", err)
	}
	file := filepath.Join(t.TempDir(), "bench.jsonl")
	if all, err := ReadBenches(file); err != nil || len(all) > 0 {
		t.Errorf("no benchmark is kept: %v, %v", all, err)
	}
	must(t, os.WriteFile(file, []byte("{\"version\":99}\n"), 0o644))
	if _, err := ReadBenches(file); err == nil || !strings.Contains(err.Error(), "bench.jsonl:1: format version 99") {
		t.Errorf("another format version: %v", err)
	}
	if md, err := Results(Kept{}); err != nil || !strings.Contains(md, "No run is kept") {
		t.Errorf("nothing at all: %v", err)
	}
}

// keptBench reads a benchmark as it is kept: once, though kept twice.
func keptBench(t *testing.T, file string) []BenchResult {
	t.Helper()
	b, err := ReadBench(file)
	must(t, err)
	kept := filepath.Join(t.TempDir(), "bench.jsonl")
	for range 2 {
		must(t, KeepBench(kept, b))
	}
	all, err := ReadBenches(kept)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d benchmarks, %v", len(all), err)
	}
	return all
}
