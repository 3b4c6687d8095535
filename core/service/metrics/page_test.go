package metrics_test

import (
	"testing"
	"time"

	"fencepost/core/service/metrics"
	"fencepost/internal/docpage"
)

// TestPage: docs/metrics.md lists what a scheduler exports. Metrics whose labels' values are
// not known from the start are given one.
func TestPage(t *testing.T) {
	t.Parallel()
	m := metrics.New(nil)
	m.Request("GET", "GET /jobs/{id}", 200, time.Millisecond)
	docpage.Metrics(t, "metrics.md", m.Gatherer(), len(m.Defined()))
}
