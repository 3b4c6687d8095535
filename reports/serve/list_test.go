package serve

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/harness/record/progress"
	"fencepost/harness/record/rundir"
	"fencepost/reports"
	"fencepost/reports/measure"
)

// names are the runs that the list at path shows, in order.
func names(t *testing.T, s *Server, path string) (out []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`name="run" value="([^"]+)"`).FindAllStringSubmatch(page(t, s, path), -1) {
		out = append(out, m[1])
	}
	return out
}

func TestList(t *testing.T) {
	runs := t.TempDir()
	for i, x := range []spec{
		{name: "a", verdict: "PASS", seed: 3},
		{name: "b", verdict: "FAIL", seed: 1, scenario: "pause-worker", system: "broken/no-fence"},
		{name: "c", verdict: "INVALID", seed: 2, contention: "high"},
		{name: "d", seed: 4},
		{name: "e", verdict: "PASS", seed: 5},
	} {
		x.at = time.Duration(i) * 20 * time.Hour
		makeRun(t, runs, x)
	}
	makeRun(t, runs, spec{name: "soak/f", verdict: "PASS", seed: 6, at: -time.Hour})
	write(t, filepath.Join(runs, "a", rundir.VerdictFile), "{torn")
	must(t, os.MkdirAll(filepath.Join(runs, "not-a-run"), 0o755))
	s := handler(t, runs)
	for path, want := range map[string]string{
		"/":                                 "e d c b a soak/f",
		"/?sort=seed":                       "b c a d e soak/f",
		"/?sort=-seed":                      "soak/f e d a c b",
		"/?sort=verdict":                    "b c a d e soak/f",
		"/?sort=started":                    "soak/f a b c d e",
		"/?verdict=PASS":                    "e soak/f",
		"/?verdict=NOT+CHECKED":             "d",
		"/?verdict=UNREADABLE":              "a",
		"/?contention=high":                 "c",
		"/?system=broken%2Fno-fence":        "b",
		"/?scenario=kill-worker":            "e d c a soak/f",
		"/?scenario=kill-worker&seed=1":     "e d c a soak/f", // no filter of ours
		"/?backend=up":                      "",
		"/?q=P3":                            "b",
		"/?q=no-fence+pause":                "b",
		"/?q=NO-FENCE+partition":            "",
		"/?q=seed%3D5":                      "e",
		"/?q=soak":                          "soak/f",
		"/?from=2026-11-23":                 "e d c",
		"/?to=2026-11-21":                   "a soak/f",
		"/?from=2026-11-22&to=2026-11-22":   "b",
		"/?commit=0123456789ab&verdict=bad": "",
	} {
		if got := strings.Join(names(t, s, path), " "); got != want {
			t.Errorf("%s shows %q, want %q", path, got, want)
		}
	}
	text := page(t, s, "/?verdict=PASS")
	has(t, text, "2 of 6 runs", `<option value="PASS" selected>PASS (2)`, `<option value="FAIL">FAIL (1)`, `<option value="medium">medium (2)`)
	has(t, page(t, s, "/?verdict=UNREADABLE"), "verdict.json")
	for _, path := range []string{"/?sort=size", "/?from=yesterday", "/?page=0", "/?page=x", "/?q=" + strings.Repeat("a", 201)} {
		if w := get(t, s, path); w.Code != 400 {
			t.Errorf("%s: %d, want 400", path, w.Code)
		}
	}
}

func TestNoRunsYet(t *testing.T) {
	s := handler(t, filepath.Join(t.TempDir(), "none"))
	has(t, page(t, s, "/"), "There is no run yet")
	has(t, page(t, s, "/benchmarks"), "There is no benchmark yet")
	if w := get(t, s, "/runs/latest"); w.Code != 404 {
		t.Errorf("latest: %d", w.Code)
	}
}

// A query's address gives the same query again.
func TestQueryPath(t *testing.T) {
	for _, path := range []string{"/", "/?q=a+b%26c",
		"/?commit=1&contention=high&from=2026-11-21&page=3&q=x&sort=seed&to=2026-11-22&verdict=NOT+CHECKED",
		"/benchmarks?backend=up&sort=-arms", "/?sort=-seed"} {
		u, err := url.Parse(path)
		must(t, err)
		q, err := ParseQuery(u.Query(), u.Path == "/benchmarks")
		must(t, err)
		if got := q.Path(); got != path {
			t.Errorf("%s became %s", path, got)
		}
	}
}

