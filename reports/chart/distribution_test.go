package chart

import (
	"strings"
	"testing"
	"time"

	"fencepost/reports/measure"
)

func TestDistribution(t *testing.T) {
	h := measure.NewHistogram()
	for i := range 2000 {
		if err := measure.Record(h, time.Duration(i+1)*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	one := measure.NewHistogram()
	if err := measure.Record(one, time.Microsecond); err != nil {
		t.Fatal(err)
	}
	lines := []DistributionLine{{"A <fast>", h}, {"B", one}, {"none", measure.NewHistogram()}, {"nil", nil}}
	s, err := Distribution("Latency", lines)
	if err != nil {
		t.Fatal(err)
	}
	text := string(s.Inline())
	for _, want := range []string{"A &lt;fast&gt;", ">B<", "99.9 %", "1 s", "var(--ok"} {
		if !strings.Contains(text, want) {
			t.Errorf("the chart has no %q", want)
		}
	}
	if strings.Contains(text, ">none<") || strings.Contains(text, "99.99 %") {
		t.Error("the chart has a run without latencies, or a percentile that no operation decides")
	}
	if again, err := Distribution("Latency", lines); err != nil || again.File() != s.File() {
		t.Error("not the same twice")
	}
	if s, err := Distribution("Latency", lines[2:]); err != nil || !s.Empty() {
		t.Error("without latencies there is something to draw")
	}
}

// A curve rises, and ends at the greatest latency.
func TestDistributionPoints(t *testing.T) {
	h := measure.NewHistogram()
	for i := range 500 {
		if err := measure.Record(h, time.Duration(i+1)*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	points := distributionPoints(h)
	for i := 1; i < len(points); i++ {
		if points[i].latency < points[i-1].latency || points[i].x <= points[i-1].x {
			t.Fatalf("from %v to %v", points[i-1], points[i])
		}
	}
	if end := points[len(points)-1].latency; end < 498*time.Millisecond {
		t.Errorf("the curve ends at %s", end)
	}
}
