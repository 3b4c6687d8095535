package chart

import (
	"fmt"
	"math"
	"time"

	"fencepost/harness/record/history"
	"fencepost/reports/measure"
)

// Width is that of a chart over the page; half of it, less a gap, of one in a
// grid of two columns.
const (
	Width     = 1160.0
	HalfWidth = 572.0
	marginL   = 78.0
	marginR   = 18.0
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

// tick is a place on a time axis, in seconds, with its label.
type tick struct {
	at    float64
	label string
}

func timeTicks(from, to float64, n int) []tick {
	step := timeStep(to-from, n)
	var out []tick
	for i := math.Ceil(from/step - 1e-9); i*step <= to+step*1e-9; i++ {
		at := i*step + 0 // no negative zero
		out = append(out, tick{at, clockLabel(at, step)})
		if len(out) > 200 {
			break
		}
	}
	return out
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

// timeAxis maps instants of a run to x.
type timeAxis struct {
	start    int64 // of the run
	from, to int64
	x0, x1   float64
}

func newTimeAxis(a *measure.Analysis, from, to int64, width float64) timeAxis {
	if to <= from {
		to = from + int64(time.Second)
	}
	return timeAxis{start: a.Start, from: from, to: to, x0: marginL, x1: width - marginR}
}

func (t timeAxis) x(ts int64) float64 {
	f := float64(ts-t.from) / float64(t.to-t.from)
	return t.x0 + min(max(f, 0), 1)*(t.x1-t.x0)
}

func (t timeAxis) seconds(ts int64) float64 { return float64(ts-t.start) / 1e9 }

func (t timeAxis) frame(s SVG) SVG {
	s.X0, s.X1, s.T0, s.T1 = t.x0, t.x1, t.seconds(t.from), t.seconds(t.to)
	return s
}

func (t timeAxis) ticks() []tick {
	return timeTicks(t.seconds(t.from), t.seconds(t.to), int((t.x1-t.x0)/90))
}

func (t timeAxis) at(seconds float64) float64 { return t.x(t.start + int64(seconds*1e9)) }

func (t timeAxis) visible(from, to int64) bool { return to >= t.from && from <= t.to }

// drawAxis draws the ticks with their labels under a lane chart.
func (t timeAxis) drawAxis(d *drawing, top, bottom float64) {
	for _, k := range t.ticks() {
		x := t.at(k.at)
		d.line(x, top, x, bottom, "gr", "")
		d.text(x, bottom+15, "m mid", k.label)
	}
	d.line(t.x0, bottom, t.x1, bottom, "ax", "")
}

// drawFaults draws the faults' bands behind lanes, each with its id.
func (t timeAxis) drawFaults(d *drawing, faults []history.FaultWindow, top, bottom float64) {
	lastX := -1e9
	for _, f := range faults {
		if !t.visible(f.From, f.To) {
			continue
		}
		x, w := t.x(f.From), max(t.x(f.To)-t.x(f.From), 1.5)
		c := FaultColor(f.Fault.Name).Var()
		title := fmt.Sprintf("fault %s: %s, %s to %s of the run", f.Fault.ID, f.Fault.Name, measure.FormatDuration(time.Duration(f.From-t.start)), measure.FormatDuration(time.Duration(f.To-t.start)))
		d.rect(x, top, w, bottom-top, "", "fill:"+c+";opacity:.13", title)
		d.rect(x, top, w, 3, "", "fill:"+c, "")
		if x-lastX > textWidth(f.Fault.ID, 10)+4 {
			d.text(x+2, top-3, "m s", f.Fault.ID)
			lastX = x
		}
	}
}

// drawPhases draws the phases' boundaries.
func (t timeAxis) drawPhases(d *drawing, phases []history.Span, top, bottom float64) {
	for i, p := range phases {
		if i == 0 || p.From < t.from || p.From > t.to {
			continue
		}
		d.line(t.x(p.From), top, t.x(p.From), bottom, "ph", "")
	}
}
