package chart

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"fencepost/reports/measure"
)

// BenchLatency is an arm's latencies of its ok operations; all 0 if none were recorded.
type BenchLatency struct {
	Label              string
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

const (
	benchL   = 345.0
	benchRow = 26.0
)

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
		d.rect(x(l.Min), y-3, max(x(l.Max)-x(l.Min), 1), 6, "", "fill:var(--ok);opacity:.28",
			fmt.Sprintf("%s: median %.2f, %.2f to %.2f over %d rounds", l.Label, l.Median, l.Min, l.Max, len(l.Rounds)))
		for _, r := range l.Rounds {
			d.raw(fmt.Sprintf(`<circle cx="%s" cy="%s" r="2.4" class="o-ok"><title>round %d: %.3f</title></circle>`, num(x(r.Value)), num(y),
				r.Round, r.Value))
		}
		d.rect(x(l.Median)-1.5, y-9, 3, 18, "mark", "", "")
		d.text(x(l.Max)+10, y+4, "b halo", fmt.Sprintf("%.2f", l.Median))
	}
	s.H, s.body = bottom+34, d.b.String()
	return s
}

// BenchLatencies draws each arm's p50, p95, p99 and maximum on a log axis.
func BenchLatencies(lines []BenchLatency) SVG {
	s := SVG{Name: "latencies", Title: "Latency by arm: p50, p95, p99 and maximum, logarithmic", W: Width}
	lo, hi := math.Inf(1), 0.0
	var rows []BenchLatency
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
		title := fmt.Sprintf("%s: p50 %s, p95 %s, p99 %s, maximum %s", l.Label, measure.FormatDuration(l.P50), measure.FormatDuration(l.P95),
			measure.FormatDuration(l.P99), measure.FormatDuration(l.Top))
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

func trimFloat(v float64) string { return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) }
