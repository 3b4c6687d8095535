package chart

import (
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/plot/vg/draw"

	"fencepost/reports/measure"
)

// DistributionLine is one run's latencies of an operation.
type DistributionLine struct {
	Label     string
	Latencies *hdrhistogram.Histogram // of measure.NewHistogram
}

// distributionTicks are the percentiles that the axis names.
var distributionTicks = []float64{0, 50, 90, 95, 99, 99.9, 99.99, 99.999}

// Distribution draws latency by percentile, one curve a run: the percentiles are
// spread so that each factor of ten towards 100 % takes the same room, because what
// tells runs apart is at the end. Runs without a latency are left out.
func Distribution(title string, lines []DistributionLine) (SVG, error) {
	s := SVG{Name: "distribution", Title: title}
	lo, hi, most := math.Inf(1), 0.0, int64(0)
	var have []DistributionLine
	for _, l := range lines {
		if l.Latencies == nil || l.Latencies.TotalCount() == 0 {
			continue
		}
		have = append(have, l)
		lo = min(lo, measure.Quantile(l.Latencies, 1).Seconds())
		hi = max(hi, measure.Quantile(l.Latencies, 100).Seconds())
		most = max(most, l.Latencies.TotalCount())
	}
	if len(have) == 0 {
		return s, nil
	}
	f := newFigure(title, Width, 320).legendBelow()
	end := nines(100 - 100/float64(max(most, 100)))
	f.plot.X.Min, f.plot.X.Max = 0, end*1.01
	for _, p := range distributionTicks {
		if nines(p) <= end*1.01 {
			f.xTicks = append(f.xTicks, tick{nines(p), fmt.Sprintf("%g %%", p)})
		}
	}
	f.logY(max(lo, 1e-6), max(hi, lo*1.5, 1e-6))
	room := (Width-marginL)/float64(min(len(have), maxCurves)) - 50 // of a label in the legend
	for i, l := range have[:min(len(have), maxCurves)] {
		st := curveStyles[i%len(curveStyles)]
		points := distributionPoints(l.Latencies)
		f.line(clip(l.Label, room, 11), lineStyle(st.c, 2, st.dashes...), len(points), func(i int) (float64, float64, bool) {
			return points[i].x, points[i].latency.Seconds(), true
		})
		top := points[len(points)-1]
		f.line("", draw.LineStyle{Color: st.c.rgba(1), Width: 3}, 1, func(int) (float64, float64, bool) { return top.x, top.latency.Seconds(), true })
	}
	return f.draw(s)
}

type distributionPoint struct {
	x       float64
	latency time.Duration
}

// distributionPoints are a curve's, up to the last percentile that rests on an
// operation of its own.
func distributionPoints(h *hdrhistogram.Histogram) []distributionPoint {
	const steps = 160
	end := nines(100 - 100/float64(max(h.TotalCount(), 2)))
	var out []distributionPoint
	for i := 0.0; i <= steps; i++ {
		x := end * i / steps
		out = append(out, distributionPoint{x, max(measure.Quantile(h, 100-100*math.Pow(10, -x)), time.Microsecond)})
	}
	return out
}

// nines is how many factors of ten a percentile is from 100 %: 90 % is 1, 99 % is 2.
func nines(percent float64) float64 { return -math.Log10(1 - min(percent, 100-1e-9)/100) }
