package serve

import (
	"net/http"
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
