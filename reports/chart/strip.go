package chart

import (
	"fmt"
	"strings"
	"time"

	"fencepost/harness/record/history"
	"fencepost/reports/measure"
)

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
