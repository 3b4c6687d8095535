package chart

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/harness/record/history"
	"fencepost/reports/measure"
)

// Kinds of what a curve runs over. The script labels them.
const (
	OverTime        = "time" // seconds since the chart's begin
	OverPercentiles = "percentile"
	OverRounds      = "round"
	OverClients     = "clients"
	OverResults     = "result" // their numbers from 0, which Names label
)

// Curves is a chart of lines that the page's script draws (templates/curves.js). Its
// JSON is what that script reads.
type Curves struct {
	Title  string  `json:"title"`
	Height int     `json:"height"` // in CSS pixels
	Over   string  `json:"over"`
	From   float64 `json:"from"` // bounds of x
	To     float64 `json:"to"`
	// Durations says that values are seconds on a logarithmic axis from Low to High, and
	// that 0 is none. Others are numbers from 0, to High if it is given.
	Durations bool    `json:"durations,omitempty"`
	Low       float64 `json:"low,omitempty"`
	High      float64 `json:"high,omitempty"`

	Names   []string     `json:"names,omitempty"` // of results
	Lines   []Curve      `json:"lines"`
	Dots    [][2]float64 `json:"dots,omitempty"`
	Crosses [][2]float64 `json:"crosses,omitempty"`
	Bands   []Band       `json:"bands,omitempty"`
}

// Curve is a line with its points in the order of X. Without a colour it takes one by its
// place, and a dash.
type Curve struct {
	Label string    `json:"label"`
	Color string    `json:"color,omitempty"` // a name of the palette
	Dash  []float64 `json:"dash,omitempty"`
	Fill  bool      `json:"fill,omitempty"`
	X     []float64 `json:"x"`
	Y     []float64 `json:"y"`
	// Bars are the least and the greatest at each point.
	Bars [][2]float64 `json:"bars,omitempty"`
}

// Band is a phase (without a colour) or a fault in force.
type Band struct {
	Name  string  `json:"name"`
	Color string  `json:"color,omitempty"`
	From  float64 `json:"from"`
	To    float64 `json:"to"`
}

// maxCurves bounds the lines of a chart that compares arms or runs.
const maxCurves = 6

// Compare is a chart of lines that stand beside each other: the first maxCurves of them.
func Compare(title, over string, height int, lines []Curve) Curves {
	c := Curves{Title: title, Over: over, Height: height, From: math.Inf(1), To: math.Inf(-1), Lines: lines[:min(len(lines), maxCurves)]}
	for _, l := range c.Lines {
		for _, x := range l.X {
			c.From, c.To = min(c.From, x), max(c.To, x)
		}
		for _, b := range l.Bars {
			c.High = max(c.High, 1.06*b[1])
		}
	}
	return c
}

// Latencies are a chart for each operation that has latencies: p50 and p99 of each
// bucket, and the slowest operations as points. All have one y axis, so that their
// heights can be compared.
func Latencies(a *measure.Analysis) (out []Curves) {
	at := func(ts int64) float64 { return micro(float64(ts-a.Start) / 1e9) }
	var bands []Band
	for _, p := range a.Phases {
		bands = append(bands, Band{Name: p.Name, From: at(p.From), To: at(p.To)})
	}
	for _, f := range a.Faults {
		bands = append(bands, Band{Name: f.Fault.ID + " " + f.Fault.Name, Color: FaultColor(f.Fault.Name).Name, From: at(f.From), To: at(f.To)})
	}
	lo, hi := math.Inf(1), 0.0
	for _, of := range a.Timeline.Ops {
		c := Curves{Title: measure.OpTitle(of.Op), Over: OverTime, Height: 176, To: at(a.End), Durations: true, Bands: bands}
		p50, p99 := Curve{Label: "p50", Color: OKColor.Name}, Curve{Label: "p99", Color: Tail.Name, Dash: []float64{5, 2}}
		seen := len(of.Slow) > 0
		for i, cut := range of.Cuts {
			b := a.Timeline.Buckets[i]
			p50.add(at(b.From)+b.Seconds/2, cut.N > 0, cut.P50)
			p99.add(at(b.From)+b.Seconds/2, cut.N > 0, cut.P99)
			if cut.N > 0 {
				seen, lo, hi = true, min(lo, plottable(cut.P50)), max(hi, plottable(cut.P99))
			}
		}
		for _, s := range of.Slow {
			p := [2]float64{at(s.At), plottable(s.Latency)}
			lo, hi = min(lo, p[1]), max(hi, p[1])
			if s.Outcome == history.OK {
				c.Dots = append(c.Dots, p)
			} else {
				c.Crosses = append(c.Crosses, p)
			}
		}
		if seen {
			c.Lines = []Curve{p50, p99}
			out = append(out, c)
		}
	}
	for i := range out {
		out[i].Low, out[i].High = roundDown(lo), max(roundUp(hi), 10*roundDown(lo))
	}
	return out
}