// A file that changes, a run that is added and one that is removed show in the next look.
func TestIndexFollows(t *testing.T) {
	runs := t.TempDir()
	dir := makeRun(t, runs, spec{name: "a"})
	x := NewIndex(runs)
	look := func() ([]*Entry, uint64) {
		x.scanned = time.Time{} // not what was seen a moment ago
		list, version, err := x.List()
		must(t, err)
		return list, version
	}
	list, v1 := look()
	if len(list) != 1 || list[0].State != NotChecked {
		t.Fatalf("%+v", list)
	}
	if again, v := look(); v != v1 || again[0] != list[0] {
		t.Error("nothing has changed, and yet it was read again")
	}
	verdict := filepath.Join(makeRun(t, t.TempDir(), spec{name: "x", verdict: "FAIL"}), rundir.VerdictFile)
	must(t, os.Rename(verdict, filepath.Join(dir, rundir.VerdictFile)))
	list, v2 := look()
	if list[0].State != "FAIL" || v2 == v1 || !slices.Equal(list[0].Failed, []string{"P3"}) {
		t.Errorf("after the verdict: %+v", list[0])
	}
	makeRun(t, runs, spec{name: "b", verdict: "PASS", at: time.Minute})
	if list, v := look(); len(list) != 2 || list[0].Name != "b" || v == v2 {
		t.Error("a new run is not the first")
	}
	must(t, os.RemoveAll(dir))
	if list, _ := look(); len(list) != 1 {
		t.Error("a removed run stays")
	}
	write(t, filepath.Join(runs, "b", rundir.InfoFile), "{")
	if list, _ := look(); list[0].State != Unreadable || list[0].Problem == "" {
		t.Errorf("a torn run.json: %+v", list[0])
	}
}

// States of a run without a verdict: by who holds its progress, and how that ends.
func TestStates(t *testing.T) {
	runs := t.TempDir()
	l, dir := goesOn(t, runs, "a")
	halfWay(l)
	state := func() State {
		x := NewIndex(runs)
		e, ok := x.Find("a")
		if !ok {
			t.Fatal("there is no run")
		}
		return e.State
	}
	if s := state(); s != Running {
		t.Errorf("while it goes on: %s", s)
	}
	x := NewIndex(runs)
	e, _ := x.Find("a")
	must(t, l.Close()) // as the kernel does for a process that dies
	if s := state(); s != BrokenOff {
		t.Errorf("after its process has died: %s", s)
	}
	x.scanned = time.Time{}
	if now, _ := x.Find("a"); e.State != Running || now.State != BrokenOff {
		t.Errorf("no file has changed, and it stays %s", now.State)
	}
	file := filepath.Join(dir, rundir.ProgressFile)
	b, err := os.ReadFile(file)
	must(t, err)
	add := func(line string) { write(t, file, string(b)+line+"\n") }
	add(`{"seq":99,"at":"","t":50,"kind":"end"}`)
	if s := state(); s != NotChecked {
		t.Errorf("after its end: %s", s)
	}
	add(`{"seq":99,"at":"","t":50,"kind":"error","text":"no cluster"}`)
	if s := state(); s != BrokenOff {
		t.Errorf("after an error: %s", s)
	}
	has(t, page(t, handler(t, runs), "/runs/a/"), "no cluster", "BROKEN OFF")
}

// A line that is being written is not there yet; one that is nothing is told of.
func TestHalfWrittenLine(t *testing.T) {
	runs := t.TempDir()
	l, dir := goesOn(t, runs, "a")
	halfWay(l)
	must(t, l.Close())
	file := filepath.Join(dir, rundir.ProgressFile)
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteString(`{"seq":10,"at":"2026-11-21T12:00:00Z","t":9,"kind":"pro`)
	must(t, err)
	live, err := readLive(file)
	must(t, err)
	if live.Phase() != "fault" || live.Rates.Cycles != 120 || len(live.Faults) != 1 || len(live.Problems) != 0 {
		t.Errorf("%+v", live)
	}
	_, err = f.WriteString(`blem","text":"slow"}` + "\n" + "nonsense\n")
	must(t, err)
	live, err = readLive(file)
	if err == nil || len(live.Problems) != 1 {
		t.Errorf("a line that is no event: %v, %+v", err, live)
	}
	has(t, page(t, handler(t, runs), "/runs/a/"), "not a progress event", "slow")
}

