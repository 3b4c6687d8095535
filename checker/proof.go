package checker

import (
	"fmt"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// proof shows why a write of a counterexample must have taken effect although its
// client was never told: what showed it later lies behind the counterexample, but
// without it the counterexample explains nothing.
func (a *judgement) proof(name string, w window) (events []*history.Event, text string) {
	l := a.RowOf[name]
	if l == nil {
		return nil, "" // a resource: its ledger is the proof
	}
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
