package reports

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/reports/reporttest"
)

var samples = flag.String("samples", "", "write sample runs with their reports to this directory, to look at them")

// sampleRuns are the runs that the pages are looked at with.
var sampleRuns = []reporttest.Options{
	{Seed: 1, Fault: "pause-worker", Verdict: "PASS", Phase: 12 * time.Second, TTL: 4 * time.Second},
	{Seed: 2, Fault: "pause-worker", Verdict: "FAIL", Broken: reporttest.SinkNoTokenCheck, Locks: 3, Phase: 10 * time.Second, TTL: 4 * time.Second, Hold: 200 * time.Millisecond},
	{Seed: 3, Fault: "pause-worker", Verdict: "FAIL", Broken: reporttest.TwoHolders, Locks: 3, Phase: 10 * time.Second, TTL: 4 * time.Second, Hold: 200 * time.Millisecond},
	{Seed: 4, Fault: "pause-worker", Verdict: "INVALID", Unproven: true},
	{Seed: 5, Fault: "kill-worker", Verdict: "UNKNOWN"},
	{Seed: 6, Verdict: "PASS", Locks: 1},
	{Seed: 7, Fault: "lost-replies"},
	{Seed: 8, Fault: "pause-worker", Verdict: "PASS", Phase: 12 * time.Second, Workers: 8, Clients: 6, Locks: 48},
}

func TestSamples(t *testing.T) {
	if *samples == "" {
		t.Skip("give -samples DIR to write sample reports")
	}
	if err := os.MkdirAll(*samples, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, o := range sampleRuns {
		dir, err := reporttest.Write(*samples, o)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		path, err := WriteRun(context.Background(), dir)
		if err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d kB in %s", filepath.Base(dir), st.Size()/1000, time.Since(began).Round(time.Millisecond))
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
