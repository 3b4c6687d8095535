package reports

import (
	"html/template"

	"fencepost/reports/chart"
)

// strip is the run's phases and faults: what is there of the time line without scripts
// and on paper.
func (r *run) strip() chart.SVG {
	if r.history == nil || r.analysis.End <= r.analysis.Start {
		return chart.SVG{}
	}
	return chart.Strip(r.analysis)
}

func round(v float64) float64 { return float64(int64(v*1000+0.5)) / 1000 }

func inline(svgs []chart.SVG) (out []template.HTML) {
	for _, s := range svgs {
		if !s.Empty() {
			out = append(out, s.Inline())
		}
	}
	return out
}
