package chart

import (
	"fmt"
	"math"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// figure is a chart drawn with gonum's scales, plotters and canvas in a frame of
// our own: gonum's makes room for its labels, so charts would not line up.
type figure struct {
	plot     *plot.Plot
	w, h     float64
	canvas   *vgsvg.Canvas
	data     draw.Canvas
	title    string
	legend   []legendItem
	yTicks   []plot.Tick
	xTicks   []tick
	behind   []plot.Plotter
	plotters []plot.Plotter
	below    bool // the legend has a row of its own below the title
}

type legendItem struct {
	label string
	line  *draw.LineStyle
	glyph *draw.GlyphStyle
}

// Margins of curve charts: the title and legend above, tick labels below.
const (
	marginTop    = 34.0
	marginBottom = 26.0
	legendRow    = 20.0
)

func newFigure(title string, w, h float64) *figure {
	f := &figure{plot: plot.New(), w: w, h: h, title: title}
	f.canvas = vgsvg.NewWith(vgsvg.UseWH(vg.Length(w), vg.Length(h)))
	f.data = draw.Crop(draw.New(f.canvas), marginL, -marginR, marginBottom, -marginTop)
	return f
}

// legendBelow gives the legend a row of its own.
func (f *figure) legendBelow() *figure {
	f.below = true
	f.data = draw.Crop(f.data, 0, 0, 0, -legendRow)
	return f
}

func textStyle(size float64, c Color, bold bool, x text.XAlignment) text.Style {
	fnt := font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Length(size)}
	if bold {
		fnt.Weight = 3 // bold, by golang.org/x/image/font
	}
	return text.Style{Color: c.rgba(1), Font: fnt, Handler: plot.DefaultTextHandler, XAlign: x, YAlign: draw.YCenter}
}

func lineStyle(c Color, width float64, dashes ...float64) draw.LineStyle {
	s := draw.LineStyle{Color: c.rgba(1), Width: vg.Length(width)}
	for _, d := range dashes {
		s.Dashes = append(s.Dashes, vg.Length(d))
	}
	return s
}

// draw renders the figure. gonum panics on what it cannot plot; that becomes an error.
func (f *figure) draw(s SVG) (out SVG, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("plot %s: %v", s.Name, r)
		}
	}()
	for _, p := range f.behind {
		p.Plot(f.data, f.plot)
	}
	f.drawGrid()
	for _, p := range f.plotters {
		p.Plot(f.data, f.plot)
	}
	f.drawHead()
	var b strings.Builder
	if _, err := f.canvas.WriteTo(&b); err != nil {
		return SVG{}, err
	}
	s.W, s.H = f.w, f.h
	return themed(b.String(), s), nil
}

func (f *figure) drawGrid() {
	c := f.data
	trX, trY := f.plot.Transforms(&c)
	label := textStyle(11, Muted, false, draw.XRight)
	for _, t := range f.yTicks {
		y := trY(t.Value)
		if !c.ContainsY(y) {
			continue
		}
		c.StrokeLine2(lineStyle(Grid, 1), c.Min.X, y, c.Max.X, y)
		if t.Label != "" {
			c.FillText(label, vg.Point{X: c.Min.X - 8, Y: y}, t.Label)
		}
	}
	label = textStyle(11, Muted, false, draw.XCenter)
	for _, t := range f.xTicks {
		x := trX(t.at)
		if !c.ContainsX(x) {
			continue
		}
		c.StrokeLine2(lineStyle(Line, 1), x, c.Min.Y, x, c.Min.Y-4)
		c.FillText(label, vg.Point{X: x, Y: c.Min.Y - 14}, t.label)
	}
	c.StrokeLine2(lineStyle(Line, 1), c.Min.X, c.Min.Y, c.Max.X, c.Min.Y)
}

