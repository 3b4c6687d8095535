package checker

import (
	"fmt"

	"fencepost/harness/record/history"
)

// proof shows why a write of a counterexample must have taken effect although its
// client was never told: what showed it later lies behind the counterexample, but
// without it the counterexample explains nothing.
func (a *judgement) proof(name string, w window) (events []*history.Event, text string) {
	l := a.row[name]
	if l == nil {
		return nil, "" // a resource: its ledger is the proof
	}
	for _, o := range w.ops {
		s, ok := o.Input.(*lockStep)
		if !ok || s.kind != kindWrite || s.optional || s.of.outcome != history.Unknown {
			continue
		}
		if shown := s.to.proof(); shown != nil {
			events = append(events, both(shown)...)
			text += fmt.Sprintf("; that %q took effect is shown by the %s of %s", s.String(), shown.inv.Op, shown.inv.Proc)
		}
	}
	return events, text
}

// shown is the first answer that proves that the row was at v: a read of it, or a
// write that applied to it.
func (v *version) proof() *op {
	var first *op
	earlier := func(o *op) {
		if first == nil || o.end.TS < first.end.TS {
			first = o
		}
	}
	for _, s := range v.shown {
		if s.cas == nil {
			earlier(s.op)
		}
	}
	for _, w := range v.usedBy {
		if c := w.ok(); c != nil {
			earlier(&c.op)
		}
	}
	return first
}
