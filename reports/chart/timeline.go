package chart

import (
	"fmt"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"fencepost/harness/record/history"
	"fencepost/reports/measure"
)

// bands are the faults' windows and the phases' boundaries behind the curves.
type bands struct {
	axis   timeAxis
	a      *measure.Analysis
	labels bool // write the faults' ids
}

var _ plot.Plotter = bands{}

// Plot draws the bands over the data area's height.
func (b bands) Plot(c draw.Canvas, p *plot.Plot) {
	trX, _ := p.Transforms(&c)
	x := func(ts int64) vg.Length {
		s := min(max(b.axis.seconds(ts), p.X.Min), p.X.Max)
		return trX(s)
	}
	lastX := vg.Length(-1e9)
	for _, f := range b.a.Faults {
		col := FaultColor(f.Fault.Name)
		x0, x1 := x(f.From), max(x(f.To), x(f.From)+1.5)
		rect := func(y0, y1 vg.Length) []vg.Point {
			return []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}}
		}
		c.FillPolygon(col.rgba(0.13), rect(c.Min.Y, c.Max.Y))
		c.FillPolygon(col.rgba(1), rect(c.Max.Y-2.5, c.Max.Y))
		sty := textStyle(10, Muted, false, draw.XLeft)
		if b.labels && x0-lastX > sty.Width(f.Fault.ID)+4 {
			c.FillText(sty, vg.Point{X: x0 + 3, Y: c.Max.Y - 10}, f.Fault.ID)
			lastX = x0
		}
	}
	for i, ph := range b.a.Phases {
		if i > 0 && ph.From <= b.a.End {
			c.StrokeLine2(lineStyle(Muted, 0.8, 2, 3), x(ph.From), c.Min.Y, x(ph.From), c.Max.Y)
		}
	}
}

// base makes a figure over the run's time.
func base(a *measure.Analysis, title string, w, h float64) (*figure, timeAxis) {
	axis := newTimeAxis(a, a.Start, a.End, w)
	f := newFigure(title, w, h)
	f.plot.X.Min, f.plot.X.Max = axis.seconds(axis.from), axis.seconds(axis.to)
	f.xTicks = axis.ticks()
	f.behind = append(f.behind, bands{axis: axis, a: a, labels: len(a.Faults) <= 12})
	return f, axis
}

// middle is a bucket's place on the time axis, in seconds.
func middle(axis timeAxis, b measure.Bucket) float64 { return axis.seconds(b.From) + b.Seconds/2 }

// minSeconds is the least width of a bucket whose rate says something: the last
// bucket of a run may be a sliver.
func full(t measure.Timeline, b measure.Bucket) bool { return b.Seconds >= t.Width.Seconds()/3 }

// Cycles draws lock cycles per second.
func Cycles(a *measure.Analysis) (SVG, error) {
	s := SVG{Name: "cycles", Title: "Lock cycles per second over the run"}
	t := a.Timeline
	if len(t.Buckets) == 0 {
		return s, nil
	}
	f, axis := base(a, "Lock cycles per second (released ok)", Width, 190)
	top := 0.0
	rate := func(i int) float64 { return float64(t.Buckets[i].Cycles) / t.Buckets[i].Seconds }
	var area plotter.XYs
	for i, b := range t.Buckets {
		if full(t, b) {
			top = max(top, rate(i))
			area = append(area, plotter.XY{X: middle(axis, b), Y: rate(i)})
		}
	}
	f.linearY(top, 4)
	if len(area) > 1 {
		f.plotters = append(f.plotters, &plotter.Line{XYs: area, FillColor: OKColor.rgba(0.14)})
	}
	f.line("cycles/s", lineStyle(OKColor, 2), len(t.Buckets), func(i int) (float64, float64, bool) {
		return middle(axis, t.Buckets[i]), rate(i), full(t, t.Buckets[i])
	})
	return f.draw(axis.frame(s))
}

// Outcomes draws operations per second by outcome.
func Outcomes(a *measure.Analysis) (SVG, error) {
	s := SVG{Name: "outcomes", Title: "Operations per second by outcome over the run"}
	t := a.Timeline
	if len(t.Buckets) == 0 {
		return s, nil
	}
	f, axis := base(a, "Operations per second, by outcome", Width, 210)
	series := []struct {
		label string
		sty   draw.LineStyle
		count func(measure.Bucket) int
	}{
		{"ok", lineStyle(OKColor, 2), func(b measure.Bucket) int { return b.OK }},
		{"fail (certainly not done)", lineStyle(BadColor, 1.8, 6, 3), func(b measure.Bucket) int { return b.Fail }},
		{"unknown (perhaps done)", lineStyle(UnkColor, 2.2, 2, 2), func(b measure.Bucket) int { return b.Unknown }},
	}
	top := 0.0
	for _, b := range t.Buckets {
		for _, q := range series {
			if full(t, b) {
				top = max(top, float64(q.count(b))/b.Seconds)
			}
		}
	}
	f.linearY(top, 4)
	for _, q := range series {
		f.line(q.label, q.sty, len(t.Buckets), func(i int) (float64, float64, bool) {
			b := t.Buckets[i]
			return middle(axis, b), float64(q.count(b)) / b.Seconds, full(t, b)
		})
	}
	return f.draw(axis.frame(s))
}

