package measure

import (
	"cmp"
	"regexp"
	"slices"

	"fencepost/harness/record/history"
)

// Reach is what came of the points of one name that faults of one kind waited for.
type Reach struct {
	Point string `json:"point"`
	Fault string `json:"fault"` // kill-worker …; EndOf, if the client's coming ended the fault
	// Armed is how often a fault waited, Reached how often a client came and stood there.
	Armed   int `json:"armed"`
	Reached int `json:"reached,omitempty"`
	// What became of the operation that was under way there; the sum is Reached.
	OK         int `json:"ok,omitempty"`
	Fail       int `json:"fail,omitempty"`
	Unknown    int `json:"unknown,omitempty"`
	NoEnd      int `json:"no_end,omitempty"`
	Unrecorded int `json:"unrecorded,omitempty"` // the history has no operation that stands there
	// LeaseLost is how often the lease of the lock or shard was lost afterwards.
	LeaseLost int `json:"lease_lost,omitempty"`
	// Inferred is how many of Armed are known only from the injection: histories without arm
	// notes do not tell of points that nobody reached.
	Inferred int `json:"inferred,omitempty"`
}

// EndOf names, as a kind of fault, the end of one that lasted until somebody came.
func EndOf(fault string) string { return "end of " + fault }

// Add adds another run's numbers of the same point and fault.
func (r *Reach) Add(o Reach) {
	r.Armed += o.Armed
	r.Reached += o.Reached
	r.OK += o.OK
	r.Fail += o.Fail
	r.Unknown += o.Unknown
	r.NoEnd += o.NoEnd
	r.Unrecorded += o.Unrecorded
	r.LeaseLost += o.LeaseLost
	r.Inferred += o.Inferred
}

// SumReaches adds up what has the same point and fault; sorted by both.
func SumReaches(all []Reach) (out []Reach) {
	for _, r := range all {
		i, ok := slices.BinarySearchFunc(out, r, func(a, b Reach) int {
			return cmp.Or(cmp.Compare(a.Point, b.Point), cmp.Compare(a.Fault, b.Fault))
		})
		if !ok {
			out = slices.Insert(out, i, Reach{Point: r.Point, Fault: r.Fault})
		}
		out[i].Add(r)
	}
	return out
}

// Reaches are the points that faults waited for in a run, and what became of the operations
// under way there. ops are h's.
func Reaches(h *history.History, ops []history.Operation) []Reach {
	var out []Reach
	for _, w := range waits(h) {
		r := Reach{Point: w.point, Fault: w.fault, Armed: 1}
		if w.inferred {
			r.Inferred = 1
		}
		if w.proc != "" {
			r.Reached = 1
			s := scene{h: h, ops: ops, wait: w}
			end, found := s.end()
			switch {
			case !found:
				r.Unrecorded = 1
			case end == history.OK:
				r.OK = 1
			case end == history.Fail:
				r.Fail = 1
			case end == history.Unknown:
				r.Unknown = 1
			default:
				r.NoEnd = 1
			}
			if found && s.lost() {
				r.LeaseLost = 1
			}
		}
		out = append(out, r)
	}
	return SumReaches(out)
}

// wait is one fault that waited for a point.
type wait struct {
	point, fault string
	proc, key    string // who came; proc "": nobody
	at           int64  // when the client certainly stood there
	inferred     bool
}

// triggered is the trigger of an injection at a point: see run.injectOnce.
var triggered = regexp.MustCompile(`^(\S+) at point (\S+) of (\S*)$`)

// waits are the arm notes, and the injections at points that no such note is of.
func waits(h *history.History) (out []wait) {
	noted := map[string]bool{}
	for i := range h.Events {
		e := &h.Events[i]
		switch {
		case e.Type != history.Note:
		case e.Op == history.NoteArm && e.Armed() != nil:
			a := e.Armed()
			w := wait{point: e.Point(), fault: a.Name, proc: a.Proc, key: e.Key, at: e.TS}
			if a.Ends {
				w.fault = EndOf(a.Name)
			} else {
				noted[a.Fault] = true
			}
			out = append(out, w)
		case e.Op == history.NoteFault && e.Fault() != nil && e.Fault().Action == history.ActionInject && !noted[e.Fault().ID]:
			if m := triggered.FindStringSubmatch(e.Fault().Trigger); m != nil {
				out = append(out, wait{point: m[2], fault: e.Fault().Name, proc: m[1], key: m[3], at: e.TS, inferred: true})
			}
		}
	}
	return out
}
