package reports

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fencepost/reports/measure"
)

// made-up latencies around a mean.
func latencies(t testing.TB, rng *rand.Rand, n int, mean time.Duration) string {
	t.Helper()
	h := measure.NewHistogram()
	for range n {
		must(t, measure.Record(h, time.Duration(float64(mean)*(0.5+rng.ExpFloat64()/2))))
	}
	enc, err := EncodeHistogram(h)
	must(t, err)
	return enc
}

// jobSample makes a benchmark of jobs with made-up numbers.
func jobSample(t testing.TB) BenchResult {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	b := BenchResult{
		Name: "20250102-030405-bench-jobs", About: "Jobs, 100 open at once for each shard.", Seed: 3, Cluster: "local",
		Started: time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC), Ended: time.Date(2025, 1, 2, 3, 24, 5, 0, time.UTC),
		Command: "bin/fencepost bench --subject=jobs --seed=3 --steady=5m0s", Notes: []string{"a note"},
		Targets: []BenchTarget{
			{Name: "LWTs a job at saturation, without a sink, 4 shards", Want: "at most 0.10", Got: "0.083 [0.081, 0.085]", Met: true},
			{Name: "jobs/s by those of a lock for every job, 1 shard", Want: "at least 8", Got: "7.1 [6.8, 7.6]"},
		},
	}
	for _, a := range []struct {
		id, scenario, ceiling, baseline string
		threads, shards                 int
		rate, lwts, sink                float64
	}{
		{"C/32", "bare LWT", "", "", 32, 0, 1500, 1, 0},
		{"P", "lock per job", "C/32", "", 400, 8, 180, 2.05, 0},
		{"J/4", "jobs", "C/32", "P", 400, 4, 2100, 0.083, 0},
		{"J/1", "jobs", "C/32", "P", 100, 1, 1280, 0.081, 0},
		{"J/16", "jobs", "C/32", "P", 1600, 16, 2300, 0.089, 0},
		{"JS/4", "jobs with a fenced effect", "C/32", "", 400, 4, 620, 0.12, 1},
	} {
		arm := BenchArm{ID: a.id, Scenario: a.scenario, Ceiling: a.ceiling, Baseline: a.baseline, Threads: a.threads, Shards: a.shards}
		for round := 1; round <= 8; round++ {
			n := int64(a.rate * 2 * (0.9 + 0.2*rng.Float64()))
			arm.Rounds = append(arm.Rounds, BenchRound{
				Round: round, Seconds: 2, OK: n, Done: n, Ended: n, LWTs: int64(a.lwts * float64(n)), SinkLWTs: int64(a.sink * float64(n)),
				Latency: latencies(t, rng, int(n), time.Duration(float64(a.threads)/a.rate*float64(time.Second))),
			})
		}
		if a.shards > 0 {
			for _, name := range []string{"enqueue to start", "start to done", "done to completed"} {
				arm.Parts = append(arm.Parts, BenchPart{Name: name, Latency: latencies(t, rng, 2000, 30*time.Millisecond)})
			}
		}
		b.Arms = append(b.Arms, arm)
	}
	offered := BenchSteady{
		ID: "rate-1000", Scenario: "1000 jobs/s offered", Rate: 1000, Shards: 4, For: 5 * time.Minute, Bucket: 10 * time.Second,
		Done: 299_000, LWTs: 60_000, Backlog: 31, Drained: 90 * time.Millisecond, Late: latencies(t, rng, 10_000, 20*time.Millisecond),
		Ended: latencies(t, rng, 10_000, 40*time.Millisecond),
	}
	full := BenchSteady{ID: "saturation", Scenario: "Saturation, 400 jobs open", Shards: 4, For: 5 * time.Minute, Bucket: 10 * time.Second,
		Done: 600_000, LWTs: 50_000}
	for i := range 30 {
		late := int64(20_000 * (1 + rng.Float64()))
		if i == 12 {
			late *= 40
		}
		offered.Buckets = append(offered.Buckets, BenchBucket{Seconds: 10, Done: 9900 + rng.Int64N(200), LateP50: late, LateP99: 4 * late,
			LateMax: 9 * late})
		full.Buckets = append(full.Buckets, BenchBucket{Seconds: 10, Done: int64(21_000 - 100*float64(i) + 800*rng.Float64())})
	}
	b.Steady = []BenchSteady{offered, full}
	return b
}

