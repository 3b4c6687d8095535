package jobs

import (
	"strings"
	"testing"
	"time"

	"fencepost/bench"
	"fencepost/reports"
	"fencepost/reports/measure"
)

// did is what an arm did in every round: jobs/s, LWTs a job, those of the sink, the latency, and the
// processor time of clients and nodes for a job in ms.
type did struct {
	rate, lwts, sink float64
	latency          time.Duration
	clients, nodes   float64
}

// made is a result with made-up samples.
func made(t *testing.T, what map[string]did) *bench.Result {
	t.Helper()
	s, err := New(Config{Config: bench.Config{Rounds: 5}, Shards: []int{4}})
	if err != nil {
		t.Fatal(err)
	}
	r := &bench.Result{Suite: s, Design: s.Design()}
	for _, a := range s.plan.Arms {
		d := what[a.ID]
		for round := 1; round <= 5; round++ {
			x := bench.Sample{Arm: a.ID, Round: round, Seconds: 1, OK: int64(d.rate), Latency: measure.NewHistogram()}
			x.Done, x.Ended = x.OK, x.OK
			x.Sent.LWTs, x.SinkLWTs = int64(d.lwts*d.rate), int64(d.sink*d.rate)
			x.Cost = &reports.BenchCost{Ops: x.OK, Spent: map[string]float64{
				reports.SpentClientCPU: d.clients * d.rate / 1000, reports.SpentStoreCPU: d.nodes * d.rate / 1000}}
			for range a.Parts {
				x.Parts = append(x.Parts, measure.NewHistogram())
			}
			if err := measure.Record(x.Latency, d.latency); err != nil {
				t.Fatal(err)
			}
			r.Samples = append(r.Samples, x)
		}
	}
	return r
}

func good() map[string]did {
	return map[string]did{
		"C/32": {1000, 1, 0, 30 * time.Millisecond, 0.3, 2}, "C/1": {100, 1, 0, 10 * time.Millisecond, 0.3, 2},
		"P": {120, 2, 0, time.Second, 2, 30}, "PS": {100, 2, 1, time.Second, 3, 40},
		"J/4": {2000, 0.045, 0, 200 * time.Millisecond, 0.1, 1.9}, "J2/4": {2000, 0.045, 0, 200 * time.Millisecond, 0.1, 1.9},
		"JS/4": {1000, 0.1, 1, 400 * time.Millisecond, 0.4, 3}, "J1/4": {30, 3, 0, 20 * time.Millisecond, 1, 9},
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	load := func(rate float64, done []int64, late time.Duration) reports.BenchSteady {
		h := measure.NewHistogram()
		if err := measure.Record(h, late); err != nil {
			t.Fatal(err)
		}
		enc, err := reports.EncodeHistogram(h)
		if err != nil {
			t.Fatal(err)
		}
		l := reports.BenchSteady{ID: "x", Scenario: "load", Rate: rate, For: 50 * time.Second}
		if rate > 0 {
			l.Late = enc
		}
		for _, n := range done {
			l.Buckets = append(l.Buckets, reports.BenchBucket{Seconds: 10, Done: n})
		}
		return l
	}
	level := []int64{1000, 1000, 1000, 1000, 1000}
	for _, c := range []struct {
		name   string
		change func(map[string]did)
		loads  []reports.BenchSteady
		missed []string // parts of the names
		count  int
	}{
		{"good", func(map[string]did) {}, []reports.BenchSteady{load(100, level, time.Second), load(0, level, 0)}, nil, 11},
		{"too many LWTs", func(m map[string]did) { m["J/4"] = did{2000, 0.06, 0, time.Second, 0.1, 1.9} }, nil, []string{"LWTs a job at saturation"}, 8},
		{"slow", func(m map[string]did) { m["J/4"] = did{1500, 0.045, 0, time.Second, 0.1, 1.9} }, nil, []string{"jobs/s by those of a lock"}, 8},
		{"no rival", func(m map[string]did) { m["P"] = did{0, 0, 0, time.Second, 0, 0} }, nil,
			[]string{"jobs/s by those of a lock", "processor time for a job by that"}, 8},
		{"dear nodes", func(m map[string]did) { m["J/4"] = did{2000, 0.045, 0, time.Second, 0.1, 2.2} }, nil, []string{"processor time for a job by that"}, 8},
		{"a dear scheduler", func(m map[string]did) { m["J/4"] = did{2000, 0.045, 0, time.Second, 0.2, 1.5} }, nil, []string{"of the scheduler and its clients"}, 8},
		{"two effects", func(m map[string]did) { m["JS/4"] = did{1000, 0.1, 2, time.Second, 0.4, 3} }, nil, []string{"LWTs a job with one effect"}, 8},
		{"slow effects", func(m map[string]did) { m["JS/4"] = did{400, 0.1, 1, time.Second, 0.4, 3} }, nil, []string{"jobs/s with a fenced effect"}, 8},
		{"a slow single job", func(m map[string]did) { m["J1/4"] = did{10, 3, 0, 60 * time.Millisecond, 1, 9} }, nil, []string{"p50 from enqueue", "p95 from enqueue"}, 8},
		{"decay", func(map[string]did) {}, []reports.BenchSteady{load(0, []int64{1000, 1000, 900, 900, 940}, 0)}, []string{"decay of jobs/s"}, 9},
		{"late", func(map[string]did) {}, []reports.BenchSteady{load(100, level, 2*time.Second)}, []string{"p99 of lateness"}, 10},
		{"too short to tell", func(map[string]did) {}, []reports.BenchSteady{load(0, level[:4], 0)}, []string{"decay of jobs/s"}, 9},
	} {
		m := good()
		c.change(m)
		r := made(t, m)
		r.Steady = c.loads
		targets, err := r.Suite.(*Suite).targets(r)
		if err != nil {
			t.Fatal(err)
		}
		var missed []string
		for _, x := range targets {
			if !x.Met {
				missed = append(missed, x.Name)
			}
		}
		ok := len(missed) == len(c.missed) && len(targets) == c.count
		for i := range missed {
			ok = ok && i < len(c.missed) && strings.Contains(missed[i], c.missed[i])
		}
		if !ok {
			t.Errorf("%s: missed %q of %d, want %q of %d", c.name, missed, len(targets), c.missed, c.count)
		}
	}
}
