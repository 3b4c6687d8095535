package reporttest

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/internal/race"
)

// TestRunsAreWhatWasAsked: histories pass the real reader and hold what the
// options promise; without the option they do not.
func TestRunsAreWhatWasAsked(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for _, tc := range []struct {
		name                    string
		o                       Options
		faults, takeovers, lost bool
		violations              bool
	}{
		{"steady", Options{Seed: 1, Verdict: "PASS"}, false, false, false, false},
		{"paused", Options{Seed: 1, Fault: "pause-worker", Verdict: "PASS"}, true, true, true, false},
		{"killed", Options{Seed: 5, Fault: "kill-worker", Verdict: "PASS"}, true, true, false, false},
		{"broken sink", Options{Seed: 2, Fault: "pause-worker", Broken: SinkNoTokenCheck, Verdict: "FAIL"}, true, true, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir, err := Write(t.TempDir(), tc.o)
			if err != nil {
				t.Fatal(err)
			}
			h, err := history.ReadDir(filepath.Join(dir, rundir.HistoryDir))
			if err != nil {
				t.Fatal(err)
			}
			var takeovers, lost bool
			for _, e := range h.Events {
				takeovers = takeovers || e.Takeover
				lost = lost || e.Op == history.NoteLeaseLost
			}
			if got := len(h.Faults()) > 0; got != tc.faults {
				t.Errorf("faults: %v", got)
			}
			if takeovers != tc.takeovers || lost != tc.lost {
				t.Errorf("takeovers %v, leases lost %v; want %v, %v", takeovers, lost, tc.takeovers, tc.lost)
			}
			if got := len(staleAccepts(h)) > 0; got != tc.violations {
				t.Errorf("stale accepts: %v, want %v", got, tc.violations)
			}
			if _, err := Write(filepath.Dir(dir), tc.o); err == nil {
				t.Error("a run's directory was written twice")
			}
		})
	}
}

// TestJobs: the shards of the scheduler that is killed are taken over.
func TestJobs(t *testing.T) {
	t.Parallel()
	dir, err := WriteJobs(t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	h, err := history.ReadDir(filepath.Join(dir, rundir.HistoryDir))
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, op := range h.Operations() {
		if op.Invoke.Op == history.OpTake && op.Invoke.To.Fence > 1 {
			n["takeover"]++
		}
		n[string(op.Invoke.Op)]++
	}
	for _, op := range h.JobSpans() {
		n[string(op.Invoke.Op)+" "+string(op.Outcome)]++
	}
	if n["takeover"] != 1 || n["enqueue"] < 100 || n["run ok"] < 100 || n["run fail"] == 0 || len(h.Faults()) != 1 {
		t.Errorf("%v", n)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