func TestRunPage(t *testing.T) {
	runs := t.TempDir()
	makeRun(t, runs, spec{name: "a b", verdict: "FAIL", at: time.Minute})
	s := handler(t, runs)
	text := page(t, s, "/runs/a b/")
	has(t, text, "FAIL", "report.html#violation-P3-1", "history/w1.1.jsonl", "logs/w1.1.log", "make chaos SCENARIO=kill-worker", "fenced",
		"0123456789ab")
	if w := get(t, s, "/runs/a b"); w.Code != 302 || w.Header().Get("Location") != "/runs/a%20b/" {
		t.Errorf("without a slash: %d to %s", w.Code, w.Header().Get("Location"))
	}
	if w := get(t, s, "/runs/latest"); w.Header().Get("Location") != "/runs/a%20b/" {
		t.Errorf("latest leads to %s", w.Header().Get("Location"))
	}
	has(t, get(t, s, "/runs/zzz/").Body.String(), "There is no such run")
	must(t, os.Remove(filepath.Join(runs, "a b", rundir.ReportFile)))
	has(t, get(t, s, "/runs/a b/report.html").Body.String(), "fencepost report")
}

func TestBenchmark(t *testing.T) {
	runs := t.TempDir()
	dir := filepath.Join(runs, "20261121-bench-low")
	must(t, os.MkdirAll(dir, 0o755))
	h := measure.NewHistogram()
	must(t, measure.Record(h, time.Millisecond))
	enc, err := reports.EncodeHistogram(h)
	must(t, err)
	must(t, reports.WriteBench(dir, reports.BenchResult{
		Name: "20261121-bench-low", About: "locks", Started: began, Ended: began.Add(time.Minute), Problems: []string{"the copy differs by 20 %"},
		Arms: []reports.BenchArm{{ID: "a", Scenario: "lock cycle", Threads: 1,
			Rounds: []reports.BenchRound{{Round: 1, Seconds: 1, OK: 1, Latency: enc}}}},
	}))
	makeRun(t, runs, spec{name: "r", verdict: "PASS"})
	s := handler(t, runs)
	has(t, page(t, s, "/benchmarks"), "20261121-bench-low", "not to be quoted", "bench.html")
	hasNot(t, page(t, s, "/"), "bench-low")
	has(t, page(t, s, "/runs/20261121-bench-low/"), "the copy differs by 20 %")
	if w := get(t, s, "/compare?run=r&run=20261121-bench-low"); w.Code != 400 {
		t.Errorf("a benchmark is compared: %d", w.Code)
	}
}

// A thousand runs are one page's work at first, and next to none after.
func TestThousandRuns(t *testing.T) {
	runs := t.TempDir()
	for i := range 1000 {
		dir := filepath.Join(runs, fmt.Sprintf("run-%04d", i))
		must(t, os.Mkdir(dir, 0o755))
		write(t, filepath.Join(dir, rundir.InfoFile), fmt.Sprintf(`{"run":"run-%04d","scenario":"s%d","seed":%d,"started":%q}`, i, i%20, i,
			began.Add(time.Duration(i)*time.Second).Format(time.RFC3339)))
		write(t, filepath.Join(dir, rundir.VerdictFile), `{"version":1,"verdict":"PASS","counts":{"events":5}}`)
	}
	s := handler(t, runs)
	text := page(t, s, "/")
	has(t, text, "1\u202f000 runs", "1 to 100 of 1\u202f000", "run-0999", "run-0900", "/?page=2")
	hasNot(t, text, "run-0899")
	has(t, page(t, s, "/?page=10"), "run-0000")
	has(t, page(t, s, "/?page=99"), "run-0000") // the last there is
	first, _, _ := s.index.List()
	s.index.scanned = time.Time{}
	again, _, err := s.index.List()
	must(t, err)
	for i := range first {
		if first[i] != again[i] {
			t.Fatalf("%s was read again though nothing has changed", first[i].Name)
		}
	}
	t.Logf("a look at 1,000 runs that have not changed takes %s", s.index.Took())
	has(t, page(t, s, "/?scenario=s7&sort=seed"), "50 of 1\u202f000 runs")
}

// What live.js draws from the events is what the page of the server shows.
func TestLivePage(t *testing.T) {
	runs := t.TempDir()
	l, _ := goesOn(t, runs, "a")
	halfWay(l)
	s := handler(t, runs)
	text := page(t, s, "/runs/a/")
	has(t, text, "RUNNING", `data-events="/events/a"`, `class="now" data-stage="fault" aria-current="step"`,
		`class="done" data-stage="before"`, "f1 injected: partition n2 (at 500ms)", `id="t-cycles">120<`, "0 of 1", "cband")
	has(t, page(t, s, "/"), "RUNNING", "1 running now")
	has(t, get(t, s, "/runs/a/report.html").Body.String(), "is live")
	l.Emit(progress.Event{Kind: progress.KindPhase, Phase: "drain"})
	s.index.scanned = time.Time{}
	has(t, page(t, s, "/runs/a/"), `data-stage="drain" aria-current="step"`)
}

