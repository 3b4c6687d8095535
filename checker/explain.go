package checker

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"fencepost/harness/record/history"
)

// Explanation says why a run is not PASS, as far as its history can tell. It is
// made of the history alone: neither the name of the system under test nor what a
// scenario was meant to show plays a part.
type Explanation struct {
	Version int     `json:"version"` // of this format: 1
	Run     string  `json:"run"`
	Verdict Verdict `json:"verdict"`
	Summary string  `json:"summary"`
	// Causes are what fits, the most specific evidence first.
	Causes []Cause `json:"causes"`
	// Unexplained are findings of properties for which no cause accounts: the first
	// of each.
	Unexplained []string `json:"unexplained,omitempty"`
	// Lacks are, beside a violation, what else makes the run a poor test (P14).
	Lacks []string `json:"lacks,omitempty"`
}

// Cause is a mechanism that explains what was found.
type Cause struct {
	// Mechanism is its id; see Mechanisms.
	Mechanism string `json:"mechanism"`
	// Rank is 1 for the best supported; causes of one rank are equally supported.
	Rank int `json:"rank"`
	// Statement names the mistake in a sentence.
	Statement string `json:"statement"`
	// Evidence is what in this history shows it, with its numbers.
	Evidence []string `json:"evidence"`
	// Properties are those of the verdict for which it accounts.
	Properties []string `json:"properties"`
	// Count is how often it was seen.
	Count int    `json:"count"`
	Key   string `json:"key,omitempty"` // the lock, shard, resource or job of the case shown
	// Alternatives are mechanisms that this history cannot tell from it, and Apart
	// what would rule this one out.
	Alternatives []string `json:"alternatives,omitempty"`
	Apart        string   `json:"apart,omitempty"`
	// Occasion is what befell the worker of the case meanwhile, as a clause; "": nothing
	// that a fault did to it.
	Occasion string `json:"occasion,omitempty"`
	// Chain is how one case came about, in the order of time.
	Chain []Step `json:"chain"`
	// Logs are lines of the processes' logs around the mistake; see AddLogs.
	Logs []LogLine `json:"logs,omitempty"`

	at    int64    // of the mistake, as TS
	procs []string // whose logs matter
}

// Roles of a Step.
const (
	RoleBefore  = "before"  // what made it possible
	RoleFault   = "fault"   // a fault in force
	RoleMistake = "mistake" // what should not have been done
	RoleHarm    = "harm"    // what came of it
)

// Step is one link of a chain.
type Step struct {
	Role string  `json:"role"`
	TS   int64   `json:"ts"`
	At   float64 `json:"at_s"` // seconds of the run
	Text string  `json:"text"`
	// File and Line are where the event is recorded; "" for what has no single event.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// weight is how specific evidence is.
type weight int

const (
	symptom  weight = iota + 1 // a consequence that many mistakes have
	possible                   // nothing contradicts it
	fits                       // a pattern that few mistakes leave
	shown                      // the record shows the mistake itself
	written                    // the text of a statement says it
)

// suspect is a mechanism that fits, with what it rests on.
type suspect struct {
	id       string
	weight   weight
	evidence []string
	count    int
	key      string
	chain    []Step
	at       int64
	procs    []string
	group    string // suspects of one group are alternatives for the same findings
}

// inquiry is what the rules look at, and what they have found.
type inquiry struct {
	a        *analysis
	res      *Result
	red      map[string]bool // properties that are not well
	suspects []*suspect
	start    int64 // of the run, for people
}

// inquired is the order in which the properties' rules are asked, and so in which causes of
// one rank are told: the record first, then the statements, the rows, the holders, the sink,
// the jobs. Properties that are not named come last.
var inquired = []string{"P14", "P15", "P13", "P1", "P9", "P2", "P8", "P11", "P7", "P3", "P10", "P4", "P5", "P12", "P6"}

// inquiries are all properties in that order.
func inquiries() []check {
	place := func(c check) int {
		if i := slices.Index(inquired, c.id); i >= 0 {
			return i
		}
		return len(inquired)
	}
	return slices.SortedStableFunc(slices.Values(checks), func(c, d check) int { return cmp.Compare(place(c), place(d)) })
}

// Explain looks for the mechanisms behind a verdict. Options.Dir is the run's
// directory, to which files are relative.
func Explain(h *history.History, r *Result, o Options) *Explanation {
	if r.Verdict == Pass {
		return &Explanation{Version: 1, Run: r.Run, Verdict: r.Verdict, Summary: "nothing to explain: the verdict is PASS", Causes: []Cause{}}
	}
	return analyse(h, o.withDefaults()).inquire(r)
}

// inquire looks for the mechanisms behind a verdict that is not PASS.
func (a *analysis) inquire(r *Result) *Explanation {
	e := &Explanation{Version: 1, Run: r.Run, Verdict: r.Verdict, Causes: []Cause{}}
	x := &inquiry{a: a, res: r, red: map[string]bool{}, start: begun(a.h)}
	want := map[Verdict]Status{Fail: StatusFail, Invalid: StatusInvalid, Unknown: StatusUnknown}[r.Verdict]
	for _, p := range r.Properties {
		if p.Status == want {
			x.red[p.ID] = true
		}
	}
	for _, c := range inquiries() {
		for _, r := range c.rules {
			if r.needs == "" || x.a.promised(r.needs) {
				r.find(x)
			}
		}
	}
	x.weigh()
	e.Causes = x.causes()
	x.remainder(e)
	e.Summary = r.Told(e).Sentence()
	return e
}

// best are the causes of the first rank.
func (e *Explanation) best() []Cause {
	n := slices.IndexFunc(e.Causes, func(c Cause) bool { return c.Rank > 1 })
	if n < 0 {
		n = len(e.Causes)
	}
	return e.Causes[:n]
}

// Best are the mechanisms of the first rank.
func (e *Explanation) Best() []string {
	var out []string
	for _, c := range e.best() {
		out = append(out, c.Mechanism)
	}
	return out
}

// Split is an explanation as it is read: the cause whose case is shown; with rivals, that
// history cannot tell apart, all of them and it among them; and what else fits. It must have
// a cause.
func (e *Explanation) Split() (shown Cause, rivals, others []Cause) {
	shown = e.Causes[0]
	for i, c := range e.Causes {
		rival := slices.Contains(shown.Alternatives, c.Mechanism)
		if rival || i == 0 && len(shown.Alternatives) > 0 {
			rivals = append(rivals, c)
		} else if i > 0 {
			others = append(others, c)
		}
	}
	if len(rivals) == 1 {
		rivals = nil
	}
	return shown, rivals, others
}

// begun is when a run's first phase began.
func begun(h *history.History) int64 {
	if ph := h.Phases(); len(ph) > 0 {
		return ph[0].From
	}
	if len(h.Events) > 0 {
		return h.Events[0].TS
	}
	return 0
}

// failed says whether one of the properties is violated.
func (x *inquiry) failed(ids ...string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return x.red[id] })
}

