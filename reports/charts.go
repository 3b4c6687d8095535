package reports

import (
	"fmt"
	"html/template"
	"time"

	"fencepost/reports/chart"
	"fencepost/reports/measure"
)

type zoomView struct {
	Title   string
	Drawing template.HTML
}

// Bounds of the zoomed lane charts, one a fault.
const (
	maxZooms = 4
	// zoomShare is the part of the run above which a zoom shows nothing new.
	zoomShare = 0.6
)

// drawn is every chart of a run: for the page and, as files, for elsewhere.
type drawn struct {
	strip, holders   chart.SVG
	rates, latencies []chart.SVG
	zooms            []chart.SVG
}

func (r *run) draw() (drawn, error) {
	a := r.analysis
	var d drawn
	if r.history == nil || a.End <= a.Start {
		return d, nil
	}
	d.strip = chart.Strip(a)
	cycles, err := chart.Cycles(a)
	if err != nil {
		return d, err
	}
	outcomes, err := chart.Outcomes(a)
	if err != nil {
		return d, err
	}
	d.rates = []chart.SVG{cycles, outcomes}
	if d.latencies, err = chart.Latencies(a); err != nil {
		return d, err
	}
	d.holders = chart.Holders(a, "holders", "Who held each lock over the run", a.Start, a.End)
	for _, f := range a.Faults {
		if len(d.zooms) == maxZooms {
			break
		}
		from := max(f.From-int64(time.Second), a.Start)
		to := min(f.To+int64(max(r.info.TTL, 2*time.Second)), a.End)
		if float64(to-from) > zoomShare*float64(a.End-a.Start) {
			continue
		}
		title := fmt.Sprintf("Around fault %s (%s)", f.Fault.ID, f.Fault.Name)
		if z := chart.Holders(a, "holders-"+f.Fault.ID, title, from, to); !z.Empty() {
			d.zooms = append(d.zooms, z)
		}
	}
	return d, nil
}

// files are the charts that are worth having as files, with their names.
func (d drawn) files() []chart.SVG {
	var out []chart.SVG
	all := append([]chart.SVG{d.strip}, d.rates...)
	all = append(append(all, d.latencies...), d.holders)
	for _, s := range append(all, d.zooms...) {
		if !s.Empty() {
			out = append(out, s)
		}
	}
	return out
}

// pointerData is what the page's script shows beside the pointer: the numbers
// behind the curves, nothing that the page does not also say without it.
type pointerData struct {
	Width  float64         `json:"width"` // of a bucket, in seconds
	Rates  [][4]float64    `json:"rates"` // a bucket: cycles/s, ok/s, fail/s, unknown/s
	Ops    []pointerOp     `json:"ops"`
	Phases []pointerWindow `json:"phases"`
	Faults []pointerWindow `json:"faults"`
}

type pointerOp struct {
	Name string       `json:"name"`
	Cuts [][3]float64 `json:"cuts"` // a bucket: n, p50 and p99 in ms
}

type pointerWindow struct {
	Name string  `json:"name"`
	From float64 `json:"from"` // seconds of the run
	To   float64 `json:"to"`
}

func (r *run) pointer() pointerData {
	a := r.analysis
	t := a.Timeline
	d := pointerData{Width: t.Width.Seconds(), Rates: [][4]float64{}, Ops: []pointerOp{}, Phases: []pointerWindow{}, Faults: []pointerWindow{}}
	per := func(n int, b measure.Bucket) float64 { return round(float64(n) / b.Seconds) }
	for _, b := range t.Buckets {
		d.Rates = append(d.Rates, [4]float64{per(b.Cycles, b), per(b.OK, b), per(b.Fail, b), per(b.Unknown, b)})
	}
	for _, l := range t.Ops {
		op := pointerOp{Name: measure.OpTitle(l.Op)}
		for _, c := range l.Cuts {
			op.Cuts = append(op.Cuts, [3]float64{float64(c.N), round(float64(c.P50) / 1e6), round(float64(c.P99) / 1e6)})
		}
		d.Ops = append(d.Ops, op)
	}
	at := func(ts int64) float64 { return round(float64(ts-a.Start) / 1e9) }
	for _, p := range a.Phases {
		d.Phases = append(d.Phases, pointerWindow{p.Name, at(p.From), at(p.To)})
	}
	for _, f := range a.Faults {
		d.Faults = append(d.Faults, pointerWindow{f.Fault.ID + " " + f.Fault.Name, at(f.From), at(f.To)})
	}
	return d
}

func round(v float64) float64 { return float64(int64(v*1000+0.5)) / 1000 }

func inline(svgs []chart.SVG) []template.HTML {
	var out []template.HTML
	for _, s := range svgs {
		if !s.Empty() {
			out = append(out, s.Inline())
		}
	}
	return out
}