func TestCompare(t *testing.T) {
	runs := t.TempDir()
	makeRun(t, runs, spec{name: "a", verdict: "PASS", seed: 1})
	makeRun(t, runs, spec{name: "b", verdict: "FAIL", seed: 2, contention: "high", slow: 2})
	makeRun(t, runs, spec{name: "c", verdict: "PASS", seed: 1})
	s := handler(t, runs)
	text := page(t, s, "/compare?run=a&run=b")
	has(t, text,
		"Comparison of 2 runs",
		`<th scope="row">contention</th><td class="">medium</td><td class="differs">high`, // settings
		`<th scope="row">seed</th>`,
		`<span class="mark">differs</span>`, "4 violations", "report.html#violation-P3-1", // properties
		`>401</td>`, `402 <span class="ratio">×1.00</span>`, // cycles
		"50.0/s", "100 in 2 s", "20.0/s", // throughput
		`>100 ms</td><td class="n edge">10 ms</td>`, `<td class="n up">×2.00</td>`, // latencies
		"900 ms", `1.8 s <span class="ratio">×2.00</span>`, // recovery
		"w1 is gone", "at 500ms", // evidence
		`<figure class="chart curves"`, "Latency of lock wait by percentile, fault",
	)
	hasNot(t, text, "Not all could be read", `<th scope="row">workers</th>`) // the same settings are no rows
	has(t, text, "<dt>workers</dt><dd>4</dd>")

	same := page(t, s, "/compare?run=a&run=c")
	has(t, same, "None: the runs had the same settings.")
	hasNot(t, same, `class="mark"`)
	three := page(t, s, "/compare?run=b&run=a&run=c&run=a&op=lock&phase=before")
	has(t, three, "Comparison of 3 runs", "/compare?run=a&amp;run=b&amp;run=c", "No run has such an operation", "leave out")

	for path, code := range map[string]int{"/compare": 400, "/compare?run=a": 400, "/compare?run=a&run=a": 400,
		"/compare?run=a&run=zzz": 404} {
		if w := get(t, s, path); w.Code != code {
			t.Errorf("%s: %d, want %d", path, w.Code, code)
		}
	}
}

// What a run lacks is said, and the rest is compared.
func TestCompareIncomplete(t *testing.T) {
	runs := t.TempDir()
	makeRun(t, runs, spec{name: "a", verdict: "PASS"})
	dir := makeRun(t, runs, spec{name: "b", verdict: "PASS", seed: 1})
	for _, f := range []string{rundir.VerdictFile, reports.JSONFile, reports.OperationsFile} {
		must(t, os.Remove(filepath.Join(dir, f)))
	}
	write(t, filepath.Join(dir, reports.TimelineFile), "start_s,seconds,phase,cycles\n0,x,before,1\n")
	text := page(t, handler(t, runs), "/compare?run=a&run=b")
	has(t, text, "Not all could be read", "B: timeline.csv", "B: operations.csv", "B: report.json", "was not injected", "NOT CHECKED",
		`<figure class="chart curves"`)
}

func TestRatio(t *testing.T) {
	for _, c := range []struct {
		b, a float64
		want string
	}{{2, 1, "×2.00"}, {1, 3, "×0.33"}, {25, 2, "×12.5"}, {1000, 2, "×500"}, {1, 0, ""}, {0, 2, "×0.00"}} {
		if got := ratio(c.b, c.a); got != c.want {
			t.Errorf("ratio(%g, %g) = %q, want %q", c.b, c.a, got, c.want)
		}
	}
}

// The latencies of the chart are those of the clients' operations that ended ok.
func TestLatencies(t *testing.T) {
	runs := t.TempDir()
	makeRun(t, runs, spec{name: "a", verdict: "PASS"})
	s := handler(t, runs)
	e, _ := s.index.Find("a")
	h, err := s.latencies(e, "lock", "fault")
	must(t, err)
	if h.TotalCount() != 200 || h.ValueAtQuantile(100) < 199_000 {
		t.Errorf("%d latencies up to %d µs", h.TotalCount(), h.ValueAtQuantile(100))
	}
	if h, err := s.latencies(e, "lock", "before"); err != nil || h.TotalCount() != 0 {
		t.Errorf("%v, %v", h, err)
	}
}