func TestWriteBenchOfJobs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if *samples != "" {
		dir = filepath.Join(*samples, "benchjobs")
		must(t, os.MkdirAll(dir, 0o755))
	}
	b := jobSample(t)
	must(t, WriteBench(dir, b))
	d := readPage(t, filepath.Join(dir, BenchPage))
	d.selfContained()
	// Ratios to the ceiling and to the baseline, scaling, latencies, rounds; and over
	// time two rates and a lateness.
	if n, over := d.count("figure", "charts"), d.count("figure", "steady"); n != 5 || over != 3 {
		t.Errorf("%d charts and %d over time, want 5 and 3", n, over)
	}
	page := text(d.root)
	has(t, page,
		"PASS", "MISS", "at least 8", "Ratio to baseline", "4 shards, 400 clients", "with the sink", "0.081", "enqueue to start",
		"1000 jobs/s offered for 5 min", "31 jobs open at its end, done 90 ms later", "from the first to the last fifth",
	)
	for _, no := range []string{"TTL", "Contention"} {
		if strings.Contains(page, no) {
			t.Errorf("the page has %q, of which no arm has anything", no)
		}
	}
	if lines := readCSV(t, filepath.Join(dir, BenchSteadyCSV)); len(lines) != 1+60 {
		t.Errorf("%d lines of buckets, want a head and 60", len(lines))
	}
	back, err := ReadBench(filepath.Join(dir, BenchFile))
	must(t, err)
	if len(back.Steady) != 2 || back.Steady[0].Buckets[7] != b.Steady[0].Buckets[7] || len(back.Targets) != 2 ||
		back.Arms[2].Parts[1] != b.Arms[2].Parts[1] {
		t.Error("bench.json does not read back")
	}
	ns, err := b.Numbers()
	must(t, err)
	for _, n := range ns {
		for what, c := range map[string]struct {
			of   string
			got  float64
			want float64
		}{"ceiling": {n.Arm.Ceiling, n.ToCeiling.Estimate.Median, 1500}, "baseline": {n.Arm.Baseline, n.ToBaseline.Estimate.Median, 180}} {
			if c.of == "" {
				continue
			}
			if want := n.Rate.Median / c.want; c.got < 0.85*want || c.got > 1.15*want {
				t.Errorf("%s by its %s: %v, want about %v", n.Arm.ID, what, c.got, want)
			}
		}
	}
	md, err := Results(Kept{Benches: keptBench(t, filepath.Join(dir, BenchFile))})
	must(t, err)
	has(t, md,
		"- **PASS** LWTs a job at saturation, without a sink, 4 shards: 0.083 [0.081, 0.085], wanted at most 0.10",
		"- **MISS** jobs/s by those of a lock", "- Saturation, 400 jobs open for 5 min", "| Scenario | Shards | Threads | ops/s |",
		"| jobs | 16 | 1600 |", "| Arm | Part | p50 |",
	)
}

func TestMalformedJobs(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(b *BenchResult){
		"no such baseline":    func(b *BenchResult) { b.Arms[2].Baseline = "nothing" },
		"its own baseline":    func(b *BenchResult) { b.Arms[2].Baseline = "J/4" },
		"a part without data": func(b *BenchResult) { b.Arms[2].Parts[1].Latency = "" },
		"a part of something": func(b *BenchResult) { b.Arms[2].Parts[1].Latency = "!" },
		"lateness of nothing": func(b *BenchResult) { b.Steady[0].Late = "!" },
	} {
		b := jobSample(t)
		spoil(&b)
		if err := WriteBench(t.TempDir(), b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestDecay(t *testing.T) {
	t.Parallel()
	buckets := func(done ...int64) (s BenchSteady) {
		for _, n := range done {
			s.Buckets = append(s.Buckets, BenchBucket{Seconds: 10, Done: n})
		}
		return s
	}
	for _, c := range []struct {
		load BenchSteady
		want float64
		ok   bool
	}{
		{buckets(), 0, false},
		{buckets(5, 5, 5, 5), 0, false},
		{buckets(0, 5, 5, 5, 5), 0, false},
		{buckets(100, 1, 1, 1, 75), 0.25, true},
		{buckets(100, 1, 1, 1, 150), -0.5, true},
		// Two buckets at each end.
		{buckets(100, 300, 1, 1, 1, 1, 1, 1, 1, 100, 200), 0.25, true},
	} {
		if got, ok := c.load.Decay(); got != c.want || ok != c.ok {
			t.Errorf("%v: %v, %v; want %v, %v", c.load.Buckets, got, ok, c.want, c.ok)
		}
	}
	short := buckets(100, 1, 1, 1, 50)
	short.Buckets[4].Seconds = 5
	if got, ok := short.Decay(); got != 0 || !ok {
		t.Errorf("a bucket of half the length with half the jobs: %v, %v", got, ok)
	}
}
