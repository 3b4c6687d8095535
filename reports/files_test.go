package reports

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/html"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/reports/reporttest"
)

func TestIncompleteRuns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
		says  string
	}{
		{"no run.json", func(t *testing.T, dir string) { remove(t, dir, rundir.InfoFile) }, "what was run is not known"},
		{"torn run.json", func(t *testing.T, dir string) { write(t, dir, rundir.InfoFile, "{") }, "run.json"},
		{"torn verdict.json", func(t *testing.T, dir string) { write(t, dir, rundir.VerdictFile, "{") }, "the verdict cannot be read"},
		{"malformed history", func(t *testing.T, dir string) { write(t, dir, "history/w1.1.jsonl", "nonsense\n") }, "w1.1.jsonl:1"},
		{"no history", func(t *testing.T, dir string) {
			must(t, os.RemoveAll(filepath.Join(dir, rundir.HistoryDir)))
		}, "the history cannot be read"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := makeRun(t, reporttest.Options{Seed: 4, Fault: "pause-worker", Verdict: "PASS"})
			tc.spoil(t, dir)
			path, err := WriteRun(context.Background(), dir)
			var inc *IncompleteError
			if !errors.As(err, &inc) || path == "" {
				t.Fatalf("path %q, error %v, want a path and an *IncompleteError", path, err)
			}
			d := readPage(t, path)
			d.selfContained()
			if s := text(d.root); !strings.Contains(s, "This report is incomplete") || !strings.Contains(s, tc.says) {
				t.Errorf("the page does not say %q", tc.says)
			}
			if strings.Contains(d.raw, filepath.Dir(dir)) {
				t.Error("the page names a directory of this machine")
			}
		})
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	must(t, os.Remove(filepath.Join(dir, name)))
}

func write(t *testing.T, dir, name, s string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, name), []byte(s), 0o644))
}

