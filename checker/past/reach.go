package past

import (
	"cmp"
	"slices"
	"sort"
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
	case history.TakesTimeOneWay:
		return f.DelayMS == 0 || f.DelayMS*1e6 >= patience
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
	for f := range Each(a.Faults) {
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
	out := slices.Clone(a.WithoutQuorum)
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

// QuorumReachable are the times in which at least one worker had a way to a quorum.
func (a *Past) QuorumReachable() []history.Span {
	var open []history.Span
	for name, l := range a.Lives {
		if l.Recording && name != history.Harness {
			open = append(open, Without([]history.Span{{From: l.first, To: a.Died(name)}}, a.Silences(name))...)
		}
	}
	return Merge(open, 0)
}

// shortestRequest is what clients wait for one answer, at least: a sixth of the shortest ttl.
// Who has a longer one may get its answers where others do not.
func (a *Past) shortestRequest() int64 {
	ttl := int64(history.Forever)
	for _, l := range a.Rows {
		for _, c := range l.CAS {
			if t := c.TTL(); IsGrant(c.Kind()) && t > 0 {
				ttl = min(ttl, t)
			}
		}
	}
	if ttl == history.Forever {
		return 1
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

// WorkersIn finds the workers that targets name: a worker itself (w1), or a link
// of it to a node (w1->n2).
func WorkersIn(targets []string) []string {
	var out []string
	for _, t := range targets {
		for _, part := range strings.FieldsFunc(t, func(r rune) bool { return !alphanumeric(r) }) {
			if IsWorker(part) && !slices.Contains(out, part) {
				out = append(out, part)
			}
		}
	}
	return out
}

func alphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// IsWorker knows workers by their names: w and a number.
func IsWorker(name string) bool {
	return len(name) > 1 && name[0] == 'w' && strings.Trim(name[1:], "0123456789") == ""
}

// WorkerNames are the workers that recorded operations.
func (a *Past) WorkerNames() map[string]bool {
	out := map[string]bool{}
	for name, l := range a.Lives {
		if l.Recording && name != history.Harness {
			out[history.Worker(name)] = true
		}
	}
	return out
}

// FaultRecovery is what followed a heal, until the next fault or the end: the time to
// the first release that was ok, of any lock, and of the lock for which it took longest;
// in a run with jobs to the first completed job, of any shard and of the slowest. What
// nobody asked for is not waited for.
type FaultRecovery struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	FirstMS     float64 `json:"first_ms"`
	SlowestMS   float64 `json:"slowest_ms"`
	SlowestLock string  `json:"slowest_lock,omitempty"`
	// Locks is how many locks had such a release; of 0 the times mean nothing.
	Locks int `json:"locks"`

	Healed int64 `json:"-"` // the instant
	Until  int64 `json:"-"` // when the next fault came, or the end
	// Waiting are the gaps that had not ended by then, by lock; "" of all together.
	Waiting []Gap `json:"-"`
}

// AfterHeals finds the first successes after each heal. A heal that leaves another fault
// in force is followed by none: the last of those that overlap says how the run came back.
func (a *Past) AfterHeals() []FaultRecovery {
	healed := map[string]bool{}
	for e := range Each(a.History.Events) {
		if e.Op == history.NoteFault && e.Fault() != nil && e.Fault().Action == history.ActionHeal {
			healed[e.Fault().ID] = true
		}
	}
	var out []FaultRecovery
	many := a.ManyRows()
	for _, w := range a.Faults {
		if !healed[w.Fault.ID] {
			continue
		}
		f := FaultRecovery{ID: w.Fault.ID, Name: w.Fault.Name, Healed: w.To, Until: a.EndOfWork()}
		for _, other := range a.Faults {
			switch {
			case other.Fault.ID == w.Fault.ID || other.To <= w.To:
			case other.From <= w.To:
				f.Until = w.To // it is in force already
			default:
				f.Until = min(f.Until, other.From)
			}
		}
		for _, d := range a.Demands() {
			f.add(&d, many)
		}
		out = append(out, f)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Healed < out[j].Healed })
	return out
}

// manyRows is of how many locks it is no wonder that one of them is not asked for any more, or
// has its first success after a heal only when the run ends.
const manyRows = 200

// ManyRows says that the run has so many.
func (a *Past) ManyRows() bool { return len(a.Rows) > manyRows }

// add takes a lock's, or all locks', demand after the heal into account: the longest time
// for which it was asked for until a success.
func (f *FaultRecovery) add(d *Demand, many bool) {
	took, ended := int64(0), false
	i := sort.Search(len(d.Done), func(i int) bool { return d.Done[i].End.TS >= f.Healed })
	over := f.Until
	if i < len(d.Done) && d.Done[i].End.TS <= f.Until {
		over, ended = d.Done[i].End.TS, true
	}
	wait := Gap{Demand: d}
	for _, s := range d.spans {
		from, to := max(s.From, f.Healed), min(s.To, over)
		if to-from > took {
			took, wait.Span = to-from, history.Span{Name: s.Name, From: from, To: to}
		}
	}
	ms := float64(took) / 1e6
	switch {
	case !ended && len(d.Done) > 0 && !d.jobs && over > f.Healed && !(many && d.Key != ""):
		// A lock that was in use: somebody should have asked for it all the time.
		wait.Span = history.Span{Name: d.Key, From: f.Healed, To: over}
		f.Waiting = append(f.Waiting, wait)
	case !ended && took > 0:
		f.Waiting = append(f.Waiting, wait)
	case !ended:
	case d.Key == "":
		f.FirstMS = ms
		f.Locks = max(f.Locks, 1)
	default:
		if f.Locks == 0 || ms > f.SlowestMS {
			f.SlowestMS, f.SlowestLock = ms, cmp.Or(d.Key, f.SlowestLock)
		}
		f.Locks++
	}
}

// LastHeal is the end of the last fault, 0 without any.
func (a *Past) LastHeal() int64 {
	t := int64(0)
	for _, f := range a.Faults {
		t = max(t, f.To)
	}
	return t
}

func Evidence(f history.FaultWindow) string {
	var texts []string
	for _, e := range f.Evidence {
		texts = append(texts, e.Fault().Text)
	}
	if len(texts) == 0 {
		return "there is no evidence at all"
	}
	return strings.Join(texts, "; ")
}

func (a *Past) FaultEvents(id string) []*history.Event {
	var out []*history.Event
	for e := range Each(a.History.Events) {
		if e.Op == history.NoteFault && e.Fault() != nil && e.Fault().ID == id {
			out = append(out, e)
		}
	}
	return out
}
