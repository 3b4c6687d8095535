package history

import (
	"math"
)

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

// Spans of a job's life that are measured like operations.
const (
	// SpanStart is from the first enqueue's invocation to the job's first run, of jobs
	// that are due at once.
	SpanStart Op = "enqueue → start"
	// SpanRun is one run of a job's handler, from its start to its end.
	SpanRun Op = "run"
)

// Phases of a run, in order. PhaseFault is the one in which faults are in force, PhaseBefore
// the undisturbed one before it.
const (
	PhaseWarmup  = "warmup"
	PhaseBefore  = "before"
	PhaseFault   = "fault"
	PhaseHeal    = "heal"
	PhaseRecover = "recover"
	PhaseDrain   = "drain" // jobs only: nothing is enqueued any more, every job finishes
	PhaseSettle  = "settle"
	PhaseSeal    = "seal"
)

// Phases are all of them.
var Phases = []string{PhaseWarmup, PhaseBefore, PhaseFault, PhaseHeal, PhaseRecover, PhaseDrain, PhaseSettle, PhaseSeal}

// JobSpans makes operations of the lives of jobs. What never started or never ended
// has none: the verdict tells of it.
func (h *History) JobSpans() []Operation {
	var out []Operation
	asked := map[string]Event{}
	type run struct {
		issuer string
		token  int64
	}
	running := map[run]Event{}
	span := func(op Op, from, to Event, outcome Type) {
		from.Op, to.Op = op, op
		out = append(out, Operation{Invoke: from, End: to, Outcome: outcome})
	}
	for _, e := range h.Events {
		switch {
		case e.Op == OpEnqueue && e.Type == Invoke && e.Job() != nil && e.Job().DueMS == 0:
			if _, again := asked[e.Key]; !again {
				asked[e.Key] = e
			}
		case e.Issuer == "":
		case e.Op == NoteStart:
			running[run{e.Issuer, e.Token}] = e
			if a, ok := asked[e.Key]; ok && e.Attempt() == 1 {
				span(SpanStart, a, e, OK)
			}
		case e.Op == NoteFinish:
			r := run{e.Issuer, e.Token}
			if s, ok := running[r]; ok {
				delete(running, r)
				outcome := OK
				if e.Error != "" {
					outcome = Fail
				}
				span(SpanRun, s, e, outcome)
			}
		}
	}
	return out
}

// PhaseAt is the phase at ts, "" before the first; phases are in order.
func PhaseAt(phases []Span, ts int64) string {
	name := ""
	for _, p := range phases {
		if p.From > ts {
			break
		}
		name = p.Name
	}
	return name
}

// PhaseOf is the phase that an operation counts for: the one in which it was
// invoked, except that what was under way when the fault phase began counts for
// that. A wait that a fault struck would else be the slowest of "before". to is its
// end's instant, 0 without one.
func PhaseOf(phases []Span, from, to int64) string {
	if to == 0 {
		to = Forever
	}
	for _, p := range phases {
		if p.Name == PhaseFault && from < p.From && to > p.From {
			return p.Name
		}
	}
	return PhaseAt(phases, from)
}