func TestNoRun(t *testing.T) {
	t.Parallel()
	if _, err := WriteRun(context.Background(), t.TempDir()); !errors.Is(err, ErrNoRun) {
		t.Errorf("an empty directory: %v, want ErrNoRun", err)
	}
	if _, err := WriteRun(context.Background(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v, want ErrNotExist", err)
	}
	file := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(file, nil, 0o644))
	if _, err := WriteRun(context.Background(), file); err == nil {
		t.Error("a file passed for a directory")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := WriteRun(ctx, makeRun(t, reporttest.Options{Seed: 1})); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestShortHistories: a run that ended before anything happened has a page too.
func TestShortHistories(t *testing.T) {
	t.Parallel()
	head := `{"format":"fencepost-history","version":1,"run":"r","proc":"harness","pid":1,"host":"h","boot_id":"b","wall_time":"2025-01-01T00:00:00Z","ts":1,"drift_bound":0.01,"margin_base_ms":100}` + "\n"
	for name, body := range map[string]string{
		"header only": "",
		"one phase":   `{"ts":5,"proc":"harness","type":"note","op":"phase","phase":"warmup"}` + "\n",
		"one invoke":  `{"ts":5,"proc":"harness","id":1,"type":"invoke","op":"get","key":"r"}` + "\n",
		"one instant": `{"ts":5,"proc":"harness","id":1,"type":"invoke","op":"get","key":"r"}` + "\n" +
			`{"ts":5,"proc":"harness","id":1,"type":"ok","op":"get","key":"r","value":0}` + "\n",
		"one ns": `{"ts":5,"proc":"harness","id":1,"type":"invoke","op":"get","key":"r"}` + "\n" +
			`{"ts":6,"proc":"harness","id":1,"type":"ok","op":"get","key":"r","value":0}` + "\n",
		"a fault only": `{"ts":5,"proc":"harness","type":"note","op":"fault","fault":{"id":"f1","name":"partition","action":"inject"}}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must(t, os.Mkdir(filepath.Join(dir, rundir.HistoryDir), 0o755))
			write(t, dir, "history/harness.jsonl", head+body)
			must(t, rundir.WriteJSON(filepath.Join(dir, rundir.InfoFile), rundir.Info{Run: "r"}))
			path, err := WriteRun(context.Background(), dir)
			must(t, err)
			readPage(t, path).selfContained()
		})
	}
}

// TestHostileText: whatever a file says, it stays text.
func TestHostileText(t *testing.T) {
	t.Parallel()
	evil := `</script><script>alert(1)</script><img src=x onerror=alert(2)>"'` + "`"
	dir := makeRun(t, reporttest.Options{Seed: 2, Fault: "pause-worker", Verdict: "FAIL", Broken: reporttest.SinkNoTokenCheck, Locks: 3,
		Hold: 200 * time.Millisecond, TTL: 4 * time.Second})
	info, err := rundir.ReadInfo(dir)
	must(t, err)
	info.Scenario, info.Command, info.Run = evil, evil, evil
	info.Versions = map[string]string{evil: evil}
	must(t, rundir.WriteJSON(filepath.Join(dir, rundir.InfoFile), info))
	var res checker.Result
	b, err := os.ReadFile(filepath.Join(dir, rundir.VerdictFile))
	must(t, err)
	must(t, json.Unmarshal(b, &res))
	res.Summary = evil
	for i := range res.Properties {
		p := &res.Properties[i]
		p.Title, p.Detail, p.Visualization, p.Encodings = evil, evil, "javascript:alert(3)", map[string]string{evil: evil}
		for j := range p.Violations {
			v := &p.Violations[j]
			v.Message, v.Key = evil, evil
			for k := range v.Events {
				v.Events[k].File = "../../" + evil
				v.Events[k].Event.Error, v.Events[k].Event.Proc = evil, evil
			}
		}
	}
	must(t, rundir.WriteJSON(filepath.Join(dir, rundir.VerdictFile), res))
	d := reported(t, dir)
	d.selfContained()
	d.each("", func(n *html.Node) {
		switch {
		case n.Data == "img":
			t.Error("an element was injected")
		case n.Data == "script" && strings.Contains(text(n), "alert(1)") && attrOf(n, "type") == "":
			t.Error("a script was injected")
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") {
				t.Errorf("a handler was injected: %s", a.Key)
			}
		}
	})
}

func TestCSVAndJSON(t *testing.T) {
	t.Parallel()
	dir := makeRun(t, reporttest.Options{Seed: 1, Fault: "pause-worker", Verdict: "PASS"})
	if _, err := WriteRun(context.Background(), dir); err != nil {
		t.Fatal(err)
	}
	h, err := history.ReadDir(filepath.Join(dir, rundir.HistoryDir))
	must(t, err)
	rows := readCSV(t, filepath.Join(dir, OperationsFile))
	if want := len(h.Operations()); len(rows)-1 != want {
		t.Errorf("%s has %d operations, want %d", OperationsFile, len(rows)-1, want)
	}
	var rep Report
	b, err := os.ReadFile(filepath.Join(dir, JSONFile))
	must(t, err)
	must(t, json.Unmarshal(b, &rep))
	if rep.Verdict != checker.Pass || len(rep.Faults) != 1 || !rep.Faults[0].Proven || len(rep.Takeovers) == 0 {
		t.Errorf("report.json: verdict %s, faults %+v, %d takeovers", rep.Verdict, rep.Faults, len(rep.Takeovers))
	}
	lat := readCSV(t, filepath.Join(dir, LatencyFile))
	if len(lat)-1 != len(rep.Latencies) {
		t.Errorf("%s has %d rows, report.json %d", LatencyFile, len(lat)-1, len(rep.Latencies))
	}
	cycles := 0
	tl := readCSV(t, filepath.Join(dir, TimelineFile))
	col := slices.Index(tl[0], "cycles")
	for _, r := range tl[1:] {
		var n int
		must(t, json.Unmarshal([]byte(r[col]), &n))
		cycles += n
	}
	if cycles != rep.Counts.Cycles {
		t.Errorf("%s counts %d cycles, the checker %d", TimelineFile, cycles, rep.Counts.Cycles)
	}
}

func readCSV(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	r := csv.NewReader(f)
	var out [][]string
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		must(t, err)
		out = append(out, row)
	}
}

var samples = flag.String("samples", "", "write sample runs with their reports to this directory, to look at them")

// sampleRuns are the runs that the pages are looked at with.
var sampleRuns = []reporttest.Options{
	{Seed: 1, Fault: "pause-worker", Verdict: "PASS", Phase: 12 * time.Second, TTL: 4 * time.Second},
	{Seed: 2, Fault: "pause-worker", Verdict: "FAIL", Broken: reporttest.SinkNoTokenCheck, Locks: 3, Phase: 10 * time.Second,
		TTL: 4 * time.Second, Hold: 200 * time.Millisecond},
	{Seed: 3, Fault: "pause-worker", Verdict: "FAIL", Broken: reporttest.TwoHolders, Locks: 3, Phase: 10 * time.Second,
		TTL: 4 * time.Second, Hold: 200 * time.Millisecond},
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
	must(t, os.MkdirAll(*samples, 0o755))
	for _, o := range sampleRuns {
		dir, err := reporttest.Write(*samples, o)
		must(t, err)
		began := time.Now()
		path, err := WriteRun(context.Background(), dir)
		must(t, err)
		st, err := os.Stat(path)
		must(t, err)
		t.Logf("%s: %d kB in %s", filepath.Base(dir), st.Size()/1000, time.Since(began).Round(time.Millisecond))
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
