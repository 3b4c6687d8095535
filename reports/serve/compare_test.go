package serve

import (
	"os"
	"path/filepath"
	"testing"

	"fencepost/harness/record/rundir"
	"fencepost/reports"
)

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

	for path, code := range map[string]int{"/compare": 400, "/compare?run=a": 400, "/compare?run=a&run=a": 400, "/compare?run=a&run=zzz": 404} {
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
	has(t, text, "Not all could be read", "B: timeline.csv", "B: operations.csv", "B: report.json", "was not injected", "NOT CHECKED", `<figure class="chart curves"`)
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
