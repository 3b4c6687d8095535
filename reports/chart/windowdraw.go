package chart

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"fencepost/harness/record/history"
	"fencepost/reports/measure"
)

// laneBox is a lane's place.
type laneBox struct {
	proc        string
	top, bottom float64
	items       []*item
	grants      []measure.Grant
}

// rowsTop is where the lane's first row of items begins.
func (b laneBox) rowsTop() float64 {
	if len(b.grants) > 0 {
		return b.top + lanePad + entH
	}
	return b.top + lanePad
}

// layout stacks the lanes from y on, each as high as it needs.
func (w *lanes) layout(y float64) []laneBox {
	var out []laneBox
	for _, proc := range w.procs {
		b := laneBox{proc: proc, top: y}
		for _, it := range w.items {
			if it.proc == proc {
				b.items = append(b.items, it)
			}
		}
		for _, g := range w.grants {
			if g.Proc == proc {
				b.grants = append(b.grants, g)
			}
		}
		h := 2*lanePad + float64(w.pack(b.items))*rowH
		if len(b.grants) > 0 {
			h += entH
		}
		b.bottom = y + h
		y = b.bottom + 6
		out = append(out, b)
	}
	return out
}

// drawLanes draws the lanes with their axis and returns the y below them.
func (w *lanes) drawLanes() float64 {
	boxes := w.layout(windowTop)
	bottom := boxes[len(boxes)-1].bottom
	d := &w.d
	for _, b := range boxes {
		d.rect(w.axis.x0, b.top, w.axis.x1-w.axis.x0, b.bottom-b.top, "lane", "", "")
	}
	w.axis.draw(d, windowTop, bottom)
	w.drawFaults(windowTop-6, bottom)
	below := w.drawClash(windowTop-6, bottom)
	for _, b := range boxes {
		d.text(w.axis.x0-8, (b.top+b.bottom)/2+4, "end b", b.proc)
		for _, g := range b.grants {
			w.drawGrant(g, b.top+lanePad, b.bottom)
		}
		for _, it := range b.items {
			w.drawItem(it, b.rowsTop()+float64(it.row)*rowH)
		}
	}
	w.axis.drawBreaks(d, windowTop-6, bottom)
	for _, b := range boxes {
		for i, g := range b.grants {
			w.labelGrant(g, b.grants[i+1:], b.top+lanePad)
		}
		for _, it := range b.items {
			w.labelItem(it, b.rowsTop()+float64(it.row)*rowH)
		}
	}
	return bottom + 26 + below
}

func (w *lanes) drawFaults(top, bottom float64) {
	for i, f := range w.a.Faults {
		if f.To < w.axis.from() || f.From > w.axis.to() {
			continue
		}
		x0, x1 := w.axis.clampX(f.From), w.axis.clampX(f.To)
		c := FaultColor(f.Fault.Name).Var()
		label := f.Fault.ID + " " + f.Fault.Name
		w.d.rect(x0, top, max(x1-x0, 2), bottom-top, "", "fill:"+c+";opacity:.13", label)
		w.d.rect(x0, top, max(x1-x0, 2), 3, "", "fill:"+c, "")
		if i < 8 {
			w.d.text(min(x0+2, w.axis.x1-textWidth(label, 10)), top-4, "m s", label)
		}
	}
}

// drawClash marks where two processes were entitled to one lock at once, and
// returns the height of the line that says so below the axis. The first such
// stretch is enough to see.
func (w *lanes) drawClash(top, bottom float64) float64 {
	from, to, lock, ok := w.clash()
	if !ok {
		return 0
	}
	x0 := w.axis.clampX(from)
	x1 := max(w.axis.clampX(to), x0+2)
	text := fmt.Sprintf("both entitled to %s for %s", lock, measure.FormatDuration(time.Duration(to-from)))
	w.d.rect(x0, top, x1-x0, bottom-top, "clash", "", text)
	w.d.rect(x0, top, x1-x0, bottom-top, "clashline", "stroke-dasharray:4 3", "")
	w.d.path(fmt.Sprintf("M%s %sv4H%sv-4", num(x0), num(bottom+20), num(x1)), "clashline", "", "")
	half := textWidth(text, 11) / 2
	w.d.text(min(max((x0+x1)/2, half), Width-half), bottom+37, "bad b mid", text)
	return 20
}

func (w *lanes) drawGrant(g measure.Grant, y, bottom float64) {
	x0, x1 := w.axis.clampX(g.From), w.axis.clampX(g.To)
	title := GrantText(g, w.axis.start)
	w.d.rect(x0, y, max(x1-x0, 2), bottom-y-2, "entbg", "", title)
	w.d.rect(x0, y+11, max(x1-x0, 2), 3, "ent", "", title)
	if g.To <= w.axis.to() {
		w.d.rect(x1-1.5, y+6, 3, 8, "ent", "", title)
	}
}

// labelGrant names an entitlement, in the room before the next one of the lane.
func (w *lanes) labelGrant(g measure.Grant, later []measure.Grant, y float64) {
	x0 := w.axis.clampX(g.From)
	label := fmt.Sprintf("entitled by token %d", g.Token)
	if g.To <= w.axis.to() {
		label += ", until " + g.EndedBy
	}
	next := w.axis.x1
	if len(later) > 0 {
		next = w.axis.clampX(later[0].From)
	}
	switch l := clip(label, next-x0-4, 10); {
	case l == label || len([]rune(l)) > 20:
		w.d.text(x0+1, y+8, "m s halo", l)
	case len(later) == 0 && x0-w.axis.x0 > textWidth(label, 10):
		w.d.text(w.axis.x1, y+8, "m s halo end", label)
	}
}

