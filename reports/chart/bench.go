package chart

import (
	"fmt"
	"math"
	"time"

	"gonum.org/v1/plot/vg/draw"

	"fencepost/reports/measure"
)

// BenchLine is one arm of a benchmark over its rounds.
type BenchLine struct {
	Label string
	Rates []RoundValue // ops/s
	// Latencies of the ok operations; all 0 if none were recorded.
	P50, P95, P99, Top time.Duration
}

// BenchRatio is an arm by another, one value a round in which both ran; empty for
// an arm that is compared with none.
type BenchRatio struct {
	Label            string
	Rounds           []RoundValue
	Median, Min, Max float64
}

// RoundValue is a value of one round.
type RoundValue struct {
	Round int
	Value float64
}

// BenchCurve is throughput by number of clients, everything else equal.
type BenchCurve struct {
	Label  string
	Points []BenchPoint
}

// BenchPoint is a median with its spread over the rounds.
type BenchPoint struct {
	Threads          int
	Median, Min, Max float64
}

const (
	benchL    = 270.0
	benchRow  = 26.0
	maxCurves = 6
)

// curveStyles tell curves apart by colour and dash.
var curveStyles = []struct {
	c      Color
	dashes []float64
}{
	{OKColor, nil}, {Tail, []float64{6, 3}}, {UnkColor, []float64{2, 2}}, {Good, []float64{8, 2, 2, 2}}, {BadColor, []float64{4, 2}}, {Entitled, []float64{1, 2}},
}

// BenchRatios draws each arm's ratio to another, which one names: a dot a round, a
// bar from the least to the greatest, a tick at the median.
func BenchRatios(name, title, one string, lines []BenchRatio) SVG {
	s := SVG{Name: name, Title: title, W: Width}
	var rows []BenchRatio
	top := 1.0
	for _, l := range lines {
		if len(l.Rounds) > 0 {
			rows = append(rows, l)
			top = max(top, l.Max)
		}
	}
	if len(rows) == 0 {
		return s
	}
	step := niceStep(top*1.02, 8)
	top = math.Ceil(top*1.02/step) * step
	x := func(v float64) float64 { return benchL + v/top*(Width-benchL-60) }
	bottom := 26 + float64(len(rows))*benchRow
	var d drawing
	d.text(2, 14, "t", s.Title)
	for i := 0.0; i*step <= top+1e-9; i++ {
		d.line(x(i*step), 22, x(i*step), bottom, "gr", "")
		d.text(x(i*step), bottom+15, "m mid", trimFloat(i*step))
	}
	d.line(x(1), 22, x(1), bottom, "ph", "stroke-dasharray:4 3")
	d.text(x(1), bottom+28, "m mid s", one)
	for i, l := range rows {
		y := 26 + (float64(i)+0.5)*benchRow
		d.text(benchL-12, y+4, "end", clip(l.Label, benchL-16, 11))
		d.rect(x(l.Min), y-3, max(x(l.Max)-x(l.Min), 1), 6, "", "fill:var(--ok);opacity:.28", fmt.Sprintf("%s: median %.2f, %.2f to %.2f over %d rounds", l.Label, l.Median, l.Min, l.Max, len(l.Rounds)))
		for _, r := range l.Rounds {
			d.raw(fmt.Sprintf(`<circle cx="%s" cy="%s" r="2.4" class="o-ok"><title>round %d: %.3f</title></circle>`, num(x(r.Value)), num(y), r.Round, r.Value))
		}
		d.rect(x(l.Median)-1.5, y-9, 3, 18, "mark", "", "")
		d.text(x(l.Max)+10, y+4, "b halo", fmt.Sprintf("%.2f", l.Median))
	}
	s.H, s.body = bottom+34, d.b.String()
	return s
}

