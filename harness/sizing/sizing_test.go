package sizing_test

import (
	"errors"
	"flag"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fencepost/harness/sizing"
)

var update = flag.Bool("update", false, "write the section of docs/core.md")

const (
	page  = "../../docs/core.md"
	file  = "../../results/cost.jsonl"
	begin = "<!-- sizing: written by make docs from results/cost.jsonl -->\n"
	end   = "<!-- /sizing -->"
)

// TestPage: what docs/core.md says of costs is what was measured last, and what follows
// from it.
func TestPage(t *testing.T) {
	c, err := sizing.Latest(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no section between %q and %q", page, begin, end)
	}
	want := "\n" + sizing.Markdown(c, sizing.Usual()) + "\n"
	switch {
	case old == want:
	case *update:
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not say what %s does: make docs. It should be\n%s", page, file, want)
	}
}

func cost() sizing.Cost {
	job := sizing.Per{Jobs: 100, Seconds: 1, LWTs: 0.08, Changes: 8, BatchBytes: 2000, NetworkBytes: 20_000, NodeCPU: 0.001, OwnCPU: 0.0002}
	effect := job
	effect.SinkLWTs, effect.NodeCPU, effect.OwnCPU, effect.NetworkBytes = 1, 0.003, 0.0003, 24_000
	return sizing.Cost{Version: 1, Measured: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Payload: 200, Job: job, Effect: effect, Disk: sizing.Disk{Shards: 500, Runs: 100, Sink: 300}}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-6*math.Abs(want) }

// TestPlan goes through the arithmetic by hand.
func TestPlan(t *testing.T) {
	t.Parallel()
	a := sizing.Assumptions{Peak: 2, Batch: 10 * time.Millisecond, ShardRate: 200, Partition: 1e9, Cores: 10, Used: 0.5, Replicas: 3, Spare: 2, Beat: 10 * time.Second, KeepRuns: 48 * time.Hour}
	// 864 million a day are 10,000 a second, 20,000 at the peak: 100 shards by rate, 432 by
	// the bytes of a day. Each of these gets 46.3 a second and commits 100 batches.
	n := sizing.Plan(cost(), a, 864e6, 24*time.Hour)
	more := 43200.0 - 1600
	for name, v := range map[string][2]float64{
		"rate": {n.Rate, 20000}, "shards": {n.Shards, 432}, "lwts": {n.LWTs, 43200}, "a job": {n.PerJob, 2.16},
		"node cores": {n.NodeCores, 20 + more*0.002}, "own cores": {n.OwnCores, 4 + more*0.0001}, "nodes": {n.Nodes, 21}, "effect LWTs": {n.EffectLWTs, 63200}, "effect nodes": {n.EffectNodes, 29},
		"network": {n.Network, (20000*20000 + more*4000) / 21}, "partition": {n.Partition, 1e9}, "disk": {n.Disk, 864e6 * 500 * 6}, "runs": {n.RunsDisk, 864e6 * 2 * 100 * 6},
	} {
		if !near(v[0], v[1]) {
			t.Errorf("%s: %v, want %v", name, v[0], v[1])
		}
	}
	// With ids remembered for an hour it is the rate that needs shards.
	if n := sizing.Plan(cost(), a, 864e6, time.Hour); n.Shards != 100 || !near(n.LWTs, 10000) {
		t.Errorf("%+v", n)
	}
	// A job alone takes three; nothing at all still ticks; a saturated shard has full batches.
	if n := sizing.Plan(cost(), a, 86400, time.Hour); n.Shards != 1 || !near(n.PerJob, 3) || n.Nodes != 3 {
		t.Errorf("%+v", n)
	}
	if n := sizing.Plan(cost(), a, 1, time.Hour); !near(n.LWTs, 0.1) {
		t.Errorf("%+v", n)
	}
	a.ShardRate = 5000
	if n := sizing.Plan(cost(), a, 864e6, time.Minute); n.Shards != 4 || !near(n.PerJob, 0.08) {
		t.Errorf("%+v", n)
	}
}

// TestMarkdown: what is computed follows what is measured.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	c := cost()
	first := sizing.Markdown(c, sizing.Usual())
	c.Job.LWTs *= 20
	for _, want := range []string{"| LWTs on shards | 0.080 | 0.080 |", "Measured on 2026-01-02 (`results/cost.jsonl`)", "| 231 | 2 310 | 23 100 | 231 000 |"} {
		if !strings.Contains(first, want) {
			t.Errorf("it lacks %q:\n%s", want, first)
		}
	}
	if sizing.Markdown(c, sizing.Usual()) == first {
		t.Error("another cost makes the same page")
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	if err := cost().Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*sizing.Cost){
		"version":      func(c *sizing.Cost) { c.Version = 2 },
		"no jobs":      func(c *sizing.Cost) { c.Job.Jobs = 0 },
		"no LWTs":      func(c *sizing.Cost) { c.Effect.LWTs = 0 },
		"no traffic":   func(c *sizing.Cost) { c.Job.NetworkBytes = 0 },
		"no processor": func(c *sizing.Cost) { c.Job.NodeCPU = 0 },
		"no effect":    func(c *sizing.Cost) { c.Effect.SinkLWTs = 0 },
		"too few":      func(c *sizing.Cost) { c.Job.Changes = 3 },
	} {
		c := cost()
		if change(&c); c.Check() == nil {
			t.Errorf("%s: taken", name)
		}
	}
	none := filepath.Join(t.TempDir(), "cost.jsonl")
	if _, err := sizing.Latest(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a measurement where there is none: %v", err)
	}
	if err := os.WriteFile(none, []byte("{}\n{\"ver"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := sizing.Latest(none); err == nil || !strings.Contains(err.Error(), "cost.jsonl:2: ") {
		t.Errorf("a torn line: %v", err)
	}
}
