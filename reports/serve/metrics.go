package serve

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what /metrics shows: of the server its own counters, of the runs what
// the index knows at the moment of the scrape.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	streams  *prometheus.GaugeVec
	refused  prometheus.Counter
}

func newMetrics(x *Index, version string) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fencepost_serve_requests_total", Help: "Requests that fencepost serve has answered, by page and status code.",
		}, []string{"page", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fencepost_serve_request_duration_seconds", Help: "How long answers took; streams of events are left out.",
			Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10},
		}, []string{"page"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fencepost_serve_event_streams", Help: "Streams of server-sent events that are open: of the list, of a run.",
		}, []string{"of"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fencepost_serve_refused_requests_total", Help: "Requests that were refused for their Host header or their method.",
		}),
	}
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fencepost_build_info", Help: "The commit that fencepost serve was built from; always 1.", ConstLabels: prometheus.Labels{"commit": version},
	}, func() float64 { return 1 })
	m.registry.MustRegister(m.requests, m.seconds, m.streams, m.refused, build, &runsCollector{x})
	return m
}

// count counts what a handler answers. The page is the pattern's first part, so there
// are as many series as pages, whatever is asked for.
func (m *metrics) count(pattern string, h http.HandlerFunc) http.Handler {
	page := strings.Trim(pattern, "/")
	page, _, _ = strings.Cut(page, "/")
	switch pattern {
	case "/{$}":
		page = "list"
	case "/":
		page = "unknown"
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		c := &counted{ResponseWriter: w, code: http.StatusOK}
		defer func() {
			m.requests.WithLabelValues(page, strconv.Itoa(c.code)).Inc()
			if page != "events" {
				m.seconds.WithLabelValues(page).Observe(time.Since(began).Seconds())
			}
		}()
		h(c, r)
	})
}

// stream counts an open stream until the function returned is called.
func (m *metrics) stream(of string) func() {
	g := m.streams.WithLabelValues(of)
	g.Inc()
	return g.Dec
}

// counted keeps the status code.
type counted struct {
	http.ResponseWriter
	code int
}

func (c *counted) WriteHeader(code int) {
	c.code = code
	c.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController flush.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// runsCollector reads the index at each scrape. Series about single runs are of the
// newest one of each scenario, system and contention: so there are as many series as
// kinds of runs, and a series goes on from run to run.
type runsCollector struct{ index *Index }

var ofRun = []string{"scenario", "system", "contention"}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("fencepost_"+name, help, labels, nil)
}

var (
	descRuns       = desc("runs", "Runs in the directory by verdict; RUNNING, NOT CHECKED, BROKEN OFF and UNREADABLE are those without one.", "scenario", "verdict")
	descBenchmarks = desc("benchmarks", "Benchmarks in the directory.")
	descScan       = desc("serve_scan_duration_seconds", "How long the last scan of the directory took.")
	descReadable   = desc("serve_directory_readable", "Whether the directory of runs could be read: 1 or 0.")

	descRunning    = desc("run_running", "Whether the newest run of its kind is live: 1 or 0.", ofRun...)
	descStarted    = desc("run_start_timestamp_seconds", "When the newest run of its kind began.", ofRun...)
	descVerdict    = desc("run_verdict", "The newest run's verdict, or why it has none; always 1.", append(slices.Clone(ofRun), "verdict")...)
	descPhase      = desc("run_phase", "The phase of a live run; always 1.", append(slices.Clone(ofRun), "phase")...)
	descElapsed    = desc("run_elapsed_seconds", "Time since a live run began.", ofRun...)
	descOperations = desc("run_operations", "Operations in the newest run's history; known when it is checked.", ofRun...)
	descCycles     = desc("run_cycles", "Lock cycles, or jobs completed, of the newest run so far.", ofRun...)
	descCycleRate  = desc("run_cycles_per_second", "Cycles per second of a live run.", ofRun...)
	descUnknown    = desc("run_unknown_outcomes", "Operations of the newest run whose outcome its clients could not know.", ofRun...)
	descRefused    = desc("run_stale_writes_refused", "Writes of the newest run that were refused for a stale token.", ofRun...)
	descLost       = desc("run_leases_lost", "Leases of the newest run that ended before their release.", ofRun...)
	descTakeovers  = desc("run_takeovers", "Takeovers of the newest run; known when it is checked.", ofRun...)
	descInjected   = desc("run_faults_injected", "Faults injected in the newest run so far.", ofRun...)
	descProven     = desc("run_faults_proven", "Faults of the newest run that are proven to have taken effect.", ofRun...)
	descViolations = desc("run_violations", "Violations found in the newest run so far.", ofRun...)
	descProblems   = desc("run_problems", "Problems reported by a live run.", ofRun...)
	descRecovery   = desc("run_recovery_seconds", "From a fault's end to the first success of the lock or shard for which it took longest, in the newest run.", ofRun...)
	descCheck      = desc("run_check_duration_seconds", "How long checking the newest run took.", ofRun...)
	descDuration   = desc("run_duration_seconds", "How long the newest run took, without its check.", ofRun...)
)

