package measure

import "fencepost/harness/history"

// Spans of a job's life that are measured like operations.
const (
	// OpStart is from the first enqueue's invocation to the job's first run, of jobs
	// that are due at once.
	OpStart history.Op = "enqueue → start"
	// OpRun is one run of a job's handler, from its start to its end.
	OpRun history.Op = "run"
)

// spans makes operations of the lives of jobs. What never started or never ended
// has none: the verdict tells of it.
func spans(h *history.History) []history.Operation {
	var out []history.Operation
	asked := map[string]history.Event{}
	type run struct {
		issuer string
		token  int64
	}
	running := map[run]history.Event{}
	span := func(op history.Op, from, to history.Event, outcome history.Type) {
		from.Op, to.Op = op, op
		out = append(out, history.Operation{Invoke: from, End: to, Outcome: outcome})
	}
	for _, e := range h.Events {
		switch {
		case e.Op == history.OpEnqueue && e.Type == history.Invoke && e.Job != nil && e.Job.DueMS == 0:
			if _, again := asked[e.Key]; !again {
				asked[e.Key] = e
			}
		case e.Issuer == "":
		case e.Op == history.NoteStart:
			running[run{e.Issuer, e.Token}] = e
			if a, ok := asked[e.Key]; ok && e.Attempt == 1 {
				span(OpStart, a, e, history.OK)
			}
		case e.Op == history.NoteFinish:
			r := run{e.Issuer, e.Token}
			if s, ok := running[r]; ok {
				delete(running, r)
				outcome := history.OK
				if e.Error != "" {
					outcome = history.Fail
				}
				span(OpRun, s, e, outcome)
			}
		}
	}
	return out
}
