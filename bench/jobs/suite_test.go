package jobs

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"fencepost/bench"
	"fencepost/core/clock"
	"fencepost/core/sink"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store/sim"
	"fencepost/reports"
)

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"few rounds":        {Config: bench.Config{Rounds: 4}},
		"no shards":         {Shards: []int{0}},
		"many shards":       {Shards: []int{1000}},
		"shards twice":      {Shards: []int{4, 4}},
		"nothing in flight": {InFlight: -1},
		"too much":          {InFlight: 5000},
		"slow":              {Rate: 0.5},
		"fast":              {Rate: 1e9},
		"short load":        {Steady: 10 * time.Second},
		"nothing":           {NoRounds: true},
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
		ids = append(ids, a.ID)
	}
	want := []string{"C/32", "P", "J/4", "J/1", "J/16", "J2/4", "PS", "JS/4", "JS/1", "JS/16", "C/1", "J1/4"}
	if !slices.Equal(ids, want) {
		t.Errorf("arms %v, want %v", ids, want)
	}
	for _, a := range s.plan.Arms {
		for _, ref := range []string{a.Ceiling, a.Baseline, a.Control} {
			if _, err := s.plan.Arm(ref); ref != "" && err != nil {
				t.Errorf("%s refers to %q", a.ID, ref)
			}
		}
		if a.Control != "" {
			copied, _ := s.plan.Arm(a.Control)
			copied.ID, copied.Letter, copied.Name, copied.Control = a.ID, a.Letter, a.Name, a.Control
			if !reflect.DeepEqual(copied, a) {
				t.Errorf("the control %+v is no copy of %+v", a, copied)
			}
		}
	}
	// What is compared with one thread runs beside it.
	for n, order := range s.plan.Order {
		at := func(id string) int { return slices.Index(order, slices.Index(ids, id)) }
		if d := at("C/1") - at("J1/4"); d != 1 && d != -1 {
			t.Errorf("round %d: C/1 and J1/4 are %d apart", n, d)
		}
	}
	if d := s.Design().Estimate; d > 10*time.Minute {
		t.Errorf("the default plan takes %s", d)
	}
}

// TestWholeBenchmark runs arms, audit, targets and report without a cluster.
func TestWholeBenchmark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(sim.Faults{})
		s := newSuite(t, Config{})
		r, err := bench.Measure(t.Context(), s, w.env, bench.NewProgress(nil))
		if err != nil {
			t.Fatal(err)
		}
		if r.ExitCode() != bench.ExitOK {
			t.Errorf("problems %q, violations %q", r.Problems, r.Violations)
		}
		numbers, err := r.Numbers()
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range numbers {
			t.Logf("%-6s %5.0f/s  p50 %s  LWTs/op %.3f, %.3f with the sink", n.Arm.ID, n.Rate.Median, n.Quantile(50), n.LWTs.Median, n.AllLWTs.Median)
			checkArm(t, r.Plan.Arms[i], n)
		}
		for _, x := range r.Met {
			t.Log(x.Text())
			if !x.Met && !strings.HasPrefix(x.Name, "processor time") { // which is the store's too here
				t.Error("a store without contention misses a target")
			}
		}
		if len(r.Met) != 2*2+2+2 {
			t.Errorf("%d targets", len(r.Met))
		}
		written(t, r)
	})
}

