package linear

import (
	"fmt"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// shrinkSearch bounds the CPU time of each search while a counterexample is made small.
const shrinkSearch = 2 * time.Second

// window is a small illegal part of a history.
type window struct {
	ops  []porcupine.Operation
	init any
	// Last describes the operation whose answer no order explains.
	Last    string
	culprit *past.Op
}

// Shrink finds the shortest illegal prefix of what was found illegal, then
// leaves out what lies before the conflict, then the observations that it does
// not need. What the time does not allow is left in.
func Shrink(b Budget, f Found) window {
	illegal := func(init any, ops []porcupine.Operation) bool {
		result, _ := b.within(shrinkSearch).search(f.Part.model(init), ops)
		return result == porcupine.Illegal
	}
	all := f.segment.ops
	returns := make([]int64, 0, len(all))
	for _, o := range all {
		if o.Return != history.Forever {
			returns = append(returns, o.Return)
		}
	}
	sort.Slice(returns, func(i, j int) bool { return returns[i] < returns[j] })
	w := window{ops: all, init: f.segment.init}
	end := int64(history.Forever)
	i := sort.Search(len(returns), func(i int) bool { return illegal(f.segment.init, prefix(all, returns[i])) })
	if i < len(returns) {
		end = returns[i]
		w.ops = prefix(all, end)
	}
	for _, o := range w.ops {
		if s := o.Input.(step); o.Return == end && s.source() != nil {
			w.Last, w.culprit = fmt.Sprintf("%q", s.String()), s.source()
		}
	}
	if w.culprit == nil {
		w.Last = "all that was answered"
	}
	w.cutFront(f.Part.any, illegal)
	w.dropObservations(illegal)
	return w
}

// prefix is the history as it was at an instant: what was called later is left
// out, what was not answered yet may have happened or not.
func prefix(ops []porcupine.Operation, at int64) []porcupine.Operation {
	var out []porcupine.Operation
	for _, o := range ops {
		switch {
		case o.Call > at:
			continue
		case o.Return > at:
			s := o.Input.(step)
			if s.observes() {
				continue
			}
			o.Input, o.Return = s.pending(), history.Forever
		}
		out = append(out, o)
	}
	return out
}

// cutFront drops all that was over at a quiet instant as late as possible; the
// state there is then not known.
func (w *window) cutFront(unknown any, illegal func(any, []porcupine.Operation) bool) {
	var cuts []int
	quiet := int64(0)
	for i, o := range w.ops { // by call
		if i > 0 && o.Call > quiet {
			cuts = append(cuts, i)
		}
		if o.Return != history.Forever {
			quiet = max(quiet, o.Return)
		}
	}
	from := func(cut int) []porcupine.Operation {
		var out []porcupine.Operation
		for i, o := range w.ops {
			if i >= cut || o.Return == history.Forever {
				out = append(out, o)
			}
		}
		return out
	}
	// The later the cut, the weaker the constraints: find the last illegal one.
	n := sort.Search(len(cuts), func(i int) bool { return !illegal(unknown, from(cuts[i])) })
	if n > 0 {
		w.ops, w.init = from(cuts[n-1]), unknown
	}
}

// dropObservations leaves out reads and refusals without which the window is
// still illegal.
func (w *window) dropObservations(illegal func(any, []porcupine.Operation) bool) {
	if len(w.ops) > 64 {
		return
	}
	for i := 0; i < len(w.ops); {
		s := w.ops[i].Input.(step)
		rest := append(append([]porcupine.Operation(nil), w.ops[:i]...), w.ops[i+1:]...)
		if s.source() != w.culprit && s.observes() && illegal(w.init, rest) {
			w.ops = rest
			continue
		}
		i++
	}
}

// Events are the window's, the culprit's first, then the latest.
func (w *window) Events() []*history.Event {
	out := past.Events(w.culprit)
	for i := len(w.ops) - 1; i >= 0; i-- {
		out = append(out, past.Events(w.ops[i].Input.(step).source())...)
	}
	return out
}

// Proof shows why a write of a counterexample must have taken effect although its
// client was never told: what showed it later lies behind the counterexample, but
// without it the counterexample explains nothing. Of a resource the ledger is the proof.
func (w *window) Proof() (events []*history.Event, text string) {
	for _, o := range w.ops {
		s, ok := o.Input.(*lockStep)
		if !ok || s.kind != kindWrite || s.optional || s.of.Outcome != history.Unknown {
			continue
		}
		if shown := s.to.FirstProof(); shown != nil {
			events = append(events, past.Events(shown)...)
			text += fmt.Sprintf("; that %q took effect is shown by the %s of %s", s.String(), shown.Invoke.Op, shown.Invoke.Proc)
		}
	}
	return events, text
}
