package chart

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"fencepost/harness/record/history"
	"fencepost/reports/measure"
)

// Bounds of a window's drawing: the table has what is beyond them.
const (
	maxItems   = 60
	maxContext = 80
	maxGrants  = 24
)

// Geometry of a window's lanes.
const (
	windowL   = 106.0
	rowH      = 19.0
	barH      = 14.0
	entH      = 17.0
	lanePad   = 6.0
	windowTop = 24.0
)

// WindowInput is what a violation's window is drawn from.
type WindowInput struct {
	Name, Title string
	Events      []history.Event // in time order; they are numbered from 1
	From, To    int64
}

// item is a bar or a mark in a lane.
type item struct {
	proc     string
	from, to int64
	open     bool // no end: may take effect at any later time
	mark     bool // a note
	context  bool // not of the violation, drawn pale
	class    string
	label    string
	title    string
	row      int // within the lane
}

type lanes struct {
	axis   brokenAxis
	d      drawing
	a      *measure.Analysis
	items  []*item
	ledger []numbered
	grants []measure.Grant
	tokens map[int64]bool // that the violation is about
	procs  []string
}

type numbered struct {
	n int
	e history.Event
}

// Window draws the shortest conflicting window of a violation: a lane a process,
// operations as bars by outcome, what each holder was entitled to, the faults
// behind, and the sink's ledger in its own order below.
func Window(a *measure.Analysis, in WindowInput) SVG {
	s := SVG{Name: in.Name, Title: in.Title, W: Width}
	w := &lanes{a: a}
	w.collect(in.Events)
	if len(w.items) == 0 && len(w.ledger) == 0 {
		return s
	}
	y := 4.0
	if len(w.items) > 0 {
		w.entitled(in)
		w.axis = newBrokenAxis(a.Start, w.instants(in), w.typical(), windowL, Width-marginR)
		w.context(in)
		y = w.drawLanes()
	}
	if len(w.ledger) > 0 {
		y = w.drawLedger(y)
	}
	s.H, s.body = y+6, w.d.b.String()
	return s
}

// collect makes items of the violation's events, an operation once.
func (w *lanes) collect(events []history.Event) {
	seen := map[string]bool{}
	for i, e := range events {
		n := i + 1
		if e.Op == history.NoteLedger && e.Ledger() != nil {
			w.ledger = append(w.ledger, numbered{n, e})
			continue
		}
		if e.Op == history.NoteFault || e.Op == history.NotePhase || e.Op == history.NoteStatement || e.Op == history.NoteExpect {
			continue
		}
		if len(w.items) >= maxItems {
			continue
		}
		if e.Type == history.Note {
			text := noteText(e)
			w.add(&item{proc: e.Proc, from: e.TS, to: e.TS, mark: true, class: "mark", label: fmt.Sprintf("#%d %s", n, text),
				title: e.Proc + ": " + text})
			continue
		}
		op, ok := w.a.Operation(e)
		if !ok {
			op = history.Operation{Invoke: e, Outcome: e.Type}
			if e.Type == history.Invoke {
				op.Outcome = history.Unknown
			} else {
				op.End = e
			}
		}
		key := fmt.Sprint(history.Life(e.Proc), "/", e.ID)
		if seen[key] {
			continue
		}
		seen[key] = true
		it := w.operation(op)
		it.label = fmt.Sprintf("#%d %s", n, it.label)
		w.add(it)
	}
}

func (w *lanes) add(it *item) {
	w.items = append(w.items, it)
	if !slices.Contains(w.procs, it.proc) {
		w.procs = append(w.procs, it.proc)
	}
}

func (w *lanes) operation(op history.Operation) *item {
	it := &item{proc: op.Invoke.Proc, from: op.Invoke.TS, to: op.End.TS, class: "o-" + string(op.Outcome), label: OperationText(op)}
	took := "no end"
	if op.End.TS == 0 {
		it.open, it.to = true, it.from
	} else {
		took = measure.FormatDuration(time.Duration(op.End.TS - op.Invoke.TS))
	}
	it.title = fmt.Sprintf("%s: %s; %s, %s", op.Invoke.Proc, it.label, op.Outcome, took)
	if op.End.Error != "" {
		it.title += ": " + op.End.Error
	}
	return it
}

// family is the keys that belong together: a lock and the resources whose tokens
// it issues.
func (w *lanes) family(events []history.Event) map[string]bool {
	keys := map[string]bool{}
	for _, e := range events {
		for _, k := range []string{e.Key, e.Issuer} {
			if k != "" {
				keys[k] = true
			}
		}
	}
	for _, op := range w.a.Ops {
		if i := op.Invoke.Issuer; i != "" && (keys[i] || keys[op.Invoke.Key]) {
			keys[i], keys[op.Invoke.Key] = true, true
		}
	}
	return keys
}

// entitled picks the grants of the lanes' processes whose tokens the violation is
// about, also those that were over before it: what a holder does after its right
// has ended is the usual story.
func (w *lanes) entitled(in WindowInput) {
	keys := w.family(in.Events)
	w.tokens = tokensOf(in.Events)
	from, to := w.span(in)
	for _, g := range w.a.Grants {
		about := w.tokens[g.Token] && g.From <= to
		if len(w.tokens) == 0 {
			about = g.To >= from && g.From <= to
		}
		if about && keys[g.Lock] && g.Held && slices.Contains(w.procs, g.Proc) && len(w.grants) < maxGrants {
			w.grants = append(w.grants, g)
		}
	}
}

