package serve

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fencepost/checker"
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
		Name: "fencepost_build_info", Help: "The commit that fencepost serve was built from; always 1.",
		ConstLabels: prometheus.Labels{"commit": version},
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

// Describe sends nothing: which series there are depends on the runs.
func (c *runsCollector) Describe(chan<- *prometheus.Desc) {}

// gauges sends gauges, with labels that all of them have.
type gauges struct {
	to     chan<- prometheus.Metric
	names  []string
	values []string
}

func (g gauges) send(name, help string, v float64) {
	desc := prometheus.NewDesc("fencepost_"+name, help, g.names, nil)
	g.to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, g.values...)
}

// with is the gauges with a label more.
func (g gauges) with(name, value string) gauges {
	return gauges{g.to, append(slices.Clone(g.names), name), append(slices.Clone(g.values), value)}
}

// Collect sends what the index knows now.
func (c *runsCollector) Collect(to chan<- prometheus.Metric) {
	all := gauges{to: to}
	list, _, err := c.index.List()
	all.send("serve_scan_duration_seconds", "How long the last scan of the directory took.", c.index.Took().Seconds())
	all.send("serve_directory_readable", "Whether the directory of runs could be read: 1 or 0.", number(err == nil))
	type kind struct{ scenario, verdict string }
	n, benchmarks := map[kind]int{}, 0
	seen := map[[3]string]bool{}
	for _, e := range list { // the newest first
		if e.Bench() {
			benchmarks++
			continue
		}
		n[kind{label(e.Info.Scenario), string(e.State)}]++
		k := [3]string{label(e.Info.Scenario), label(e.Info.System), label(e.Info.Contention)}
		if !seen[k] {
			seen[k] = true
			e.collect(all.with("scenario", k[0]).with("system", k[1]).with("contention", k[2]))
		}
	}
	for k, n := range n {
		all.with("scenario", k.scenario).with("verdict", k.verdict).
			send("runs", "Runs in the directory by verdict; RUNNING, NOT CHECKED, BROKEN OFF and UNREADABLE are those without one.", float64(n))
	}
	all.send("benchmarks", "Benchmarks in the directory.", float64(benchmarks))
}

// collect sends what is known of a run. What is not known has no series.
func (e *Entry) collect(g gauges) {
	g.send("run_running", "Whether the newest run of its kind is live: 1 or 0.", number(e.State == Running))
	g.with("verdict", string(e.State)).send("run_verdict", "The newest run's verdict, or why it has none; always 1.", 1)
	if !e.Info.Started.IsZero() {
		g.send("run_start_timestamp_seconds", "When the newest run of its kind began.", float64(e.Info.Started.UnixMilli())/1000)
	}
	if d := e.Took(); d > 0 {
		g.send("run_duration_seconds", "How long the newest run took, without its check.", d.Seconds())
	}
	c, violations := e.Counts, e.Violations
	if l := e.Live; l != nil {
		c, violations = l.counts(), len(l.Violations)
		if e.State == Running {
			g.with("phase", l.Phase()).send("run_phase", "The phase of a live run; always 1.", 1)
			g.send("run_elapsed_seconds", "Time since a live run began.", l.T)
			g.send("run_cycles_per_second", "Cycles per second of a live run.", l.Rates.PerSecond)
			g.send("run_problems", "Problems reported by a live run.", float64(len(l.Problems)))
		}
	} else if c.Events > 0 {
		g.send("run_operations", "Operations in the newest run's history; known when it is checked.", float64(c.Operations))
		g.send("run_takeovers", "Takeovers of the newest run; known when it is checked.", float64(c.Takeovers))
		g.send("run_check_duration_seconds", "How long checking the newest run took.", e.Checked.Seconds())
	}
	if e.Live != nil || c.Events > 0 {
		for _, x := range []struct {
			name, help string
			n          int
		}{
			{"cycles", "Lock cycles, or jobs completed, of the newest run so far.", c.Cycles},
			{"unknown_outcomes", "Operations of the newest run whose outcome its clients could not know.", c.Unknowns},
			{"stale_writes_refused", "Writes of the newest run that were refused for a stale token.", c.StaleRefused},
			{"leases_lost", "Leases of the newest run that ended before their release.", c.LeasesLost},
			{"faults_injected", "Faults injected in the newest run so far.", c.Faults},
			{"faults_proven", "Faults of the newest run that are proven to have taken effect.", c.FaultsProven},
			{"violations", "Violations found in the newest run so far.", violations},
		} {
			g.send("run_"+x.name, x.help, float64(x.n))
		}
	}
	if e.Recovery > 0 && e.Live == nil {
		const help = "From a fault's end to the first success of the lock or shard for which it took longest, in the newest run."
		g.send("run_recovery_seconds", help, e.Recovery.Seconds())
	}
}

// counts are those of a run that nobody has checked.
func (l *Live) counts() checker.Counts {
	r := l.Rates
	return checker.Counts{
		Cycles: int(r.Cycles), Unknowns: int(r.Unknown), StaleRefused: int(r.Refused), LeasesLost: int(r.LeasesLost),
		Faults: len(l.Faults), FaultsProven: l.Proven(),
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