// Latencies draws a panel for each operation that has latencies: p50 and p99 of
// each bucket, and the slowest operations as points. All panels have one y axis,
// so that their heights can be compared.
func Latencies(a *measure.Analysis) ([]SVG, error) {
	lo, hi := latencyRange(a.Timeline)
	var out []SVG
	for _, line := range a.Timeline.Ops {
		if !measured(line) {
			continue
		}
		s, err := latency(a, line, lo, hi)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func measured(l measure.OpLine) bool {
	for _, c := range l.Cuts {
		if c.N > 0 {
			return true
		}
	}
	return len(l.Slow) > 0
}

// latencyRange is the common range of all panels in seconds, on 1-2-5 steps.
func latencyRange(t measure.Timeline) (lo, hi float64) {
	lo, hi = math.Inf(1), 0
	for _, line := range t.Ops {
		for _, c := range line.Cuts {
			if c.N > 0 {
				lo, hi = min(lo, clampSeconds(c.P50)), max(hi, clampSeconds(c.P99))
			}
		}
		for _, s := range line.Slow {
			lo, hi = min(lo, clampSeconds(s.Latency)), max(hi, clampSeconds(s.Latency))
		}
	}
	if hi == 0 {
		return 0.001, 1
	}
	lo, hi = roundDown(lo), roundUp(hi)
	if hi/lo < 10 {
		hi = lo * 10
	}
	return lo, hi
}

// clampSeconds keeps a value plottable on a log axis: at least 1 µs.
func clampSeconds(d time.Duration) float64 { return max(d, time.Microsecond).Seconds() }

func roundDown(v float64) float64 {
	mag := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{5, 2, 1} {
		if m*mag <= v*1.0000001 {
			return m * mag
		}
	}
	return mag
}

func roundUp(v float64) float64 {
	mag := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*mag >= v*0.9999999 {
			return m * mag
		}
	}
	return 10 * mag
}

func latency(a *measure.Analysis, line measure.OpLine, lo, hi float64) (SVG, error) {
	title := measure.OpTitle(line.Op)
	s := SVG{Name: "latency-" + fileName(string(line.Op)), Title: fmt.Sprintf("Latency of %s over the run: p50 and p99 of the ok ones, slow ones as points, logarithmic", title)}
	f, axis := base(a, title, HalfWidth, 196)
	f.logY(lo, hi)
	t := a.Timeline
	at := func(q func(measure.Cut) time.Duration) func(i int) (float64, float64, bool) {
		return func(i int) (float64, float64, bool) {
			c := line.Cuts[i]
			return middle(axis, t.Buckets[i]), clampSeconds(q(c)), c.N > 0
		}
	}
	var oks, unknowns plotter.XYs
	for _, p := range line.Slow {
		xy := plotter.XY{X: axis.seconds(p.At), Y: clampSeconds(p.Latency)}
		if p.Outcome == history.OK {
			oks = append(oks, xy)
		} else {
			unknowns = append(unknowns, xy)
		}
	}
	f.line("p50", lineStyle(OKColor, 2), len(line.Cuts), at(func(c measure.Cut) time.Duration { return c.P50 }))
	f.line("p99", lineStyle(Tail, 1.6, 5, 2), len(line.Cuts), at(func(c measure.Cut) time.Duration { return c.P99 }))
	f.points("slowest 1 %", draw.GlyphStyle{Color: Tail.rgba(0.6), Radius: 1.9, Shape: draw.CircleGlyph{}}, oks)
	f.points("unknown", draw.GlyphStyle{Color: UnkColor.rgba(1), Radius: 3.2, Shape: boldCross{}}, unknowns)
	return f.draw(axis.frame(s))
}

// boldCross is a cross that can be seen on a band; gonum's is a hair.
type boldCross struct{}

// DrawGlyph draws the cross.
func (boldCross) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, p vg.Point) {
	r, line := sty.Radius, draw.LineStyle{Color: sty.Color, Width: 1.8}
	c.StrokeLine2(line, p.X-r, p.Y-r, p.X+r, p.Y+r)
	c.StrokeLine2(line, p.X-r, p.Y+r, p.X+r, p.Y-r)
}

// fileName keeps what is safe in a file's name.
func fileName(s string) string {
	out := []rune(s)
	for i, r := range out {
		if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-') {
			out[i] = '-'
		}
	}
	return string(out)
}