func (w *lanes) drawItem(it *item, y float64) {
	d := &w.d
	bx := w.axis.clampX(it.from)
	if it.mark {
		d.path(fmt.Sprintf("M%s %sl5 5l-5 5l-5 -5z", num(bx), num(y+2)), it.class, "", it.title)
		return
	}
	class := "bar " + it.class
	if it.context {
		class += " ctx"
	}
	if it.open {
		// No end: a solid beginning, then an open dashed bar to the edge.
		bw := w.axis.x1 - bx
		d.rect(bx, y, min(bw, 10), barH, class, "", it.title)
		d.rect(bx, y, bw, barH, "e-unknown", "", it.title)
		return
	}
	bw := max(w.axis.clampX(it.to)-bx, 3)
	d.rect(bx, y, bw, barH, class, "", it.title)
	skip := 0.0
	if _, _, _, inside := w.extent(it); inside {
		skip = textWidth(it.label, 11) + 10
	}
	if it.class == "o-fail" || it.class == "o-unknown" {
		pattern(d, it.class, bx+skip, y, bw-skip)
	}
}

func (w *lanes) labelItem(it *item, y float64) {
	if it.label == "" {
		return
	}
	_, _, left, inside := w.extent(it)
	x0 := w.axis.clampX(it.from)
	x1 := max(w.axis.clampX(it.to), x0+3)
	switch {
	case inside && it.open:
		w.d.text(x0+14, y+11, "halo", it.label)
	case inside:
		w.d.text(x0+4, y+11, "inbar", it.label)
	case it.mark && left:
		w.d.text(x0-9, y+11, "end halo", it.label)
	case it.mark:
		w.d.text(x0+9, y+11, "halo", it.label)
	case left:
		w.d.text(x0-4, y+11, "end halo", it.label)
	default:
		w.d.text(x1+4, y+11, "halo", it.label)
	}
}

// pattern tells outcomes apart without colour, where no label stands: a slanted
// hatch for fail, dots for unknown.
func pattern(d *drawing, class string, x, y, w float64) {
	var b strings.Builder
	style := "stroke:var(--card);stroke-width:1.3;fill:none;opacity:.75"
	if class == "o-fail" {
		for px := x + 2; px+7 < x+w; px += 9 {
			fmt.Fprintf(&b, "M%s %sl6 -%s", num(px), num(y+barH), num(barH))
		}
	} else {
		style = "stroke:var(--card);stroke-width:2;stroke-linecap:round;fill:none"
		for px := x + 4; px+4 < x+w; px += 8 {
			fmt.Fprintf(&b, "M%s %sh.1", num(px), num(y+barH/2))
		}
	}
	if b.Len() > 0 {
		d.path(b.String(), "", style, "")
	}
}

// Size of a ledger entry's box.
const (
	ledgerW = 178.0
	ledgerH = 54.0
)

// drawLedger draws the sink's decisions in the sink's order. An entry that
// accepts a token below one seen before, or a key for a second time, is marked.
func (w *lanes) drawLedger(y float64) float64 {
	d := &w.d
	entries := slices.Clone(w.ledger)
	slices.SortStableFunc(entries, func(a, b numbered) int { return cmp.Compare(a.e.Ledger().Seq, b.e.Ledger().Seq) })
	d.text(2, y+10, "b", "The sink's ledger, in the sink's own order")
	y += 18
	x := 2.0
	var highest, lastSeq int64
	keys := map[string]bool{}
	for i, n := range entries {
		l := *n.e.Ledger()
		if x+ledgerW > Width {
			x, y = 2, y+ledgerH+12
		}
		if i > 0 && x > 2 {
			d.path(fmt.Sprintf("M%s %sh14m-4 -4l4 4l-4 4", num(x-22), num(y+ledgerH/2)), "lead", "", "")
			if l.Seq > lastSeq+1 {
				d.text(x-15, y+ledgerH/2-6, "m s mid", fmt.Sprintf("+%d", l.Seq-lastSeq))
			}
		}
		why := ""
		switch {
		case l.Kind == history.LedgerAccept && l.Token < highest:
			why = fmt.Sprintf("✗ below token %d", highest)
		case l.Kind == history.LedgerAccept && l.EffectKey != "" && keys[l.EffectKey]:
			why = "✗ this key again"
		}
		w.ledgerEntry(x, y, n, why)
		highest, lastSeq = max(highest, l.Token), l.Seq
		keys[l.EffectKey] = keys[l.EffectKey] || l.Kind == history.LedgerAccept
		x += ledgerW + 30
	}
	return y + ledgerH + 6
}

func (w *lanes) ledgerEntry(x, y float64, n numbered, why string) {
	l := *n.e.Ledger()
	class := "box"
	if why != "" {
		class = "boxbad"
	}
	w.d.rect(x, y, ledgerW, ledgerH, class, "", ledgerText(l)+" "+l.EffectKey)
	w.d.text(x+9, y+16, "b", fmt.Sprintf("#%d %s token %d", n.n, l.Kind, l.Token))
	second := fmt.Sprintf("seq %d", l.Seq)
	if l.Value != nil {
		second += fmt.Sprintf(", value %d", *l.Value)
	}
	w.d.text(x+9, y+31, "m s", clip(second, ledgerW-12, 10))
	third, style := l.EffectKey, "m s"
	if why != "" {
		third, style = why, "b s bad"
	}
	w.d.text(x+9, y+46, style, clip(third, ledgerW-14, 10))
}
