package chart

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"fencepost/harness/record/history"
	"fencepost/reports/measure"
)

// maxLanes bounds the locks of one lane chart.
const maxLanes = 12

const (
	laneH   = 24.0
	laneGap = 6.0
	laneTop = 22.0
)

// Strip draws the run's phases and one row a fault: the key to the bands of the
// other charts.
func Strip(a *measure.Analysis) SVG {
	s := SVG{Name: "phases", Title: "Phases of the run and the windows of its faults", W: Width}
	if len(a.Phases) == 0 && len(a.Faults) == 0 {
		return s
	}
	t := newTimeAxis(a, a.Start, a.End, Width)
	var d drawing
	y := 6.0
	if len(a.Phases) > 0 {
		d.text(2, y+14, "m", "phase")
		for i, p := range a.Phases {
			if p.From > a.End && i > 0 {
				continue
			}
			x, w := t.x(p.From), t.x(min(p.To, a.End))-t.x(p.From)
			style := "fill:var(--sunken);stroke:var(--line)"
			if p.Name == measure.PhaseFault {
				style = "fill:var(--line);stroke:var(--line)"
			}
			d.rect(x, y, w, 20, "", style, fmt.Sprintf("%s: %s", p.Name, measure.FormatDuration(time.Duration(p.To-p.From))))
			if l := clip(p.Name, w-6, 11); l != "" {
				d.text(x+w/2, y+14, "mid b", l)
			}
		}
		y += 26
	}
	for _, f := range a.Faults[:min(len(a.Faults), maxLanes)] {
		x := t.x(f.From)
		w := max(t.x(f.To)-x, 3)
		d.text(2, y+12, "m", f.Fault.ID)
		d.line(t.x0, y+8, t.x1, y+8, "gr", "")
		label := f.Fault.Name
		if len(f.Fault.Targets) > 0 {
			label += " " + strings.Join(f.Fault.Targets, ", ")
		}
		d.rect(x, y+2, w, 12, "", "fill:"+FaultColor(f.Fault.Name).Var(), label)
		lw := textWidth(label, 11)
		if x+w+6+lw < t.x1 {
			d.text(x+w+6, y+12, "halo", label)
		} else {
			d.text(max(x-6, t.x0+lw), y+12, "halo end", label)
		}
		y += 18
	}
	if n := len(a.Faults) - maxLanes; n > 0 {
		d.text(t.x0, y+12, "m", fmt.Sprintf("and %d more: see the table of faults", n))
		y += 18
	}
	t.drawAxis(&d, y, y+2)
	s.H, s.body = y+24, d.b.String()
	return t.frame(s)
}

// Holders draws who held each lock between two instants: a span is a holder's
// entitlement, the dashed tail behind it the time in which the row still named a
// holder that had lost its right. all shows the whole run.
func Holders(a *measure.Analysis, name, title string, from, to int64) SVG {
	s := SVG{Name: name, Title: title, W: Width}
	locks, left := pickLocks(a, from, to)
	if len(locks) == 0 {
		return s
	}
	t := newTimeAxis(a, from, to, Width)
	var d drawing
	bottom := laneTop + float64(len(locks))*(laneH+laneGap)
	for i := range locks {
		y := laneTop + float64(i)*(laneH+laneGap)
		d.rect(t.x0, y, t.x1-t.x0, laneH, "lane", "", "")
	}
	t.drawFaults(&d, a.Faults, laneTop-6, bottom)
	t.drawPhases(&d, a.Phases, laneTop-6, bottom)
	t.drawAxis(&d, bottom, bottom)
	colors := holderColors(a.Grants)
	var perLane [][]measure.Grant
	for _, lock := range locks {
		perLane = append(perLane, grantsOf(a.Grants, lock))
	}
	minSpan := narrowest(t, perLane)
	for i, lock := range locks {
		y := laneTop + float64(i)*(laneH+laneGap)
		d.text(t.x0-8, y+laneH/2+4, "end", clip(lock, marginL-12, 11))
		lane(&d, t, perLane[i], y, minSpan, colors)
	}
	y := bottom + 34
	d.text(t.x0, y, "m", "colour and name: worker")
	x := t.x0 + 140
	for _, w := range workers(a.Grants) {
		d.rect(x, y-10, 14, 12, "", "fill:"+colors[w].Var()+";stroke:var(--line)", "")
		d.text(x+18, y, "m", w)
		if x += 30 + textWidth(w, 11); x > t.x1-460 {
			break
		}
	}
	x += 6
	d.path(fmt.Sprintf("M%s %sl4 -8l4 8z", num(x), num(y)), "mark", "", "")
	d.text(x+13, y, "m", "taken over")
	x += 90
	d.rect(x, y-8, 18, 7, "tail", "", "")
	d.text(x+24, y, "m", "right over, row not yet free")
	x += 190
	d.rect(x, y-9, 10, 10, "many", "", "")
	d.text(x+15, y, "m", "too short to tell apart")
	s.H, s.body = y+10, d.b.String()
	if left > 0 {
		s.Title += fmt.Sprintf(" (%d of %d locks; takeovers and unknown outcomes first)", len(locks), len(locks)+left)
	}
	return t.frame(s)
}

