package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Duration is the histogram of durations.
func (m *Metrics) Duration() prometheus.Collector { return m.duration.(prometheus.Collector) }

// LateBy is by how much runs were late together, in seconds.
func (m *Metrics) LateBy() (sum float64) {
	families, _ := m.registry.Gather()
	for _, f := range families {
		if f.GetName() == "job_lateness_seconds" {
			sum = f.GetMetric()[0].GetHistogram().GetSampleSum()
		}
	}
	return sum
}

// Defined are the names of the metrics that are defined here.
func (m *Metrics) Defined() map[string]bool {
	all := make(chan *prometheus.Desc)
	go func() { defer close(all); m.registry.Describe(all) }()
	names := map[string]bool{}
	for d := range all {
		_, rest, _ := strings.Cut(d.String(), `fqName: "`)
		name, _, _ := strings.Cut(rest, `"`)
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			names[name] = true
		}
	}
	return names
}