// BenchLatencies draws each arm's p50, p95, p99 and maximum on a log axis.
func BenchLatencies(lines []BenchLine) SVG {
	s := SVG{Name: "latencies", Title: "Latency by arm: p50, p95, p99 and maximum, logarithmic", W: Width}
	lo, hi := math.Inf(1), 0.0
	var rows []BenchLine
	for _, l := range lines {
		if l.P50 > 0 {
			rows = append(rows, l)
			lo, hi = min(lo, l.P50.Seconds()), max(hi, l.Top.Seconds())
		}
	}
	if len(rows) == 0 {
		return s
	}
	lo, hi = roundDown(lo), max(roundUp(hi), roundDown(lo)*10)
	x := func(v float64) float64 {
		return benchL + math.Log10(v/lo)/math.Log10(hi/lo)*(Width-benchL-40)
	}
	bottom := 26 + float64(len(rows))*benchRow
	var d drawing
	d.text(2, 14, "t", s.Title)
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); v >= lo*0.999 && v <= hi*1.001 {
				d.line(x(v), 22, x(v), bottom, "gr", "")
				d.text(x(v), bottom+15, "m mid", secondsLabel(v))
			}
		}
	}
	for i, l := range rows {
		y := 26 + (float64(i)+0.5)*benchRow
		title := fmt.Sprintf("%s: p50 %s, p95 %s, p99 %s, maximum %s", l.Label, measure.FormatDuration(l.P50), measure.FormatDuration(l.P95), measure.FormatDuration(l.P99), measure.FormatDuration(l.Top))
		d.text(benchL-12, y+4, "end", clip(l.Label, benchL-16, 11))
		p50, p95, p99, top := x(l.P50.Seconds()), x(l.P95.Seconds()), x(l.P99.Seconds()), x(l.Top.Seconds())
		d.line(p50, y, top, y, "lead", "")
		d.rect(p50, y-5, max(p95-p50, 2), 10, "o-ok", "", title)
		d.rect(p95, y-5, max(p99-p95, 1), 10, "", "fill:var(--ok);opacity:.45", title)
		d.rect(p99-1, y-8, 2.5, 16, "", "fill:var(--tail)", title)
		d.rect(top-1, y-4, 2, 8, "many", "", title)
	}
	d.text(benchL, bottom+32, "m s", "solid: p50 to p95 · pale: to p99 · tick: p99 · line: to the maximum")
	s.H, s.body = bottom+38, d.b.String()
	return s
}

// BenchRounds draws throughput by round: how steady the machine was.
func BenchRounds(lines []BenchLine) (SVG, error) {
	s := SVG{Name: "rounds", Title: "Operations per second by round"}
	last, top := 0, 0.0
	for _, l := range lines {
		for _, r := range l.Rates {
			last, top = max(last, r.Round), max(top, r.Value)
		}
	}
	if last < 2 {
		return s, nil
	}
	f := newFigure(s.Title, Width, 240).legendBelow()
	f.plot.X.Min, f.plot.X.Max = 0.5, float64(last)+0.5
	step := max(niceStep(float64(last), 20), 1)
	for i := step; i <= float64(last); i += step {
		f.xTicks = append(f.xTicks, tick{i, trimFloat(i)})
	}
	f.linearY(top, 4)
	for i, l := range lines[:min(len(lines), maxCurves)] {
		st := curveStyles[i%len(curveStyles)]
		f.line(shortLabel(l.Label), lineStyle(st.c, 1.8, st.dashes...), len(l.Rates), func(i int) (float64, float64, bool) {
			return float64(l.Rates[i].Round), l.Rates[i].Value, true
		})
	}
	return f.draw(s)
}

// BenchScaling draws throughput by number of clients.
func BenchScaling(curves []BenchCurve) (SVG, error) {
	s := SVG{Name: "scaling", Title: "Operations per second by number of clients"}
	top, most, fewest := 0.0, 0, math.MaxInt
	for _, c := range curves {
		for _, p := range c.Points {
			top, most, fewest = max(top, p.Max), max(most, p.Threads), min(fewest, p.Threads)
		}
	}
	if most <= fewest {
		return s, nil
	}
	f := newFigure(s.Title+" (bars: least to greatest round)", Width, 270).legendBelow()
	pad := float64(most-fewest) * 0.05
	f.plot.X.Min, f.plot.X.Max = float64(fewest)-pad, float64(most)+pad
	seen := map[int]bool{}
	for _, c := range curves {
		for _, p := range c.Points {
			if !seen[p.Threads] {
				seen[p.Threads] = true
				f.xTicks = append(f.xTicks, tick{float64(p.Threads), fmt.Sprint(p.Threads)})
			}
		}
	}
	f.linearY(top, 5)
	for i, c := range curves[:min(len(curves), maxCurves)] {
		st := curveStyles[i%len(curveStyles)]
		sty := lineStyle(st.c, 2, st.dashes...)
		f.line(shortLabel(c.Label), sty, len(c.Points), func(i int) (float64, float64, bool) {
			return float64(c.Points[i].Threads), c.Points[i].Median, true
		})
		for _, p := range c.Points {
			f.line("", lineStyle(st.c, 1), 2, func(i int) (float64, float64, bool) {
				return float64(p.Threads), []float64{p.Min, p.Max}[i], true
			})
			f.line("", draw.LineStyle{Color: st.c.rgba(1), Width: 3}, 1, func(int) (float64, float64, bool) { return float64(p.Threads), p.Median, true })
		}
	}
	return f.draw(s)
}

func shortLabel(s string) string { return clip(s, 185, 11) }
