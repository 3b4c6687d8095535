package reports

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/reports/measure"
)

// TestJobRun: the first screen of a run with jobs speaks of jobs and shards, and that
// of a run without them as it did.
func TestJobRun(t *testing.T) {
	t.Parallel()
	a, err := measure.Analyze(&history.History{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		info       rundir.Info
		counts     checker.Counts
		has, lacks string
	}{
		{
			rundir.Info{Workers: 4, Contention: "medium", Shards: 8, JobRate: 40, TTL: time.Second},
			checker.Counts{Cycles: 3, LeasesLost: 2, Effects: 7, Jobs: &checker.JobCounts{Completed: 5, Enqueued: 6, Rescued: 1, Starts: 9}},
			"medium (8 shards)|4 schedulers, 40 jobs/s|5 jobs completed of 6 enqueued|7 effects accepted 9 starts|1 runs rescued, trust lost 2 times", "hold time|lock cycles|leases lost",
		},
		{
			rundir.Info{System: "lock-per-job", Workers: 4, Contention: "medium", Shards: 8, JobRate: 40, TTL: time.Second},
			checker.Counts{Takeovers: 2, Grants: 8, Effects: 7, Jobs: &checker.JobCounts{Completed: 5, Enqueued: 6, Starts: 9}},
			"medium (8 buckets)|4 schedulers, 40 jobs/s|5 jobs completed of 6 enqueued|2 takeovers of 8 grants", "shard|rescued",
		},
		{
			rundir.Info{Workers: 4, Clients: 3, Contention: "high", Locks: 1, TTL: time.Second},
			checker.Counts{Cycles: 3, LeasesLost: 2}, "high (1 lock)|4 × 3 clients|hold time|3 lock cycles|2 leases lost", "shards|jobs",
		},
	} {
		r := &run{info: c.info, haveInfo: true, analysis: a, verdict: &checker.Result{Counts: c.counts}}
		var text []string
		for _, f := range r.facts() {
			text = append(text, f.Name+" "+f.Value)
		}
		tiles := r.tiles()
		for _, t := range tiles {
			text = append(text, t.Value+" "+t.Name+" "+t.Note)
		}
		all := strings.Join(text, "\n")
		for want := range strings.SplitSeq(c.has, "|") {
			if !strings.Contains(all, want) {
				t.Errorf("%q is not in\n%s", want, all)
			}
		}
		for not := range strings.SplitSeq(c.lacks, "|") {
			if strings.Contains(all, not) {
				t.Errorf("%q is in\n%s", not, all)
			}
		}
		if n := len(tiles); n != 6 || !slices.ContainsFunc(tiles, func(t tile) bool { return t.Name == "faults proven" }) {
			t.Errorf("%d tiles:\n%s", n, all)
		}
	}
}