// checkArm compares an arm with what follows from round trips of 40 ms and batches of
// 100 changes, a little more than 4 for a job.
func checkArm(t *testing.T, a bench.Arm, n reports.ArmNumbers) {
	t.Helper()
	near := func(what string, got, low, high float64) {
		if got < low || got > high {
			t.Errorf("%s: %s %v, want %v to %v", a.ID, what, got, low, high)
		}
	}
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	shards := float64(a.Shards)
	switch {
	case a.Kind == "cas":
		near("rate", n.Rate.Median, 23*float64(a.Threads), 26*float64(a.Threads))
		return
	case a.Threads == 1:
		// Enqueue and claim are one tick, and complete another.
		near("latency", ms(n.Quantile(50)), 70, 90)
		near("LWTs", n.LWTs.Median, 1.8, 2.3)
	default:
		low, high := 530*shards, 640*shards
		if a.Kind == kindEffects { // which take a round trip of their own
			low, high = 430*shards, 560*shards
		}
		near("rate", n.Rate.Median, low, high)
		near("LWTs", n.LWTs.Median, 0.039, 0.056) // a window cuts batches from their jobs
		near("share of the ceiling", n.ToCeiling.Median, low/800, high/800)
	}
	effects := 0.0
	if a.Kind == kindEffects {
		effects = 1
	}
	if got := n.AllLWTs.Median - n.LWTs.Median; got < effects-0.01 || got > effects+0.01 {
		t.Errorf("%s: %v LWTs of the sink, want %v", a.ID, got, effects)
	}
	sum := 0.0
	parts := n.Parts(50)
	for _, d := range parts {
		sum += ms(d)
	}
	near("sum of parts by the whole", sum/ms(n.Quantile(50)), 0.9, 1.1)
	if len(parts) != len(partNames) {
		t.Errorf("%s: parts %v", a.ID, parts)
	}
}

// written writes the report and the summary.
func written(t *testing.T, r *bench.Result) {
	t.Helper()
	report, err := r.Report(bench.About{Name: "test", Command: "the command"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := reports.WriteBench(dir, report); err != nil {
		t.Fatal(err)
	}
	if _, err := reports.ReadBench(filepath.Join(dir, reports.BenchFile)); err != nil {
		t.Error(err)
	}
	for _, a := range report.Arms {
		for _, round := range a.Rounds {
			if (round.Fair > 0) != (a.ID == "C/32") {
				t.Fatalf("%s has a fairness of %v", a.ID, round.Fair)
			}
		}
	}
	var out bytes.Buffer
	if err := bench.Print(&out, r, report); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"jobs, A/A copy", "JS/2, start to done", "without the sink", "PASS  LWTs a job at saturation, without a sink, 2 shards", "checked: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, &out)
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// oneWay is the mean way of a request or an answer, unless a test has another.
const oneWay = 20 * time.Millisecond

// countedSink takes as long as a store does, and counts calls as requests.
type countedSink struct {
	sink.Sink
	sent atomic.Int64
}

func (s *countedSink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	s.sent.Add(1)
	if err := clock.Go().Sleep(ctx, 2*oneWay); err != nil {
		return sink.Answer{}, err
	}
	return s.Sink.Accept(ctx, resource, issuer, token, e)
}

// world is a simulated cluster in a bubble of virtual time.
type world struct {
	session *sim.Session
	env     *bench.Env
}

func newWorld(faults sim.Faults) *world {
	session := sim.New().Connect("bench", 1)
	if faults.Latency == 0 {
		faults.Latency = oneWay
	}
	session.SetFaults(faults)
	effects := &countedSink{Sink: sinktest.NewMemory()}
	return &world{session: session, env: &bench.Env{
		Locks: session, Shards: session, Sink: effects, SinkLWTs: effects.sent.Load,
		Clock: clock.Go(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Seed: 1,
	}}
}

// newSuite returns a small suite without a rival, which needs a database.
func newSuite(t *testing.T, c Config) *Suite {
	t.Helper()
	c.withoutRival = true
	if c.Shards == nil {
		c.Shards = []int{2, 1}
	}
	if c.InFlight == 0 {
		c.InFlight = 100
	}
	if c.Rounds == 0 {
		c.Rounds, c.Window, c.Lead = 5, time.Second, 500*time.Millisecond
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestClaim: the headline compares arms that run.
func TestClaim(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Shards: []int{2, 8}})
	if err != nil {
		t.Fatal(err)
	}
	c := s.Design().Claim
	if c == nil || c.Arm != "J/2" || c.To != "P" || c.Setting != "2 shards" {
		t.Fatalf("%+v", c)
	}
	for _, id := range []string{c.Arm, c.To} {
		if _, err := s.Design().Plan.Arm(id); err != nil {
			t.Error(err)
		}
	}
	s, err = New(Config{NoRounds: true, Steady: time.Minute, Rate: 10})
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Design().Claim; c != nil {
		t.Errorf("without rounds it claims %+v", c)
	}
}