// Describe sends nothing: which series there are depends on the runs.
func (c *runsCollector) Describe(chan<- *prometheus.Desc) {}

// Collect sends what the index knows now.
func (c *runsCollector) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	list, _, err := c.index.List()
	gauge(descScan, c.index.Took().Seconds())
	gauge(descReadable, number(err == nil))
	type kind struct{ scenario, verdict string }
	n, benchmarks := map[kind]int{}, 0
	seen := map[[3]string]bool{}
	for _, e := range list { // the newest first
		if e.Bench() {
			benchmarks++
			continue
		}
		n[kind{label(e.Info.Scenario), string(e.State)}]++
		if k := [3]string{label(e.Info.Scenario), label(e.Info.System), label(e.Info.Contention)}; !seen[k] {
			seen[k] = true
			e.collect(func(d *prometheus.Desc, v float64, more ...string) { gauge(d, v, append(k[:], more...)...) })
		}
	}
	for k, n := range n {
		gauge(descRuns, float64(n), k.scenario, k.verdict)
	}
	gauge(descBenchmarks, float64(benchmarks))
}

// collect sends what is known of a run. What is not known has no series.
func (e *Entry) collect(gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	gauge(descRunning, number(e.State == Running))
	gauge(descVerdict, 1, string(e.State))
	if !e.Info.Started.IsZero() {
		gauge(descStarted, float64(e.Info.Started.UnixMilli())/1000)
	}
	if d := e.Took(); d > 0 {
		gauge(descDuration, d.Seconds())
	}
	if l := e.Live; l != nil {
		gauge(descCycles, float64(l.Rates.Cycles))
		gauge(descUnknown, float64(l.Rates.Unknown))
		gauge(descRefused, float64(l.Rates.Refused))
		gauge(descLost, float64(l.Rates.LeasesLost))
		gauge(descInjected, float64(len(l.Faults)))
		gauge(descProven, float64(l.Proven()))
		gauge(descViolations, float64(len(l.Violations)))
		if e.State == Running {
			gauge(descPhase, 1, l.Phase())
			gauge(descElapsed, l.T)
			gauge(descCycleRate, l.Rates.PerSecond)
			gauge(descProblems, float64(len(l.Problems)))
		}
		return
	}
	if c := e.Counts; c.Events > 0 {
		gauge(descOperations, float64(c.Operations))
		gauge(descCycles, float64(c.Cycles))
		gauge(descUnknown, float64(c.Unknowns))
		gauge(descRefused, float64(c.StaleRefused))
		gauge(descLost, float64(c.LeasesLost))
		gauge(descTakeovers, float64(c.Takeovers))
		gauge(descInjected, float64(c.Faults))
		gauge(descProven, float64(c.FaultsProven))
		gauge(descViolations, float64(e.Violations))
		gauge(descCheck, e.Checked.Seconds())
	}
	if e.Recovery > 0 {
		gauge(descRecovery, e.Recovery.Seconds())
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// label is a value that a label may have: runs' files may come from anywhere.
func label(s string) string { return strings.ToValidUTF8(s, "?") }
