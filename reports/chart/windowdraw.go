package chart

import (
	"fmt"
	"slices"
	"time"

	"fencepost/harness/history"
	"fencepost/reports/measure"
)

// laneBox is a lane's place.
type laneBox struct {
	proc        string
	top, bottom float64
	items       []*item
	grants      []measure.Grant
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
	w.drawFaults(windowTop-6, bottom)
	w.axis.draw(d, windowTop-6, bottom)
	w.drawClash(windowTop-6, bottom)
	for _, b := range boxes {
		d.text(w.axis.x0-8, (b.top+b.bottom)/2+4, "end b", b.proc)
		y := b.top + lanePad
		if len(b.grants) > 0 {
			for i, g := range b.grants {
				w.drawGrant(g, i, y, b.bottom)
			}
			y += entH
		}
		for _, it := range b.items {
			w.drawItem(it, y+float64(it.row)*rowH)
		}
	}
	w.axis.drawBreaks(d, windowTop-6, bottom)
	return bottom + 26
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

// drawClash marks where two processes were entitled to one lock at once.
func (w *lanes) drawClash(top, bottom float64) {
	for i, a := range w.grants {
		for _, b := range w.grants[i+1:] {
			from, to := max(a.From, b.From), min(a.To, b.To)
			if a.Lock != b.Lock || a.Proc == b.Proc || to <= from {
				continue
			}
			x0, x1 := w.axis.clampX(from), w.axis.clampX(to)
			title := fmt.Sprintf("%s and %s both entitled to %s for %s", a.Proc, b.Proc, a.Lock, measure.FormatDuration(time.Duration(to-from)))
			w.d.rect(x0, top, max(x1-x0, 2), bottom-top, "clash", "", title)
			w.d.rect(x0, top, max(x1-x0, 2), bottom-top, "clashline", "stroke-dasharray:4 3", "")
			return // one is enough to see
		}
	}
}

func (w *lanes) drawGrant(g measure.Grant, i int, y, bottom float64) {
	x0, x1 := w.axis.clampX(g.From), w.axis.clampX(g.To)
	title := GrantText(g, w.axis.start)
	w.d.rect(x0, y, max(x1-x0, 2), bottom-y-2, "entbg", "", title)
	w.d.rect(x0, y+11, max(x1-x0, 2), 3, "ent", "", title)
	if g.To <= w.axis.to() {
		w.d.rect(x1-1.5, y+6, 3, 8, "ent", "", title)
	}
	label := fmt.Sprintf("entitled by token %d", g.Token)
	if g.To <= w.axis.to() {
		label += ", until " + g.EndedBy
	}
	next := w.axis.x1
	if own := w.ownGrants(g.Proc); i+1 < len(own) {
		next = w.axis.clampX(own[i+1].From)
	}
	if l := clip(label, next-x0-4, 10); len([]rune(l)) > 8 || l == label {
		w.d.text(x0+1, y+8, "m s halo", l)
	}
}

func (w *lanes) ownGrants(proc string) []measure.Grant {
	var out []measure.Grant
	for _, g := range w.grants {
		if g.Proc == proc {
			out = append(out, g)
		}
	}
	return out
}

func (w *lanes) drawItem(it *item, y float64) {
	d := &w.d
	x0, x1, left, inside := w.extent(it)
	if it.mark {
		x := w.axis.clampX(it.from)
		d.path(fmt.Sprintf("M%s %sl5 5l-5 5l-5 -5z", num(x), num(y+2)), it.class, "", it.title)
		if left {
			d.text(x-9, y+11, "end halo", it.label)
		} else {
			d.text(x+9, y+11, "halo", it.label)
		}
		return
	}
	bx := w.axis.clampX(it.from)
	bw := max(w.axis.clampX(it.to)-bx, 3)
	class := "bar " + it.class
	if it.context {
		class += " ctx"
	}
	switch {
	case it.open:
		// No end: a solid beginning, then an open dashed bar to the edge.
		bw = w.axis.x1 - bx
		d.rect(bx, y, min(bw, 10), barH, class, "", it.title)
		d.rect(bx, y, bw, barH, "e-unknown", "", it.title)
	default:
		d.rect(bx, y, bw, barH, class, "", it.title)
		if it.class == "o-fail" || it.class == "o-unknown" {
			pattern(d, it.class, bx, y, bw)
		}
	}
	switch {
	case it.label == "":
	case inside && it.open:
		d.text(bx+14, y+11, "halo", it.label)
	case inside:
		d.text(bx+4, y+11, "inbar", it.label)
	case left:
		d.text(bx-4, y+11, "end halo", it.label)
	default:
		d.text(min(x0+bw, x1)+4, y+11, "halo", it.label)
	}
}

// pattern tells outcomes apart without colour: a slanted hatch for fail, dots of
// card colour for unknown. It stays at the bar's foot, so that a label can be read.
func pattern(d *drawing, class string, x, y, w float64) {
	if w < 6 {
		return
	}
	data := ""
	if class == "o-fail" {
		for px := x + 3; px+4 < x+w && px < x+400; px += 7 {
			data += fmt.Sprintf("M%s %sl4 -4", num(px), num(y+barH))
		}
	} else {
		for px := x + 3; px+2 < x+w && px < x+400; px += 6 {
			data += fmt.Sprintf("M%s %sh2", num(px), num(y+barH-2))
		}
	}
	if data != "" {
		d.path(data, "", "stroke:var(--card);stroke-width:1.4;fill:none", "")
	}
}

// ledgerBox is the size of a ledger entry's box.
const (
	ledgerW = 172.0
	ledgerH = 40.0
)

// drawLedger draws the sink's decisions in the sink's order. An entry that
// accepts a token below one seen before, or a key for a second time, is marked.
func (w *lanes) drawLedger(y float64) float64 {
	d := &w.d
	entries := slices.Clone(w.ledger)
	slices.SortStableFunc(entries, func(a, b numbered) int { return int(min(max(a.e.Ledger.Seq-b.e.Ledger.Seq, -1), 1)) })
	d.text(2, y+10, "b", "The sink's ledger, in the sink's own order")
	y += 18
	x := 2.0
	var highest, lastSeq int64
	keys := map[string]bool{}
	for i, n := range entries {
		l := *n.e.Ledger
		if x+ledgerW > Width {
			x, y = 2, y+ledgerH+12
		}
		why := ""
		switch {
		case l.Kind == history.LedgerAccept && l.Token < highest:
			why = fmt.Sprintf("token below %d", highest)
		case l.Kind == history.LedgerAccept && l.EffectKey != "" && keys[l.EffectKey]:
			why = "key again"
		}
		class := "box"
		if why != "" {
			class = "boxbad"
		}
		d.rect(x, y, ledgerW, ledgerH, class, "", ledgerText(l)+" "+l.EffectKey)
		d.text(x+8, y+16, "b", fmt.Sprintf("#%d %s token %d", n.n, l.Kind, l.Token))
		second := fmt.Sprintf("seq %d", l.Seq)
		if l.Value != nil {
			second += fmt.Sprintf(" · value %d", *l.Value)
		}
		if why != "" {
			second += " · ✗ " + why
		}
		d.text(x+8, y+31, "m s", clip(second, ledgerW-12, 10))
		if i > 0 && x > 2 {
			sep := "M%s %sh8m-3 -3l3 3l-3 3"
			d.path(fmt.Sprintf(sep, num(x-11), num(y+ledgerH/2)), "lead", "", "")
			if l.Seq != lastSeq+1 {
				d.path(fmt.Sprintf("M%s %sv8", num(x-8), num(y+ledgerH/2-4)), "lead", "", "entries left out")
			}
		}
		highest, lastSeq = max(highest, l.Token), l.Seq
		keys[l.EffectKey] = keys[l.EffectKey] || l.Kind == history.LedgerAccept
		x += ledgerW + 14
	}
	return y + ledgerH + 6
}