// pickLocks chooses the lanes: if there are too many, the locks with takeovers
// come first, then those with the most grants.
func pickLocks(a *measure.Analysis, from, to int64) (locks []string, left int) {
	score := map[string]int{}
	for _, g := range a.Grants {
		if g.RowUntil < from || g.From > to {
			continue
		}
		score[g.Lock]++
		if g.Takeover || !g.Held {
			score[g.Lock] += 1 << 20
		}
	}
	for l := range score {
		locks = append(locks, l)
	}
	slices.SortFunc(locks, func(x, y string) int {
		if score[x] != score[y] {
			return score[y] - score[x]
		}
		return strings.Compare(x, y)
	})
	left = max(len(locks)-maxLanes, 0)
	locks = locks[:len(locks)-left]
	slices.Sort(locks)
	return locks, left
}

func grantsOf(gs []measure.Grant, lock string) []measure.Grant {
	i := slices.IndexFunc(gs, func(g measure.Grant) bool { return g.Lock == lock })
	if i < 0 {
		return nil
	}
	j := i
	for j < len(gs) && gs[j].Lock == lock {
		j++
	}
	return gs[i:j]
}

func workers(gs []measure.Grant) []string {
	var out []string
	for _, g := range gs {
		if w := history.Worker(g.Proc); !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return out
}

func holderColors(gs []measure.Grant) map[string]Color {
	out := map[string]Color{}
	for i, w := range workers(gs) {
		out[w] = HolderColor(i)
	}
	return out
}

// maxSpans bounds the boxes of one lane chart: more would be a page that no
// browser likes and nobody can read.
const maxSpans = 2500

// narrowest is the width in drawing units below which neighbouring spans are
// drawn as one: the least at which there are no more than maxSpans boxes.
func narrowest(t timeAxis, lanes [][]measure.Grant) float64 {
	for w := 0.8; ; w *= 1.5 {
		n := 0
		for _, gs := range lanes {
			for _, g := range gs {
				if t.visible(g.From, max(g.To, g.RowUntil)) && t.x(g.To)-t.x(g.From) >= w {
					n++
				}
			}
		}
		if n <= maxSpans {
			return w
		}
	}
}

// cluster is a run of spans that are too narrow to draw.
type cluster struct {
	x0, x1      float64
	n           int
	first, last int64
}

func lane(d *drawing, t timeAxis, gs []measure.Grant, y, minSpan float64, colors map[string]Color) {
	var c cluster
	flush := func() {
		if c.n > 0 {
			d.rect(c.x0, y+4, max(c.x1-c.x0, 1), laneH-8, "many", "", fmt.Sprintf("%d grants too short to tell apart here, tokens %d to %d", c.n, c.first, c.last))
		}
		c = cluster{}
	}
	for _, g := range gs {
		if !t.visible(g.From, max(g.To, g.RowUntil)) {
			continue
		}
		x0, x1, xr := t.x(g.From), t.x(g.To), t.x(g.RowUntil)
		tail := g.EndedBy != measure.EndedRelease && xr-x1 > 1.5
		if x1-x0 < minSpan && !g.Takeover && !tail && g.Held {
			if c.n > 0 && x0-c.x1 > 1.5 {
				flush()
			}
			if c.n == 0 {
				c.x0, c.first = x0, g.Token
			}
			c.n, c.x1, c.last = c.n+1, max(x1, c.x0+1), g.Token
			continue
		}
		flush()
		span(d, t, g, y, x0, x1, xr, tail, colors[history.Worker(g.Proc)])
	}
	flush()
}

func span(d *drawing, t timeAxis, g measure.Grant, y, x0, x1, xr float64, tail bool, c Color) {
	title := GrantText(g, t.start)
	if tail {
		d.rect(x1, y+laneH/2-4, xr-x1, 8, "tail", "", title)
	}
	w := max(x1-x0, 1)
	if w < 3 {
		title = "" // nobody can point at it, and there may be thousands
	}
	d.rect(x0, y+1, w, laneH-2, "", "fill:var(--"+c.Name+")", title)
	label := fmt.Sprintf("%s·%d", history.Worker(g.Proc), g.Token)
	if textWidth(label, 10) > w-4 {
		label = fmt.Sprint(g.Token)
	}
	if textWidth(label, 10) <= w-3 {
		d.text(x0+w/2, y+laneH/2+4, "mid s", label)
	}
	if g.Takeover {
		d.path(fmt.Sprintf("M%s %sl-4 8h8z", num(x0), num(y-7)), "mark", "", title)
	}
}

// GrantText says what a grant was, for a tooltip.
func GrantText(g measure.Grant, start int64) string {
	at := func(ts int64) string { return measure.FormatDuration(time.Duration(ts - start)) }
	if !g.Held {
		return fmt.Sprintf("%s, token %d: %s's acquire took effect, but it never learnt of it in time (row taken by %s)", g.Lock, g.Token, g.Proc, at(g.From))
	}
	how := "granted"
	if g.Takeover {
		how = "taken over"
	}
	s := fmt.Sprintf("%s, token %d: %s by %s at %s, entitled for %s (ended by %s)", g.Lock, g.Token, how, g.Proc, at(g.From), measure.FormatDuration(time.Duration(g.To-g.From)), g.EndedBy)
	if g.EndedBy != measure.EndedRelease && g.RowUntil > g.To {
		s += fmt.Sprintf("; the row named it for another %s", measure.FormatDuration(time.Duration(g.RowUntil-g.To)))
	}
	return s
}
