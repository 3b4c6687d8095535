package jobs

import (
	"strings"
	"testing"
	"testing/synctest"

	"fencepost/core/store/sim"
	"fencepost/harness/bench"
)

// TestWholeBenchmark runs the arms, the audit and the targets without a cluster.
func TestWholeBenchmark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(sim.Faults{})
		r := w.measure(t, newSuite(t, Config{}))
		if r.ExitCode() != bench.ExitOK {
			t.Errorf("problems %q, violations %q", r.Problems, r.Violations)
		}
		rows, err := r.Rows()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			t.Logf("%-6s %7.0f/s  p50 %.0f ms  %.3f LWTs/op, %.3f with the sink  %v", row.Arm.ID, row.Rate.Median, row.P50.All, row.LWTs.Median, row.AllLWTs.Median, row.Parts)
		}
		for _, x := range r.Targets {
			t.Log(x.Text())
		}
		t.Log(strings.Join(r.Notes, "\n"))
	})
}
