package history

import "math"

// Forever is the Return of an operation that may take effect at any later time.
const Forever = math.MaxInt64

// Operation is an invoke joined with its end.
type Operation struct {
	Invoke Event
	End    Event // zero Type if the process died first
	// Outcome is the End's type; Unknown without an end.
	Outcome Type
}

// Return is the end's instant, or Forever for an unknown outcome.
func (o Operation) Return() int64 {
	if o.Outcome == Unknown {
		return Forever
	}
	return o.End.TS
}

// Operations joins invokes with ends, in the order of invocation.
func (h *History) Operations() []Operation {
	type ref struct {
		life string
		id   int64
	}
	at := make(map[ref]int, len(h.Events)/2)
	var ops []Operation
	for _, e := range h.Events {
		switch e.Type {
		case Invoke:
			at[ref{Life(e.Proc), e.ID}] = len(ops)
			ops = append(ops, Operation{Invoke: e, Outcome: Unknown})
		case OK, Fail, Unknown:
			if i, ok := at[ref{Life(e.Proc), e.ID}]; ok {
				ops[i].End, ops[i].Outcome = e, e.Type
			}
		}
	}
	return ops
}

// Span is a phase or another window of a run.
type Span struct {
	Name     string
	From, To int64
}

// Phases returns the run's phases in order; the last ends with the last event.
func (h *History) Phases() []Span {
	var out []Span
	for _, e := range h.Events {
		if e.Type != Note || e.Op != NotePhase {
			continue
		}
		if n := len(out); n > 0 {
			out[n-1].To = e.TS
		}
		out = append(out, Span{Name: e.Phase(), From: e.TS, To: e.TS})
	}
	if n := len(out); n > 0 && len(h.Events) > 0 {
		out[n-1].To = h.Events[len(h.Events)-1].TS + 1
	}
	return out
}

// FaultWindow is one injection with its end and its evidence.
type FaultWindow struct {
	Fault    Fault
	From, To int64 // To is the run's end if it was never healed
	// Evidence was found while it was in force and, that it was healed, afterwards.
	Evidence []Event
	// Proven: there is evidence, and none of it is against the fault.
	Proven bool
}

// Until is when the fault was certainly still in force: when its last proof before the
// end was taken. The heal note is written when healing is complete. False without a proof.
func (f FaultWindow) Until() (ts int64, ok bool) {
	for _, e := range f.Evidence {
		if e.TS <= f.To {
			ts, ok = e.TS, true
		}
	}
	return ts, ok
}

// Faults returns the injections in order.
func (h *History) Faults() []FaultWindow {
	var out []FaultWindow
	at := map[string]int{}
	for _, e := range h.Events {
		if e.Type != Note || e.Op != NoteFault || e.Fault() == nil {
			continue
		}
		i, known := at[e.Fault().ID]
		switch e.Fault().Action {
		case ActionInject:
			at[e.Fault().ID] = len(out)
			out = append(out, FaultWindow{Fault: *e.Fault(), From: e.TS, To: h.Events[len(h.Events)-1].TS})
		case ActionHeal:
			if known {
				out[i].To = e.TS
			}
		case ActionEvidence:
			if known {
				first := len(out[i].Evidence) == 0
				out[i].Evidence = append(out[i].Evidence, e)
				out[i].Proven = (first || out[i].Proven) && e.Fault().Proven
			}
		}
	}
	return out
}