func (f *figure) drawHead() {
	c := draw.New(f.canvas)
	y := vg.Length(f.h - 13)
	c.FillText(textStyle(12.5, Ink, true, draw.XLeft), vg.Point{X: 2, Y: y}, f.title)
	sty := textStyle(11, Muted, false, draw.XLeft)
	var width vg.Length
	for _, it := range f.legend {
		width += sty.Width(it.label) + it.mark() + legendGap
	}
	x := vg.Length(f.w-marginR) - width + legendGap
	if f.below {
		x, y = marginL, y-legendRow
	}
	for _, it := range f.legend {
		if it.line != nil {
			c.StrokeLine2(*it.line, x, y, x+20, y)
		}
		if it.glyph != nil {
			c.DrawGlyph(*it.glyph, vg.Point{X: x + 5, Y: y})
		}
		x += it.mark()
		c.FillText(sty, vg.Point{X: x, Y: y}, it.label)
		x += sty.Width(it.label) + legendGap
	}
}

const legendGap = 16

// mark is the width of a legend's line or glyph with the space after it.
func (it legendItem) mark() vg.Length {
	if it.line != nil {
		return 26
	}
	return 16
}

// line adds a curve that is broken where ok says there is no value; a value
// between two gaps is a dot.
func (f *figure) line(label string, sty draw.LineStyle, n int, at func(i int) (x, y float64, ok bool)) {
	var run plotter.XYs
	dot := draw.GlyphStyle{Color: sty.Color, Radius: sty.Width * 1.1, Shape: draw.CircleGlyph{}}
	flush := func() {
		switch {
		case len(run) == 1:
			f.plotters = append(f.plotters, &plotter.Scatter{XYs: run, GlyphStyle: dot})
		case len(run) > 1:
			f.plotters = append(f.plotters, &plotter.Line{XYs: run, LineStyle: sty})
		}
		run = nil
	}
	for i := range n {
		x, y, ok := at(i)
		if !ok {
			flush()
			continue
		}
		run = append(run, plotter.XY{X: x, Y: y})
	}
	flush()
	if label != "" {
		f.legend = append(f.legend, legendItem{label: label, line: &sty})
	}
}

// points adds marks.
func (f *figure) points(label string, sty draw.GlyphStyle, xys plotter.XYs) {
	if len(xys) == 0 {
		return
	}
	f.plotters = append(f.plotters, &plotter.Scatter{XYs: xys, GlyphStyle: sty})
	if label != "" {
		f.legend = append(f.legend, legendItem{label: label, glyph: &sty})
	}
}

// linearY sets a y axis from 0 to a round value above top.
func (f *figure) linearY(top float64, parts int) {
	step := niceStep(max(top, 1e-9), parts)
	n := max(math.Ceil(top/step-1e-9), 1)
	f.plot.Y.Min, f.plot.Y.Max = 0, n*step
	for i := 0.0; i <= n; i++ {
		f.yTicks = append(f.yTicks, plot.Tick{Value: i * step, Label: trimFloat(i * step)})
	}
}

func trimFloat(v float64) string {
	s := fmt.Sprintf("%.3f", v)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

// logY sets a logarithmic axis of durations in seconds. Both ends must be > 0.
func (f *figure) logY(lo, hi float64) {
	f.plot.Y.Scale = plot.LogScale{}
	f.plot.Y.Min, f.plot.Y.Max = lo, hi
	decades := math.Log10(hi / lo)
	for e := math.Floor(math.Log10(lo) - 1e-9); e <= math.Ceil(math.Log10(hi)); e++ {
		for _, m := range []float64{1, 2, 5} {
			v := m * math.Pow(10, e)
			if v < lo*0.999 || v > hi*1.001 || m != 1 && decades > 1.7 {
				continue
			}
			f.yTicks = append(f.yTicks, plot.Tick{Value: v, Label: secondsLabel(v)})
		}
	}
}

func secondsLabel(v float64) string {
	d := time.Duration(math.Round(v*1e6)) * time.Microsecond
	switch {
	case d >= time.Second:
		return trimFloat(d.Seconds()) + " s"
	case d >= time.Millisecond:
		return trimFloat(float64(d)/1e6) + " ms"
	}
	return trimFloat(float64(d)/1e3) + " µs"
}
