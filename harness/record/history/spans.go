package history

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