// clash is the first stretch in which two processes are entitled to one lock.
func (w *lanes) clash() (from, to int64, lock string, ok bool) {
	for i, a := range w.grants {
		for _, b := range w.grants[i+1:] {
			from, to := max(a.From, b.From), min(a.To, b.To)
			if a.Lock == b.Lock && a.Proc != b.Proc && to > from {
				return from, to, a.Lock, true
			}
		}
	}
	return 0, 0, "", false
}

// tokensOf are the tokens that the events speak of.
func tokensOf(events []history.Event) map[int64]bool {
	out := map[int64]bool{}
	for _, e := range events {
		if e.Token != 0 {
			out[e.Token] = true
		}
		if e.To != nil && e.Op != history.OpSeal {
			out[e.To.Fence] = true
		}
		if e.Ledger() != nil {
			out[e.Ledger().Token] = true
		}
	}
	return out
}

func (w *lanes) span(in WindowInput) (from, to int64) {
	from, to = w.items[0].from, w.items[0].to
	for _, it := range w.items {
		from, to = min(from, it.from), max(to, it.to)
	}
	if in.From > 0 && len(w.ledger) == 0 {
		from = min(from, in.From)
		to = max(to, min(in.To, w.a.End)) // what is read after the run has no place in it
	}
	for _, g := range w.grants {
		from = min(from, g.From)
	}
	if _, end, _, ok := w.clash(); ok {
		to = max(to, end)
	}
	return from, to
}

// typical is the median length of the operations.
func (w *lanes) typical() int64 {
	var d []int64
	for _, it := range w.items {
		if it.to > it.from {
			d = append(d, it.to-it.from)
		}
	}
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[len(d)/2]
}

// instants are what the axis must show: where anything begins or ends.
func (w *lanes) instants(in WindowInput) []int64 {
	from, to := w.span(in)
	at := []int64{from, to}
	for _, it := range w.items {
		at = append(at, it.from, it.to)
	}
	inside := func(ts int64) {
		if ts > from && ts < to {
			at = append(at, ts)
		}
	}
	for _, g := range w.grants {
		inside(g.From)
		inside(g.To)
	}
	for _, f := range w.a.Faults {
		inside(f.From)
		inside(f.To)
	}
	return at
}

// context adds what else the lanes' processes did to the same keys by the same
// tokens, or while they held one of them, pale.
func (w *lanes) context(in WindowInput) {
	keys := w.family(in.Events)
	have := map[string]bool{}
	for _, it := range w.items {
		have[fmt.Sprint(it.proc, it.from)] = true
	}
	n := 0
	for _, op := range w.a.Ops {
		inv := op.Invoke
		if inv.TS > w.axis.to() || inv.TS < w.axis.from() || !keys[inv.Key] || inv.Op == history.OpLock ||
			!slices.Contains(w.procs, inv.Proc) || have[fmt.Sprint(inv.Proc, inv.TS)] || !w.related(inv) {
			continue
		}
		if n++; n > maxContext {
			return
		}
		it := w.operation(op)
		it.context, it.label = true, ""
		w.items = append(w.items, it)
	}
}

// related says that an operation belongs to one of the violation's tokens.
func (w *lanes) related(inv history.Event) bool {
	token := inv.Token
	switch {
	case token != 0:
	case inv.Op == history.OpRelease && inv.From != nil:
		token = inv.From.Fence
	case inv.To != nil:
		token = inv.To.Fence
	}
	if token != 0 && len(w.tokens) > 0 {
		return w.tokens[token]
	}
	return slices.ContainsFunc(w.grants, func(g measure.Grant) bool {
		return g.Proc == inv.Proc && inv.TS >= g.From && inv.TS <= g.To
	})
}

// extent is the room that an item takes in its row, with its label; left says
// that the label stands before it.
func (w *lanes) extent(it *item) (x0, x1 float64, left, inside bool) {
	x0 = w.axis.clampX(it.from)
	x1 = max(w.axis.clampX(it.to), x0+3)
	if it.open {
		x1 = w.axis.x1
	}
	if it.mark {
		x0, x1 = x0-5, x0+5
	}
	if it.label == "" {
		return x0, x1, false, false
	}
	lw := textWidth(it.label, 11) + 8
	switch {
	case !it.mark && min(x1, w.axis.breakAfter(x0))-x0 > lw: // text over a break cannot be read
		return x0, x1, false, true
	case x1+lw <= w.axis.x1+marginR:
		return x0, x1 + lw, false, false
	case x0-lw >= 0:
		return x0 - lw, x1, true, false
	}
	return x0, x1 + lw, false, false
}

// pack gives every item of a lane a row in which nothing overlaps, and returns
// the number of rows. The violation's own items come first.
func (w *lanes) pack(items []*item) int {
	slices.SortStableFunc(items, func(a, b *item) int {
		if a.context != b.context {
			if a.context {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.from, b.from)
	})
	type placed struct{ x0, x1 float64 }
	var rows [][]placed
	for _, it := range items {
		x0, x1, _, _ := w.extent(it)
		r := 0
	search:
		for ; r < len(rows); r++ {
			for _, p := range rows[r] {
				if x0 < p.x1+2 && p.x0 < x1+2 {
					continue search
				}
			}
			break
		}
		if r == len(rows) {
			rows = append(rows, nil)
		}
		rows[r] = append(rows[r], placed{x0, x1})
		it.row = r
	}
	return max(len(rows), 1)
}
