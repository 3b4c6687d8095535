package metrics

import "github.com/prometheus/client_golang/prometheus"

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
