package chart

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"fencepost/harness/record/history"
	"fencepost/reports/measure"
)

// Width is that of a drawing.
const (
	Width   = 1160.0
	marginL = 78.0
	marginR = 18.0
)

// niceStep is a round step that cuts span into at most n parts.
func niceStep(span float64, n int) float64 {
	if span <= 0 || n < 1 {
		return 1
	}
	raw := span / float64(n)
	mag := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, f := range []float64{1, 2, 5, 10} {
		if raw <= f*mag*1.0000001 {
			return f * mag
		}
	}
	return 10 * mag
}

// timeSteps are round steps of a time axis from a second upwards, in seconds.
var timeSteps = []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400}

func timeStep(span float64, n int) float64 {
	if span < float64(n) {
		return niceStep(span, n)
	}
	for _, s := range timeSteps {
		if span/s <= float64(n) {
			return s
		}
	}
	return niceStep(span/3600, n) * 3600
}

// clockLabel writes seconds of a run as "12 s", "0.25 s" or "3:30".
func clockLabel(s, step float64) string {
	if math.Abs(s) < 120 || step < 1 {
		prec := 0
		for p := step; p < 0.999 && prec < 6; p *= 10 {
			prec++
		}
		if s == 0 {
			prec = 0
		}
		return fmt.Sprintf("%.*f s", prec, s)
	}
	n := int(math.Round(s))
	if n >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", n/3600, n/60%60, n%60)
	}
	return fmt.Sprintf("%d:%02d", n/60, n%60)
}

// Breaks of a time axis: at most so many, each so wide, for a gap of more than
// this share of what is left, while the typical bar is narrower than wanted.
const (
	maxBreaks  = 4
	breakWidth = 62.0
	breakShare = 0.30
	wantedBar  = 24.0
)

// brokenAxis is a time axis that leaves out long stretches in which nothing
// begins or ends, so that milliseconds around a lease of seconds can be read.
// Between the breaks it is to scale.
type brokenAxis struct {
	start  int64 // of the run
	x0, x1 float64
	segs   []segment
	scale  float64 // drawing units per ns, outside the breaks
}

type segment struct {
	from, to int64
	x, w     float64
	broken   bool
}

// newBrokenAxis spreads the instants at (unsorted) over x0 to x1. typical is the
// length of what should be wide enough to see; 0 if nothing has a length.
func newBrokenAxis(start int64, at []int64, typical int64, x0, x1 float64) brokenAxis {
	at = slices.Clone(at)
	slices.Sort(at)
	at = slices.Compact(at)
	if len(at) == 0 {
		at = []int64{start}
	}
	if len(at) == 1 {
		at = []int64{at[0] - int64(time.Millisecond), at[0], at[0] + int64(time.Millisecond)}
	}
	pad := max((at[len(at)-1]-at[0])/40, int64(50*time.Microsecond))
	b := brokenAxis{start: start, x0: x0, x1: x1}
	broken := longGaps(at, typical, x1-x0)
	rest := 2 * pad
	for i := 1; i < len(at); i++ {
		if broken[i] {
			pad = min(pad, rest/4) // the padding's share shrinks with what is left
		} else {
			rest += at[i] - at[i-1]
		}
	}
	pad = max(min(pad, rest/12), int64(20*time.Microsecond))
	rest = 2 * pad
	for i := 1; i < len(at); i++ {
		if !broken[i] {
			rest += at[i] - at[i-1]
		}
	}
	b.scale = (x1 - x0 - float64(len(broken))*breakWidth) / float64(rest)
	x := x0
	add := func(from, to int64, brk bool) {
		w := float64(to-from) * b.scale
		if brk {
			w = breakWidth
		}
		b.segs = append(b.segs, segment{from, to, x, w, brk})
		x += w
	}
	from := at[0] - pad
	for i := 1; i < len(at); i++ {
		if broken[i] {
			add(from, at[i-1], false)
			add(at[i-1], at[i], true)
			from = at[i]
		}
	}
	add(from, at[len(at)-1]+pad, false)
	return b
}

// longGaps picks the gaps (by the index of their end) to leave out: again and
// again the longest, while it is a large share of what would be drawn to scale.
func longGaps(at []int64, typical int64, width float64) map[int]bool {
	broken := map[int]bool{}
	rest := at[len(at)-1] - at[0]
	for len(broken) < maxBreaks && len(at) > 3 {
		if scale := (width - float64(len(broken))*breakWidth) / float64(rest); float64(typical)*scale >= wantedBar {
			break
		}
		best, gap := 0, int64(0)
		for i := 1; i < len(at); i++ {
			if !broken[i] && at[i]-at[i-1] > gap {
				best, gap = i, at[i]-at[i-1]
			}
		}
		if best == 0 || float64(gap) < breakShare*float64(rest) || rest-gap <= 0 {
			break
		}
		broken[best] = true
		rest -= gap
	}
	return broken
}

func (b brokenAxis) from() int64 { return b.segs[0].from }
func (b brokenAxis) to() int64   { return b.segs[len(b.segs)-1].to }

func (b brokenAxis) x(ts int64) float64 {
	for _, s := range b.segs {
		if ts <= s.to {
			if ts <= s.from {
				return s.x
			}
			return s.x + float64(ts-s.from)/float64(s.to-s.from)*s.w
		}
	}
	return b.x1
}

