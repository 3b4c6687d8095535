package reports

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/harness/target/system"
	"fencepost/reports/evidence"
)

// TestFieldCells: a row stands from one digest, a cell says what fired in how many runs, and what a
// red one is, and what cannot be is told from what was not run.
func TestFieldCells(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_795_000_000, 0)
	result := func(scenario string, seed uint64, v checker.Verdict, tree string, fired ...string) evidence.Result {
		at = at.Add(time.Minute)
		r := evidence.Result{
			Job: evidence.Job{Scenario: scenario, Contention: "medium", Seed: seed, System: "redis-set"}, Verdict: v,
			Info:  rundir.Info{Started: at, Versions: map[string]string{evidence.TreeKey: tree, evidence.CommitKey: "commit-of-" + tree}},
			Check: &checker.Result{Verdict: v, Summary: "two writers"},
		}
		for _, id := range fired {
			r.Check.Properties = append(r.Check.Properties, checker.Property{ID: id, Status: checker.StatusFail})
		}
		return r
	}
	inert := func(r evidence.Result) evidence.Result {
		r.Job.Inert = true
		return r
	}
	all := []evidence.Result{
		result("steady", 1, checker.Fail, "old", "P2"),
		result("steady", 1, checker.Pass, "new"), result("steady", 2, checker.Pass, "new"),
		result("pause-worker", 1, checker.Fail, "new", "P4", "P8"), result("pause-worker", 2, checker.Fail, "new", "P4"),
		result("kill-worker", 1, checker.Fail, "new", "P4"), result("kill-worker", 2, checker.Invalid, "new"),
		result("flaky-links", 1, checker.Fail, "new", "P4"),
		inert(result("pause-worker", 1, checker.Invalid, "new")), inert(result("pause-worker", 2, checker.Fail, "new", "P4")),
	}
	redis, err := system.Find("redis-set")
	if err != nil {
		t.Fatal(err)
	}
	page := field(t, []system.System{redis}, all, func(j evidence.Job) bool { return j.Scenario != "kill-node" })
	for _, want := range []string{
		"| `redis-set` | redis | PASS 2/2 | [FAIL](#fail-redis-set-pause-worker) P4, P8 (1 of 2) 2/2, inert 1/2 | [FAIL](#fail-redis-set-kill-worker) P4 1/2; [INVALID](#invalid-redis-set-kill-worker) 1/2 |  |  | [FAIL](#fail-redis-set-flaky-links) P4 1/1 | – |", "| new |\n",
		"- <a id=\"fail-redis-set-pause-worker\"></a>`redis-set` under [pause-worker](scenarios.md#pause-worker): a holder that stood still past its lease writes, and the sink checks no token. A run said: two writers\n",
		"`redis-set` under [kill-worker](scenarios.md#kill-worker): not examined. A run said: two writers\n",
		"`redis-set` under [flaky-links](scenarios.md#flaky-links): A key was gone. A run said: two writers\n",
		"<a id=\"invalid-redis-set-kill-worker\"></a>`redis-set` under [kill-worker](scenarios.md#kill-worker), seed 2: two writers. Nobody was killed.\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "| old |") {
		t.Error("results of older code are in the row")
	}
	if page := field(t, []system.System{redis}, nil, func(evidence.Job) bool { return true }); !strings.Contains(page, "There are none.") {
		t.Errorf("without runs:\n%s", page)
	}
}

// TestFieldCosts: the page has the last benchmark of the field that may be quoted.
func TestFieldCosts(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	at := time.Unix(1_795_000_000, 0)
	bench := func(name string, slower time.Duration, problems ...string) BenchResult {
		at = at.Add(time.Hour)
		b := BenchResult{Name: name, Command: "bin/fencepost bench --subject=field", Started: at, Problems: problems}
		for _, id := range []string{"etcd-lease/1", "2/etcd-lease/1", "etcd-lease/8", "none/1", "none/8"} {
			a := BenchArm{ID: id}
			if strings.HasPrefix(id, "2/") {
				a.Control = "etcd-lease/1"
			}
			for round := range 6 {
				r := BenchRound{Round: round + 1, Seconds: 1, OK: 100, Latency: latencies(t, rng, 100, slower),
					Cost: &BenchCost{Ops: 100, Spent: map[string]float64{SpentClientCPU: 0.2, SpentStoreCPU: 0.1}}}
				if strings.HasPrefix(id, "none") {
					delete(r.Cost.Spent, SpentStoreCPU)
				}
				a.Rounds = append(a.Rounds, r)
			}
			b.Arms = append(b.Arms, a)
		}
		return b
	}
	all := []BenchResult{
		bench("a-bench-field", time.Millisecond), bench("b-bench-field", time.Second), bench("c-bench-field", time.Minute, "loud machine"), bench("d-bench-jobs", time.Millisecond),
	}
	page, err := Field(FieldKept{Systems: system.Field(), Benches: all}, func(evidence.Job) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| `etcd-lease` | yes | 100 [100, 100] | ", " s | 3.00 [3.00, 3.00] (1.00) |", "| `none` | – | 100 [100, 100] | ", "| 2.00 [2.00, 2.00] |", "From `b-bench-field`"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "2/etcd-lease") || strings.Contains(page, "No benchmark") {
		t.Errorf("the page is\n%s", page)
	}
	all[1].Arms = all[1].Arms[:2]
	if _, err := Field(FieldKept{Benches: all}, nil); err == nil || !strings.Contains(err.Error(), "no arm etcd-lease/8") {
		t.Errorf("an arm is missing: %v", err)
	}
	if page := field(t, nil, nil, nil); !strings.Contains(page, "No benchmark of the field is kept") {
		t.Errorf("the page is\n%s", page)
	}
}

// field is the page without a benchmark.
func field(t *testing.T, systems []system.System, all []evidence.Result, suits func(evidence.Job) bool) string {
	t.Helper()
	page, err := Field(FieldKept{Systems: systems, Runs: all, Notes: map[string]evidence.Note{
		"evidence/field/flaky-links-medium-1-redis-set": {Cause: "A key was gone."},
		"evidence/field/kill-worker-medium-2-redis-set": {Cause: "Nobody was killed."},
	}}, suits)
	if err != nil {
		t.Fatal(err)
	}
	return page
}