// add adds a duration; a 0 where there is none.
func (l *Curve) add(x float64, have bool, d time.Duration) {
	y := 0.0
	if have {
		y = plottable(d)
	}
	l.X, l.Y = append(l.X, micro(x)), append(l.Y, y)
}

// Lateness is a chart of percentiles over time. Buckets without a maximum have no value.
func Lateness(title string, total float64, middle []float64, p50, p99, greatest []time.Duration) (c Curves, ok bool) {
	lo, hi := time.Hour, time.Duration(0)
	lines := []Curve{{Label: "p50", Color: OKColor.Name}, {Label: "p99", Color: Tail.Name, Dash: []float64{5, 2}},
		{Label: "max", Color: Muted.Name, Dash: []float64{2, 2}}}
	for i, top := range greatest {
		for k, of := range [][]time.Duration{p50, p99, greatest} {
			lines[k].add(middle[i], top > 0, of[i])
		}
		if top > 0 {
			lo, hi = min(lo, p50[i]), max(hi, top)
		}
	}
	low := roundDown(plottable(lo))
	return Curves{Title: title, Over: OverTime, Height: 230, To: total, Durations: true, Low: low,
		High: max(roundUp(plottable(hi)), 10*low), Lines: lines}, hi > 0
}

// Distribution is latency by percentile, one curve a run: the percentiles are spread so
// that each factor of ten towards 100 % takes the same room, because what tells runs apart
// is at the end. A run without a latency is left out; ok is false if that leaves none.
func Distribution(title string, names []string, latencies []*hdrhistogram.Histogram) (c Curves, ok bool) {
	lo, hi := math.Inf(1), 0.0
	var lines []Curve
	for i, h := range latencies {
		if h == nil || h.TotalCount() == 0 {
			continue
		}
		l := Curve{Label: names[i]}
		end := nines(100 - 100/float64(max(h.TotalCount(), 2)))
		const steps = 160
		for s := 0.0; s <= steps; s++ {
			l.add(end*s/steps, true, measure.Quantile(h, 100-100*math.Pow(10, -end*s/steps)))
		}
		lines = append(lines, l)
		lo, hi = min(lo, l.Y[0]), max(hi, l.Y[len(l.Y)-1])
	}
	if len(lines) == 0 {
		return c, false
	}
	c = Compare(title, OverPercentiles, 320, lines)
	c.Durations, c.Low, c.High = true, lo, max(hi, lo*1.5)
	return c, true
}

// nines is how many factors of ten a percentile is from 100 %: 90 % is 1, 99 % is 2.
func nines(percent float64) float64 { return -math.Log10(1 - min(percent, 100-1e-9)/100) }

// micro keeps six decimals: more are bytes that nobody sees.
func micro(v float64) float64 { return math.Round(v*1e6) / 1e6 }

// plottable is a duration in seconds that a logarithmic axis takes: at least 1 µs.
func plottable(d time.Duration) float64 { return micro(max(d, time.Microsecond).Seconds()) }

func roundDown(v float64) float64 {
	mag := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{5, 2} {
		if m*mag <= v*1.0000001 {
			return m * mag
		}
	}
	return mag
}

func roundUp(v float64) float64 {
	mag := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*mag >= v*0.9999999 {
			return m * mag
		}
	}
	return 10 * mag
}

// secondsLabel is a tick of a logarithmic axis.
func secondsLabel(v float64) string {
	return measure.FormatDuration(time.Duration(math.Round(v*1e6)) * time.Microsecond)
}
