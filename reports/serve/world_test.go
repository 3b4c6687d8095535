package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/progress"
	"fencepost/harness/record/rundir"
	"fencepost/reports"
	"fencepost/reports/measure"
)

// began is when the runs of tests began.
var began = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// spec is a run's directory to make; zero values are those of an ordinary run.
type spec struct {
	name, scenario, system, contention, verdict string
	seed                                        uint64
	at                                          time.Duration // of the begin, after began
	slow                                        float64       // factor of its latencies
}

// makeRun writes a run's directory with everything that pages read.
func makeRun(t testing.TB, runs string, s spec) string {
	t.Helper()
	or := func(v *string, d string) {
		if *v == "" {
			*v = d
		}
	}
	or(&s.scenario, "kill-worker")
	or(&s.system, "core")
	or(&s.contention, "medium")
	or(&s.name, fmt.Sprintf("20261121-%s-%s-%d", began.Add(s.at).Format("150405"), s.scenario, s.seed))
	if s.slow == 0 {
		s.slow = 1
	}
	dir := filepath.Join(runs, filepath.FromSlash(s.name))
	for _, d := range []string{rundir.HistoryDir, rundir.LogDir, reports.PlotDir} {
		must(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	info := rundir.Info{
		Run: filepath.Base(s.name), Scenario: s.scenario, About: "A worker is killed.", Seed: s.seed, System: s.system, Cluster: "local",
		Contention: s.contention,
		Workers:    4, Clients: 3, Locks: 10, TTL: 6 * time.Second, Hold: 20 * time.Millisecond, Started: began.Add(s.at),
		Ended:   began.Add(s.at + 40*time.Second),
		Command: "make chaos SCENARIO=" + s.scenario, Versions: map[string]string{"fencepost": "0123456789ab", "cassandra": "5.0.6"},
		Machine: map[string]string{"cores": "2"},
	}
	write(t, filepath.Join(dir, rundir.InfoFile), asJSON(t, info))
	write(t, filepath.Join(dir, rundir.HistoryDir, "w1.1.jsonl"), "{}\n")
	write(t, filepath.Join(dir, rundir.LogDir, "w1.1.log"), "killed\n")
	write(t, filepath.Join(dir, rundir.ReportFile), "<!DOCTYPE html><title>report</title>")
	if s.verdict == "" {
		return dir
	}
	v := checker.Result{
		Version: 1, Run: info.Run, Verdict: checker.Verdict(s.verdict), Summary: "what it means", Millis: 250,
		Properties: []checker.Property{{ID: "P1", Title: "one holder", Status: checker.StatusPass, Checked: 900},
			{ID: "P3", Title: "fenced", Status: checker.StatusPass, Checked: 800}},
		Counts: checker.Counts{Events: 5000, Operations: 2000, Cycles: 400 + int(s.seed), Grants: 401, Takeovers: 3, Effects: 399,
			Faults: 1, FaultsProven: 1, Unknowns: 7},
		Recovery: &checker.Recovery{Faults: []checker.FaultRecovery{{ID: "f1", Name: "kill-worker", FirstMS: 20 * s.slow,
			SlowestMS: 900 * s.slow, SlowestLock: "lock-1", Locks: 10}}},
	}
	if s.verdict == "FAIL" {
		v.Properties[1].Status, v.Properties[1].Count = checker.StatusFail, 4
	}
	write(t, filepath.Join(dir, rundir.VerdictFile), asJSON(t, v))
	ms := func(f float64) time.Duration { return time.Duration(f * s.slow * 1e6) }
	write(t, filepath.Join(dir, reports.JSONFile), asJSON(t, reports.Report{
		Version: 1, Info: info, Verdict: v.Verdict, Counts: v.Counts,
		Latencies: []measure.Latency{
			{Op: history.OpLock, Phase: history.PhaseBefore, OK: 500, P50: ms(4), P95: ms(8), P99: ms(10), Max: ms(12)},
			{Op: history.OpLock, Phase: history.PhaseFault, OK: 500, P50: ms(5), P95: ms(80), P99: ms(100), Max: ms(900)},
			{Op: history.OpLock, Phase: measure.AllPhases, OK: 1000, P50: ms(4), P95: ms(60), P99: ms(90), Max: ms(900)},
		},
		Faults: []reports.ReportFault{{ID: "f1", Name: "kill-worker", Targets: []string{"w1"}, Trigger: "at 500ms", From: 8, To: 9.5,
			Proven: true, Evidence: []string{"w1 is gone"}}},
	}))
	write(t, filepath.Join(dir, reports.TimelineFile),
		"start_s,seconds,phase,cycles,ok\n0.000,1.000,before,50,150\n1.000,1.000,before,50,150\n2.000,1.000,fault,20,60\n3.000,1.000,fault,20,60\n")
	ops := "proc,id,op,phase,latency_ms,outcome\n"
	for i := range 200 {
		ops += fmt.Sprintf("w1.1/c1,%d,lock,fault,%.3f,ok\n", i, (1+float64(i))*s.slow)
	}
	write(t, filepath.Join(dir, reports.OperationsFile), ops+"w1.1/c1,201,lock,fault,,unknown\nharness,1,lock,fault,1.000,ok\n")
	return dir
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return string(b)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// goesOn begins a run that goes on, as the runner does, and returns its log.
func goesOn(t *testing.T, runs, name string) (*progress.Log, string) {
	t.Helper()
	dir := makeRun(t, runs, spec{name: name, scenario: "partition", at: time.Hour, seed: 9})
	must(t, os.Remove(filepath.Join(dir, rundir.ReportFile)))
	l := progress.New(nil)
	must(t, l.Begin(filepath.Join(dir, rundir.ProgressFile), progress.Run{Name: name, Scenario: "partition", Seed: 9, System: "core",
		Contention: "medium", Backend: "local", Dir: dir}))
	t.Cleanup(func() { _ = l.Close() })
	return l, dir
}

// halfWay is what a run tells until the middle of its faults.
func halfWay(l *progress.Log) {
	l.Step("setting up")
	for _, p := range []string{"warmup", "before", "fault"} {
		l.Emit(progress.Event{Kind: progress.KindPhase, Phase: p})
		l.Emit(progress.Event{Kind: progress.KindRates, Rates: &progress.Rates{Phase: p, Cycles: 120, PerSecond: 40, Unknown: 2, Refused: 1}})
	}
	f := history.Fault{ID: "f1", Name: "partition", Action: history.ActionInject, Targets: []string{"n2"}, Trigger: "at 500ms"}
	l.Emit(progress.Event{Kind: progress.KindFault, Fault: &f})
}

// handler is the server's handler with what it serves.
func handler(t *testing.T, runs string) *Server {
	t.Helper()
	s, err := New(Options{Runs: runs, Version: "0123456789ab"})
	must(t, err)
	return s
}

// get asks the handler as a browser on this machine would.
func get(t *testing.T, s http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:7070/", nil)
	raw, query, _ := strings.Cut(path, "?")
	r.URL.Path, r.URL.RawQuery = raw, query
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// page is the body of an answer that must be 200.
func page(t *testing.T, s http.Handler, path string) string {
	t.Helper()
	w := get(t, s, path)
	b, err := io.ReadAll(w.Result().Body)
	must(t, err)
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d\n%s", path, w.Code, b)
	}
	return string(b)
}

// has fails unless a text has every part.
func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("there is no %q in %d bytes of text; -v shows them", p, len(text))
			if testing.Verbose() {
				t.Logf("%s", text)
			}
		}
	}
}

func hasNot(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(text, p) {
			t.Errorf("there is a %q", p)
		}
	}
}

// runTests runs the tests, and ends what they share, such as a browser.
var runTests = (*testing.M).Run

func TestMain(m *testing.M) {
	code := runTests(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}
