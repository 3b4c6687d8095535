package reports

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/reports/measure"
	"fencepost/reports/reporttest"
)

// TestJobRun: the first screen of a run with jobs speaks of jobs and shards, and that
// of a run without them as it did.
func TestJobRun(t *testing.T) {
	t.Parallel()
	a, err := measure.Analyze(&history.History{})
	must(t, err)
	for _, c := range []struct {
		info       rundir.Info
		counts     checker.Counts
		has, lacks string
	}{
		{
			rundir.Info{Workers: 4, Contention: "medium", Shards: 8, JobRate: 40, TTL: time.Second, Versions: map[string]string{"cassandra": "5.0.6"}},
			checker.Counts{Cycles: 3, LeasesLost: 2, Effects: 7, Jobs: &checker.JobCounts{Completed: 5, Enqueued: 6, Rescued: 1, Starts: 9}},
			"store cassandra 5.0.6|medium (8 shards)|4 schedulers, 40 jobs/s|5 jobs completed of 6 enqueued|7 effects accepted 9 starts|1 runs rescued, trust lost " +
				"2 times", "hold time|lock cycles|leases lost",
		},
		{
			rundir.Info{System: "lock-per-job", Workers: 4, Contention: "medium", Shards: 8, JobRate: 40, TTL: time.Second},
			checker.Counts{Takeovers: 2, Grants: 8, Effects: 7, Jobs: &checker.JobCounts{Completed: 5, Enqueued: 6, Starts: 9}},
			"medium (8 buckets)|4 schedulers, 40 jobs/s|5 jobs completed of 6 enqueued|2 takeovers of 8 grants", "shard|rescued|store",
		},
		{
			rundir.Info{Workers: 4, Clients: 3, Contention: "high", Locks: 1, TTL: time.Second, Versions: map[string]string{"store": "zookeeper", "zookeeper": "3.9.3"}},
			checker.Counts{Cycles: 3, LeasesLost: 2}, "store zookeeper 3.9.3|high (1 lock)|4 × 3 clients|hold time|3 lock cycles|2 leases lost", "shards|jobs",
		},
	} {
		r := &run{Info: c.info, haveInfo: true, Analysis: a, Verdict: &checker.Result{Counts: c.counts}}
		var text []string
		for _, f := range r.Facts() {
			text = append(text, f.Name+" "+f.Value)
		}
		tiles := r.Tiles()
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

// A process that died is shown with what it printed, from the first line that tells of an
// error, and with its log.
func TestDeadProcessIsShownWithItsStack(t *testing.T) {
	t.Parallel()
	dir, err := reporttest.Write(t.TempDir(), reporttest.Options{Seed: 2})
	must(t, err)
	h, err := history.ReadDir(filepath.Join(dir, rundir.HistoryDir))
	must(t, err)
	code := 2
	note, err := json.Marshal(history.Event{TS: h.Events[len(h.Events)-1].TS, Proc: history.Harness, Type: history.Note,
		Op: history.NoteLife, Details: &history.Details{Life: &history.ProcessLife{
			Kind: history.LifeWorker, Name: "w2.1", PID: 41, Code: &code,
			Log: []string{"panic: index <41> out of range", "goroutine 7 [running]:"}, LogFile: "w2.1.log",
		}}})
	must(t, err)
	f, err := os.OpenFile(filepath.Join(dir, rundir.HistoryDir, "harness.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	if _, err := f.Write(append(note, '\n')); err != nil {
		t.Fatal(err)
	}
	must(t, f.Close())
	h, err = history.ReadDir(filepath.Join(dir, rundir.HistoryDir))
	must(t, err)
	res := checker.Check(t.Context(), h, checker.Options{Dir: dir})
	must(t, rundir.WriteJSON(filepath.Join(dir, rundir.VerdictFile), res))
	d := reported(t, dir)
	d.selfContained()
	shown := text(d.byID("violation-P18-1"))
	has(t, shown, "ended by itself (exit status 2): nobody had asked it to", "w2.1: exit status 2", "What it printed (w2.1.log)",
		"panic: index <41> out of range goroutine 7 [running]:")
	if cause := text(d.byID("cause")); !strings.Contains(cause, "A process panics while it works") {
		t.Errorf("the cause is %s", cause)
	}
}

func TestRecovery(t *testing.T) {
	t.Parallel()
	const section = "<h3>Recovery</h3>"
	show := func(verdict *checker.Result) string {
		t.Helper()
		info := rundir.Info{Notes: []string{"the nodes are not under control"}}
		html, err := render("run.html", page{run: &run{Info: info, Verdict: verdict, Analysis: &measure.Analysis{}}})
		must(t, err)
		return string(html)
	}
	html := show(&checker.Result{Recovery: &checker.Recovery{
		Orphans: 3, Judged: 2, NotJudged: map[string]int{"nobody waited": 1}, MaxTTL: 1.5, P50TTL: 1.1,
		Faults: []checker.FaultRecovery{{ID: "f1", Name: "partition", FirstMS: 12, SlowestMS: 3400, SlowestLock: "lock-<7>", Locks: 4},
			{ID: "f2", Name: "kill-worker"}},
	}})
	has(t, html,
		"3 grants ended without a release; 2 could", "1.10 TTL (p50), 1.50 TTL at most", "Not judged 1: nobody waited.",
		section, `<td class="n">12 ms</td><td class="n">3.4 s</td><td class="mono">lock-&lt;7&gt;</td>`, "none followed",
		"<li>The nodes are not under control.</li>", // what to know of the cluster,
	)
	for _, none := range []*checker.Result{nil, {}, {Recovery: &checker.Recovery{}}} {
		if strings.Contains(show(none), section) {
			t.Errorf("a page without recovery has the section: %+v", none)
		}
	}
}