// breakAfter is the left edge of the first break beyond x.
func (b brokenAxis) breakAfter(x float64) float64 {
	for _, s := range b.segs {
		if edge := s.x + s.w/2 - 10; s.broken && edge > x-20 {
			return edge
		}
	}
	return b.x1
}

func (b brokenAxis) clampX(ts int64) float64 { return b.x(min(max(ts, b.from()), b.to())) }

// draw draws the ticks between top and bottom. A label that would run into
// another or into that of a break is left out.
func (b brokenAxis) draw(d *drawing, top, bottom float64) {
	var rest float64
	var taken []float64 // middles of labels
	for _, s := range b.segs {
		if s.broken {
			taken = append(taken, s.x+s.w/2)
		} else {
			rest += float64(s.to-s.from) / 1e9
		}
	}
	free := func(x float64) bool {
		return !slices.ContainsFunc(taken, func(t float64) bool { return math.Abs(t-x) < 66 })
	}
	step := niceStep(rest, 9)
	for _, s := range b.segs {
		if s.broken {
			continue
		}
		from, to := float64(s.from-b.start)/1e9, float64(s.to-b.start)/1e9
		for i := math.Ceil(from / step); i*step <= to; i++ {
			x := b.x(b.start + int64(i*step*1e9))
			d.line(x, top, x, bottom, "gr", "")
			if lx := min(max(x, b.x0+20), b.x1-20); free(lx) {
				d.text(lx, bottom+15, "m mid", clockLabel(i*step+0, min(step, 0.999)))
				taken = append(taken, lx)
			}
		}
	}
	d.line(b.x0, bottom, b.x1, bottom, "ax", "")
}

// drawBreaks covers what lies in the breaks. Labels come after it: a label may
// stand over a break, a bar may not.
func (b brokenAxis) drawBreaks(d *drawing, top, bottom float64) {
	for _, s := range b.segs {
		if !s.broken {
			continue
		}
		mid := s.x + s.w/2
		d.rect(mid-7, top, 14, bottom-top+4, "brk", "", "")
		for _, dx := range []float64{-7, 7} {
			zig := "M" + num(mid+dx) + " " + num(top)
			for y, k := top, 0; y < bottom+4; y, k = y+8, k+1 {
				zig += "l" + num([]float64{3, -3}[k%2]) + " " + num(min(8, bottom+4-y))
			}
			d.path(zig, "brkline", "", "")
		}
		d.text(mid, bottom+15, "m mid s", measure.FormatDuration(time.Duration(s.to-s.from))+" cut")
	}
}

// maxStripFaults bounds the rows of the strip.
const maxStripFaults = 12

// Strip draws the run's phases and one row a fault: the key to the bands of the
// other charts.
func Strip(a *measure.Analysis) SVG {
	s := SVG{Name: "phases", Title: "Phases of the run and the windows of its faults", W: Width}
	if len(a.Phases) == 0 && len(a.Faults) == 0 {
		return s
	}
	x0, x1, length := marginL, Width-marginR, float64(max(a.End-a.Start, 1))
	x := func(ts int64) float64 { return x0 + min(max(float64(ts-a.Start)/length, 0), 1)*(x1-x0) }
	var d drawing
	y := 6.0
	if len(a.Phases) > 0 {
		d.text(2, y+14, "m", "phase")
		for i, p := range a.Phases {
			if p.From > a.End && i > 0 {
				continue
			}
			from, w := x(p.From), x(p.To)-x(p.From)
			style := "fill:var(--sunken);stroke:var(--line)"
			if p.Name == history.PhaseFault {
				style = "fill:var(--line);stroke:var(--line)"
			}
			d.rect(from, y, w, 20, "", style, fmt.Sprintf("%s: %s", p.Name, measure.FormatDuration(time.Duration(p.To-p.From))))
			if l := clip(p.Name, w-6, 11); l != "" {
				d.text(from+w/2, y+14, "mid b", l)
			}
		}
		y += 26
	}
	for _, f := range a.Faults[:min(len(a.Faults), maxStripFaults)] {
		from := x(f.From)
		w := max(x(f.To)-from, 3)
		d.text(2, y+12, "m", f.Fault.ID)
		d.line(x0, y+8, x1, y+8, "gr", "")
		label := f.Fault.Name
		if len(f.Fault.Targets) > 0 {
			label += " " + strings.Join(f.Fault.Targets, ", ")
		}
		d.rect(from, y+2, w, 12, "", "fill:"+FaultColor(f.Fault.Name).Var(), label)
		lw := textWidth(label, 11)
		if from+w+6+lw < x1 {
			d.text(from+w+6, y+12, "halo", label)
		} else {
			d.text(max(from-6, x0+lw), y+12, "halo end", label)
		}
		y += 18
	}
	if n := len(a.Faults) - maxStripFaults; n > 0 {
		d.text(x0, y+12, "m", fmt.Sprintf("and %d more: see the table of faults", n))
		y += 18
	}
	for step, i := timeStep(length/1e9, 11), 0.0; i*step <= length/1e9; i++ {
		at := x(a.Start + int64(i*step*1e9))
		d.line(at, y, at, y+2, "gr", "")
		d.text(at, y+17, "m mid", clockLabel(i*step, step))
	}
	d.line(x0, y+2, x1, y+2, "ax", "")
	s.H, s.body = y+24, d.b.String()
	return s
}
