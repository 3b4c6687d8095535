package chart

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Bar is the value of an arm with its interval, in parts if it is made of several.
type Bar struct {
	Label            string
	Value, Low, High float64
	Text             string // the value and its interval as a person reads them
	// Parts are what Value consists of. They are drawn by their share of it: medians of
	// parts do not add up to that of the whole.
	Parts []BarPart
	// Pale is for what is there to judge the others by.
	Pale bool
}

// BarPart is a part of a bar.
type BarPart struct {
	Name  string
	Value float64
}

// barColors are those of parts, in their order.
var barColors = []Color{OKColor, Entitled, Tail}

// Layouts of bars: labels beside them, or above them where a screen is narrow.
type barLayout struct {
	width, left, right, row, above, thick float64
}

var (
	wideBars   = barLayout{width: Width, left: 345, right: 190, row: 28, thick: 14}
	narrowBars = barLayout{width: 346, left: 2, right: 124, row: 42, above: 16, thick: 13}
)

// Bars draws the bars from 0, each with a whisker over its interval. What has no value is
// left out. A narrow drawing is for a phone: it says the same.
func Bars(name, title, about string, bars []Bar, narrow bool) SVG {
	l := wideBars
	if narrow {
		l, name = narrowBars, name+"-narrow"
	}
	s := SVG{Name: name, Title: title + ": " + about, W: l.width}
	var rows []Bar
	legend := map[int]string{}
	top := 0.0
	for _, b := range bars {
		if b.Value <= 0 {
			continue
		}
		rows = append(rows, b)
		top = max(top, b.High, b.Value)
		for i, p := range b.Parts {
			if p.Value > 0 {
				legend[i] = p.Name
			}
		}
	}
	if len(rows) == 0 {
		return s
	}
	step := niceStep(top*1.02, int((l.width-l.left-l.right)/64))
	top = math.Ceil(top*1.02/step) * step
	x := func(v float64) float64 { return l.left + v/top*(l.width-l.left-l.right) }
	var d drawing
	d.text(2, 14, "t", title)
	d.text(2, 30, "m", about)
	y := 40.0
	if len(legend) > 1 {
		at := 2.0
		for _, i := range slices.Sorted(maps.Keys(legend)) {
			name := legend[i]
			d.rect(at, y, 12, 10, "", "fill:"+barColors[i%len(barColors)].Var(), "")
			d.text(at+17, y+9, "m", name)
			at += 17 + textWidth(name, 11) + 18
		}
		y += 20
	}
	bottom := y + float64(len(rows))*l.row
	for i := 0.0; i*step <= top+1e-9; i++ {
		d.line(x(i*step), y, x(i*step), bottom, "gr", "")
		label := trimFloat(i * step)
		half := textWidth(label, 11)/2 + 1
		d.text(min(max(x(i*step), half), l.width-half), bottom+15, "m mid", label)
	}
	for _, b := range rows {
		b.draw(&d, l, x, y)
		y += l.row
	}
	d.line(l.left, y-float64(len(rows))*l.row, l.left, bottom, "ax", "")
	s.H, s.body = bottom+22, d.b.String()
	return s
}

// draw draws one bar in its row, whose top is y.
func (b Bar) draw(d *drawing, l barLayout, x func(float64) float64, y float64) {
	top := y + l.above + (l.row-l.above-l.thick)/2
	mid := top + l.thick/2
	if l.above > 0 {
		d.text(l.left, y+l.above-2, "", clip(b.Label, l.width-l.left, 11))
	} else {
		d.text(l.left-12, mid+4, "end", clip(b.Label, l.left-16, 11))
	}
	d.text(x(max(b.High, b.Value))+10, mid+4, "b halo", b.Text)
	opacity := ""
	if b.Pale {
		opacity = ";opacity:.5"
	}
	parts, sum := b.Parts, 0.0
	if len(parts) == 0 {
		parts = []BarPart{{"", b.Value}}
	}
	for _, p := range parts {
		sum += p.Value
	}
	from := 0.0
	for i, p := range parts {
		if p.Value <= 0 {
			continue
		}
		to := from + p.Value/sum*b.Value
		title := b.Label + ": " + b.Text
		if p.Name != "" {
			title = fmt.Sprintf("%s, %s: %.3g", b.Label, p.Name, p.Value)
		}
		w := max(x(to)-x(from), 0.5)
		d.rect(x(from), top, w, l.thick, "bar", "fill:"+barColors[i%len(barColors)].Var()+opacity, title)
		if p.Name != "" && !b.Pale && w > textWidth(p.Name, 10)+10 && l.above == 0 {
			d.text(x(from)+5, mid+3.5, "inbar s", p.Name)
		}
		from = to
	}
	for _, style := range []string{"stroke:" + Card.Var() + ";stroke-width:4", "stroke:" + Ink.Var() + ";stroke-width:1.5"} {
		d.path(fmt.Sprintf("M%s %sV%sM%[1]s %[4]sH%[5]sM%[5]s %[2]sV%[3]s", num(x(b.Low)), num(mid-4), num(mid+4), num(mid), num(x(b.High))),
			"", style+";fill:none", "")
	}
}
