package serve

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"fencepost/harness/record/rundir"
	"fencepost/internal/docpage"
)

func metricsOf(t *testing.T, runs string) *Server {
	t.Helper()
	makeRun(t, runs, spec{name: "a", verdict: "PASS", seed: 1})
	makeRun(t, runs, spec{name: "b", verdict: "FAIL", seed: 2, at: 1})
	makeRun(t, runs, spec{name: "c", scenario: "steady", at: 2})
	l, _ := goesOn(t, runs, "d")
	halfWay(l)
	s := handler(t, runs)
	page(t, s, "/")
	get(t, s, "/nothing")
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", nil)
	s.ServeHTTP(httptest.NewRecorder(), r)
	return s
}

func TestMetrics(t *testing.T) {
	s := metricsOf(t, t.TempDir())
	text := page(t, s, "/metrics")
	has(t, text,
		`fencepost_runs{scenario="kill-worker",verdict="PASS"} 1`,
		`fencepost_runs{scenario="kill-worker",verdict="FAIL"} 1`,
		`fencepost_runs{scenario="partition",verdict="RUNNING"} 1`,
		`fencepost_runs{scenario="steady",verdict="NOT CHECKED"} 1`,
		`fencepost_run_verdict{contention="medium",scenario="kill-worker",system="core",verdict="FAIL"} 1`, // the newest of its kind
		`fencepost_run_operations{contention="medium",scenario="kill-worker",system="core"} 2000`,
		`fencepost_run_violations{contention="medium",scenario="kill-worker",system="core"} 4`,
		`fencepost_run_recovery_seconds{contention="medium",scenario="kill-worker",system="core"} 0.9`,
		`fencepost_run_check_duration_seconds{contention="medium",scenario="kill-worker",system="core"} 0.25`,
		`fencepost_run_duration_seconds{contention="medium",scenario="kill-worker",system="core"} 40`,
		`fencepost_run_running{contention="medium",scenario="partition",system="core"} 1`,
		`fencepost_run_phase{contention="medium",phase="fault",scenario="partition",system="core"} 1`,
		`fencepost_run_cycles{contention="medium",scenario="partition",system="core"} 120`,
		`fencepost_run_unknown_outcomes{contention="medium",scenario="partition",system="core"} 2`,
		`fencepost_run_faults_injected{contention="medium",scenario="partition",system="core"} 1`,
		`fencepost_run_faults_proven{contention="medium",scenario="partition",system="core"} 0`,
		`fencepost_serve_requests_total{code="200",page="list"} 1`,
		`fencepost_serve_requests_total{code="404",page="unknown"} 1`,
		`fencepost_serve_refused_requests_total 1`,
		`fencepost_build_info{commit="0123456789ab"} 1`,
	)
	if n := strings.Count(text, "fencepost_run_verdict{"); n != 3 {
		t.Errorf("%d kinds of runs, want 3", n)
	}
	// A kind whose newest run is not checked claims no numbers of an older one.
	hasNot(t, text, `fencepost_run_operations{contention="medium",scenario="steady"`)
}

// promlint has nothing to say.
func TestMetricsLint(t *testing.T) {
	s := metricsOf(t, t.TempDir())
	problems, err := testutil.GatherAndLint(s.metrics.registry)
	must(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	all, err := s.metrics.registry.Gather()
	must(t, err)
	for _, f := range all {
		if !strings.HasPrefix(f.GetName(), "fencepost_") {
			t.Errorf("%s is not one of ours", f.GetName())
		}
	}
}

// docs/serve.md lists what is exported.
func TestMetricsPage(t *testing.T) {
	s := metricsOf(t, t.TempDir())
	defer s.metrics.stream("list")()
	source, err := os.ReadFile("metrics.go")
	must(t, err)
	defined := len(regexp.MustCompile(`Name: "fencepost_|send\("\w+",|\n\t\t\t\{"\w+", "`).FindAll(source, -1))
	docpage.Metrics(t, "serve.md", s.metrics.registry, defined)
}

// A label of a run's file may be any bytes.
func TestMetricsOddLabels(t *testing.T) {
	runs := t.TempDir()
	dir := makeRun(t, runs, spec{name: "a", verdict: "PASS"})
	write(t, filepath.Join(dir, rundir.InfoFile), "{\"run\":\"a\",\"scenario\":\"x\xff\\\"\\n\"}")
	has(t, page(t, handler(t, runs), "/metrics"), `scenario="x`)
	must(t, os.RemoveAll(runs))
	has(t, page(t, handler(t, runs), "/metrics"), "fencepost_serve_directory_readable 1") // none yet is no error
}
