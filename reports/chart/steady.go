package chart

import (
	"time"

	"gonum.org/v1/plot/plotter"
)

// SteadyLoad is a load that went on for long.
type SteadyLoad struct {
	ID, Title string
	Rate      float64 // offered, a second; 0: as many as are taken
	Buckets   []SteadyBucket
}

// SteadyBucket is a part of it.
type SteadyBucket struct {
	Seconds       float64
	Done          int64
	P50, P99, Max time.Duration // of lateness; 0 without a rate
}

// figure makes a chart over the load's time; middle is a bucket's place in it.
func (l SteadyLoad) figure(title string, h float64) (f *figure, middle []float64) {
	total := 0.0
	for _, b := range l.Buckets {
		middle = append(middle, total+b.Seconds/2)
		total += b.Seconds
	}
	f = newFigure(title, Width, h)
	f.plot.X.Min, f.plot.X.Max = 0, total
	f.xTicks = timeTicks(0, total, 12)
	return f, middle
}

// SteadyRates draws what was done a second, beside what was asked for.
func SteadyRates(l SteadyLoad) (SVG, error) {
	s := SVG{Name: "steady-" + fileName(l.ID), Title: l.Title + ": jobs completed per second over time"}
	if len(l.Buckets) < 2 {
		return s, nil
	}
	f, middle := l.figure(s.Title, 210)
	top := l.Rate
	var area plotter.XYs
	for i, b := range l.Buckets {
		rate := float64(b.Done) / b.Seconds
		top = max(top, rate)
		area = append(area, plotter.XY{X: middle[i], Y: rate})
	}
	f.linearY(top*1.02, 4)
	f.plotters = append(f.plotters, &plotter.Line{XYs: area, FillColor: OKColor.rgba(0.14)})
	f.line("jobs/s", lineStyle(OKColor, 2), len(area), func(i int) (float64, float64, bool) { return area[i].X, area[i].Y, true })
	if l.Rate > 0 {
		f.line("offered", lineStyle(Muted, 1.4, 5, 3), 2, func(i int) (float64, float64, bool) { return float64(i) * f.plot.X.Max, l.Rate, true })
	}
	return f.draw(s)
}

// SteadyLateness draws how late runs began, by when they were meant to.
func SteadyLateness(l SteadyLoad) (SVG, error) {
	s := SVG{Name: "lateness-" + fileName(l.ID), Title: l.Title + ": lateness of runs by the time at which their jobs were meant to be asked for, logarithmic"}
	lo, hi := time.Hour, time.Duration(0)
	for _, b := range l.Buckets {
		if b.Max > 0 {
			lo, hi = min(lo, b.P50), max(hi, b.Max)
		}
	}
	if len(l.Buckets) < 2 || hi == 0 {
		return s, nil
	}
	f, middle := l.figure(s.Title, 230)
	low := roundDown(clampSeconds(lo))
	f.logY(low, max(roundUp(clampSeconds(hi)), 10*low))
	at := func(of func(SteadyBucket) time.Duration) func(int) (float64, float64, bool) {
		return func(i int) (float64, float64, bool) {
			b := l.Buckets[i]
			return middle[i], clampSeconds(of(b)), b.Max > 0
		}
	}
	n := len(l.Buckets)
	f.line("p50", lineStyle(OKColor, 2), n, at(func(b SteadyBucket) time.Duration { return b.P50 }))
	f.line("p99", lineStyle(Tail, 1.6, 5, 2), n, at(func(b SteadyBucket) time.Duration { return b.P99 }))
	f.line("max", lineStyle(Muted, 1, 2, 2), n, at(func(b SteadyBucket) time.Duration { return b.Max }))
	return f.draw(s)
}
