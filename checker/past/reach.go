package past

import (
	"cmp"
	"slices"
	"strings"

	"fencepost/harness/record/history"
)

// cutsOff says whether a fault takes from its workers their way to a quorum, or their life,
// given what requests may take, in ns.
func cutsOff(f *history.Fault, patience int64) bool {
	switch history.KindOfFault(f.Name).Takes {
	case history.TakesSink, history.TakesNothing:
		return false
	case history.TakesTime:
		return f.DelayMS == 0 || 2*f.DelayMS*1e6 >= patience // slow, but answers come in time
	}
	return true
}

// cutsSink says whether a fault takes the way to the sink.
func cutsSink(f *history.Fault) bool { return history.KindOfFault(f.Name).Takes == history.TakesSink }

// nodesIn finds the nodes that a fault takes from the quorum: n and a number. A bridge
// takes none away by itself, but with one more gone too few see each other.
func nodesIn(f *history.Fault) []string {
	if history.KindOfFault(f.Name).Takes == history.TakesOneNode {
		return []string{"bridge"}
	}
	var out []string
	for _, t := range f.Targets {
		for _, part := range strings.FieldsFunc(t, func(r rune) bool { return !alphanumeric(r) }) {
			if len(part) > 1 && part[0] == 'n' && strings.Trim(part[1:], "0123456789") == "" && !slices.Contains(out, part) {
				out = append(out, part)
			}
		}
	}
	return out
}

// withoutQuorum are the times in which nobody can count on a quorum: so many nodes are
// under a fault at once that those left may be too few, or a fault is aimed at nothing
// that is known.
func (a *Past) withoutQuorum() (away []history.Span) {
	replicas := 3
	for _, e := range a.Expects {
		if e.Expect().Nodes > 0 {
			replicas = min(e.Expect().Nodes, 3)
		}
	}
	if in := a.Agreement(); in != nil {
		replicas = min(len(in.Nodes), 3)
	}
	spare := (replicas - 1) / 2 // so many may be missing
	type change struct {
		Ts   int64
		Node string
		By   int
	}
	var changes []change
	for i := range a.Faults {
		f := &a.Faults[i]
		nodes := nodesIn(&f.Fault)
		if len(WorkersIn(f.Fault.Targets)) > 0 || cutsSink(&f.Fault) {
			continue // aimed at workers or the sink, whatever the links are called
		}
		if len(nodes) == 0 { // at what is not known
			nodes = []string{"?", "?1", "?2"}
		}
		for _, n := range nodes {
			if n[0] == 'n' && !a.decides(n) {
				continue // nobody counts on it
			}
			changes = append(changes, change{Ts: f.From, Node: n, By: 1}, change{Ts: f.To, Node: n, By: -1})
		}
	}
	slices.SortStableFunc(changes, func(x, y change) int { return cmp.Or(cmp.Compare(x.Ts, y.Ts), cmp.Compare(y.By, x.By)) })
	under, gone := map[string]int{}, 0
	for _, c := range changes {
		before := gone
		if c.By > 0 && under[c.Node] == 0 {
			gone++
		} else if c.By < 0 && under[c.Node] == 1 {
			gone--
		}
		under[c.Node] += c.By
		switch {
		case before <= spare && gone > spare:
			away = append(away, history.Span{Name: "quorum", From: c.Ts, To: history.Forever})
		case before > spare && gone <= spare:
			away[len(away)-1].To = c.Ts
		}
	}
	return away
}

// Silences are the times in which a life cannot be expected to get anything decided: no
// quorum is there, a fault cuts its own way to one, or its clock is stopped, or wrong by
// more than the declared bound. They are in order and do not overlap.
func (a *Past) Silences(life string) []history.Span { return a.silent[life] }

func (a *Past) silencesOf(life string) []history.Span {
	out := slices.Clone(a.QuorumAway)
	for _, f := range a.Faults {
		if slices.Contains(WorkersIn(f.Fault.Targets), history.Worker(life)) && cutsOff(&f.Fault, a.requestTime) {
			out = append(out, history.Span{Name: f.Fault.ID, From: f.From, To: f.To})
		}
	}
	notes := a.Clocks[life]
	for i, e := range notes {
		to := a.Died(life)
		if i+1 < len(notes) {
			to = notes[i+1].TS
		}
		rate := float64(e.Clock().RatePPM) / 1e6
		if e.Clock().Suspended || a.beyond(life, min(rate, 0), max(rate, 0)) {
			out = append(out, history.Span{Name: "clock", From: e.TS, To: to})
		}
	}
	return Merge(out, 0)
}

// WithWay are the times in which at least one worker had a way to a quorum.
func (a *Past) WithWay() []history.Span {
	var open []history.Span
	for name, l := range a.Lives {
		if l.Recording && name != history.Harness {
			open = append(open, Without([]history.Span{{From: l.first, To: a.Died(name)}}, a.Silences(name))...)
		}
	}
	return Merge(open, 0)
}

// longestRequest is what clients wait for one answer, at most: a sixth of the longest ttl.
func (a *Past) longestRequest() int64 {
	ttl := int64(0)
	for _, l := range a.Rows {
		for _, c := range l.CAS {
			if IsGrant(c.Kind()) {
				ttl = max(ttl, c.TTL())
			}
		}
	}
	return max(ttl/6, 1)
}

// Merge puts spans in order and joins those that are no more than slack apart.
func Merge(spans []history.Span, slack int64) []history.Span {
	slices.SortStableFunc(spans, func(x, y history.Span) int { return cmp.Compare(x.From, y.From) })
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && s.From <= out[n-1].To+slack {
			out[n-1].To = max(out[n-1].To, s.To)
			continue
		}
		out = append(out, s)
	}
	return out
}

// Without is what is left of spans when others are taken out; both are in order, and
// neither overlaps itself.
func Without(spans, others []history.Span) []history.Span {
	var out []history.Span
	for _, s := range spans {
		for _, o := range others {
			if o.To <= s.From || o.From >= s.To {
				continue
			}
			if o.From > s.From {
				out = append(out, history.Span{Name: s.Name, From: s.From, To: o.From})
			}
			s.From = o.To
			if s.From >= s.To {
				break
			}
		}
		if s.From < s.To {
			out = append(out, s)
		}
	}
	return out
}

// Agreement is in which of several data centres the run's system is to agree; nil: there is
// only one.
func (a *Past) Agreement() *history.Agreement {
	for _, e := range a.Expects {
		if in := e.Expect().Agreement; in != nil {
			return in
		}
	}
	return nil
}

// decides reports whether a node takes part in the run's decisions.
func (a *Past) decides(node string) bool {
	in := a.Agreement()
	return in == nil || slices.Contains(in.Nodes, node)
}
