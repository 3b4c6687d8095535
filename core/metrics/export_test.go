package metrics

import "github.com/prometheus/client_golang/prometheus"

// Duration is the histogram of durations.
func (m *Metrics) Duration() prometheus.Collector { return m.duration.(prometheus.Collector) }
