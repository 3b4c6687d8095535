package jobs

import (
	"bytes"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/bench"
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
	for _, a := range s.Plan().Arms {
		ids = append(ids, a.ID)
	}
	want := []string{"C/32", "P", "J/4", "J/1", "J/16", "J2/4", "PS", "JS/4", "JS/1", "JS/16", "C/1", "J1/4"}
	if !slices.Equal(ids, want) {
		t.Errorf("arms %v, want %v", ids, want)
	}
	for _, a := range s.Plan().Arms {
		for _, ref := range []string{a.Ceiling, a.Baseline, a.Control} {
			if _, err := s.Plan().Arm(ref); ref != "" && err != nil {
				t.Errorf("%s refers to %q", a.ID, ref)
			}
		}
		if a.Control != "" {
			copied, _ := s.Plan().Arm(a.Control)
			copied.ID, copied.Letter, copied.Name, copied.Control = a.ID, a.Letter, a.Name, a.Control
			if !reflect.DeepEqual(copied, a) {
				t.Errorf("the control %+v is no copy of %+v", a, copied)
			}
		}
	}
	// What is compared with one thread runs beside it.
	for n, order := range s.Plan().Order {
		at := func(id string) int { return slices.Index(order, slices.Index(ids, id)) }
		if d := at("C/1") - at("J1/4"); d != 1 && d != -1 {
			t.Errorf("round %d: C/1 and J1/4 are %d apart", n, d)
		}
	}
	if d := s.Estimate(); d > 10*time.Minute {
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
		rows, err := r.Rows()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			t.Logf("%-6s %5.0f/s  p50 %4.0f ms  LWTs/op %.3f, %.3f with the sink", row.Arm.ID, row.Rate.Median, row.P50.All, row.LWTs.Median, row.AllLWTs.Median)
			checkRow(t, row)
		}
		for _, x := range r.Targets {
			t.Log(x.Text())
			if !x.Met {
				t.Error("a store without contention misses a target")
			}
		}
		if len(r.Targets) != 2+2+2 {
			t.Errorf("%d targets", len(r.Targets))
		}
		written(t, r)
	})
}

// checkRow compares an arm with what follows from round trips of 40 ms and batches of
// 100 changes, 8 for a job.
func checkRow(t *testing.T, row bench.Row) {
	t.Helper()
	near := func(what string, got, low, high float64) {
		if got < low || got > high {
			t.Errorf("%s: %s %v, want %v to %v", row.Arm.ID, what, got, low, high)
		}
	}
	shards := float64(row.Arm.Shards)
	switch {
	case row.Arm.Kind == "cas":
		near("rate", row.Rate.Median, 23*float64(row.Arm.Threads), 26*float64(row.Arm.Threads))
		return
	case row.Arm.Threads == 1:
		// Enqueue, claim and complete are a tick each.
		near("latency", row.P50.All, 110, 130)
		near("LWTs", row.LWTs.Median, 2.6, 3.4)
	default:
		near("rate", row.Rate.Median, 270*shards, 330*shards)
		near("LWTs", row.LWTs.Median, 0.075, 0.1) // a window cuts batches from their jobs
		near("share of the ceiling", row.Ratio.Median, 270*shards/800, 330*shards/800)
	}
	effects := 0.0
	if row.Arm.Kind == kindEffects {
		effects = 1
	}
	if got := row.AllLWTs.Median - row.LWTs.Median; got < effects-0.01 || got > effects+0.01 {
		t.Errorf("%s: %v LWTs of the sink, want %v", row.Arm.ID, got, effects)
	}
	sum := 0.0
	for _, p := range row.Parts {
		sum += p.P50.All
	}
	near("sum of parts by the whole", sum/row.P50.All, 0.9, 1.1)
	if len(row.Parts) != len(partNames) {
		t.Errorf("%s: parts %v", row.Arm.ID, row.Parts)
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
	if err := bench.Print(&out, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"J2  jobs, A/A copy", "JS/2, start to done", "with sink", "PASS  LWTs a job at saturation, without a sink, 2 shards", "checked: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, &out)
		}
	}
}