// scratch runs a check again for what it finds on the way.
func (x *inquiry) scratch(run func(context.Context, *analysis, *Property)) *Property {
	p := &Property{}
	run(context.Background(), x.a, p)
	return p
}

// maxEvidence bounds what is said for one mechanism.
const maxEvidence = 3

// suspect files one, or adds to what is filed of the mechanism. nil if it accounts
// for nothing that was found.
func (x *inquiry) suspect(id string, w weight, n int, format string, args ...any) *suspect {
	m, known := mechanisms[id]
	if !known {
		panic("checker: unknown mechanism " + id)
	}
	if !x.failed(m.accounts...) {
		return &suspect{} // filed nowhere
	}
	i := slices.IndexFunc(x.suspects, func(s *suspect) bool { return s.id == id })
	if i < 0 {
		i = len(x.suspects)
		x.suspects = append(x.suspects, &suspect{id: id})
	}
	s := x.suspects[i]
	s.weight, s.count = max(s.weight, w), max(s.count, n)
	if text := fmt.Sprintf(format, args...); len(s.evidence) < maxEvidence && !slices.Contains(s.evidence, text) {
		s.evidence = append(s.evidence, text)
	}
	return s
}

// weigh takes from the weight of what an incomplete record can feign.
func (x *inquiry) weigh() {
	late := slices.ContainsFunc(x.a.record.Remarks, func(r history.Remark) bool { return r.Kind == history.Late })
	if !x.a.incomplete() && !late {
		return
	}
	for _, s := range x.suspects {
		if !mechanisms[s.id].ofRecord && s.weight < written {
			s.weight = min(s.weight, possible)
		}
	}
}

// causes ranks the suspects. One that is less specific than another stays only if it
// accounts for a property that no better one does.
func (x *inquiry) causes() []Cause {
	slices.SortStableFunc(x.suspects, func(s, t *suspect) int { return cmp.Compare(t.weight, s.weight) })
	out := []Cause{}
	done := map[string]bool{}
	rank, last := 0, weight(0)
	for i, s := range x.suspects {
		props := x.accounted(s.id)
		if s.weight != last {
			for _, t := range x.suspects[:i] {
				for _, id := range x.accounted(t.id) {
					done[id] = true
				}
			}
		}
		if len(out) > 0 && s.weight < fits && s.weight != last || !slices.ContainsFunc(props, func(id string) bool { return !done[id] }) {
			continue
		}
		if s.weight != last {
			rank, last = rank+1, s.weight
		}
		out = append(out, x.cause(s, rank, props))
	}
	return out
}

// accounted are the properties of the verdict for which a mechanism accounts.
func (x *inquiry) accounted(id string) []string {
	var out []string
	for _, p := range x.res.Properties {
		if x.red[p.ID] && slices.Contains(mechanisms[id].accounts, p.ID) {
			out = append(out, p.ID)
		}
	}
	return out
}

func (x *inquiry) cause(s *suspect, rank int, props []string) Cause {
	c := Cause{
		Mechanism: s.id, Rank: rank, Statement: mechanisms[s.id].statement, Evidence: s.evidence, Properties: props, Count: max(s.count, 1), Key: s.key,
		at: s.at, procs: s.procs,
	}
	faults := x.faultsOf(s)
	c.Chain, c.Occasion = x.withFaults(s, faults), x.occasion(s, faults)
	for _, t := range x.suspects {
		if t != s && s.group != "" && t.group == s.group && t.weight == s.weight {
			c.Alternatives = append(c.Alternatives, t.id)
			c.Apart = mechanisms[s.id].apart
		}
	}
	return c
}

// remainder notes the properties for which nothing accounts, and what a violated run
// lacks as a test.
func (x *inquiry) remainder(e *Explanation) {
	done := map[string]bool{}
	for _, c := range e.Causes {
		for _, id := range c.Properties {
			done[id] = true
		}
	}
	for _, p := range x.res.Properties {
		switch {
		case x.red[p.ID] && !done[p.ID]:
			why := p.Detail
			if len(p.Violations) > 0 {
				why = p.Violations[0].Message
			}
			e.Unexplained = append(e.Unexplained, p.ID+": "+why)
		case p.Status == StatusInvalid && x.res.Verdict == Fail:
			for _, v := range p.Violations[:min(len(p.Violations), printed)] {
				e.Lacks = append(e.Lacks, v.Message)
			}
		}
	}
}
