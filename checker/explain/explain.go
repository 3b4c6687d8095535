package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// Explanation says why a run is not PASS, as far as its history can tell. It is
// made of the history alone: neither the name of the system under test nor what a
// scenario was meant to show plays a part.
type Explanation struct {
	Version int              `json:"version"` // of this format: 1
	Run     string           `json:"run"`
	Verdict property.Verdict `json:"verdict"`
	Summary string           `json:"summary"`
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
	Chain []property.Step `json:"chain"`
	// Logs are lines of the processes' logs around the mistake; see AddLogs.
	Logs []LogLine `json:"logs,omitempty"`

	At    int64    `json:"-"` // of the mistake, as TS
	Procs []string `json:"-"` // whose logs matter
}

// Verdict looks for the mechanisms behind a verdict. Files are named relative to dir.
func Verdict(h *history.History, r *property.Result, dir string) *Explanation {
	if r.Verdict == property.Pass {
		return &Explanation{Version: 1, Run: r.Run, Verdict: r.Verdict, Summary: "nothing to explain: the verdict is PASS", Causes: []Cause{}}
	}
	return explain(property.New(h, false, dir, 0), r)
}

// explain looks for the mechanisms behind a verdict that is not PASS.
func explain(j *property.Judgement, r *property.Result) *Explanation {
	x := j.Inquire(r)
	e := &Explanation{Version: 1, Run: r.Run, Verdict: r.Verdict, Causes: causes(x)}
	remainder(x, e)
	e.Summary = AnswerOf(r, e).Sentence()
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

// causes ranks the suspects. One that is less specific than another stays only if it
// accounts for a property that no better one does.
func causes(x *property.Inquiry) []Cause {
	slices.SortStableFunc(x.Suspects, func(s, t *property.Suspect) int { return cmp.Compare(t.Weight, s.Weight) })
	out := []Cause{}
	done := map[string]bool{}
	rank, last := 0, property.Weight(0)
	for i, s := range x.Suspects {
		props := accounted(x, s.ID)
		if s.Weight != last {
			for _, t := range x.Suspects[:i] {
				for _, id := range accounted(x, t.ID) {
					done[id] = true
				}
			}
		}
		if len(out) > 0 && s.Weight < property.WeightFits && s.Weight != last ||
			!slices.ContainsFunc(props, func(id string) bool { return !done[id] }) {
			continue
		}
		if s.Weight != last {
			rank, last = rank+1, s.Weight
		}
		out = append(out, cause(x, s, rank, props))
	}
	return out
}

// accounted are the properties of the verdict for which a mechanism accounts.
func accounted(x *property.Inquiry, id string) []string {
	var out []string
	for _, p := range x.Result.Properties {
		if x.Red[p.ID] && slices.Contains(property.MechanismByID[id].Accounts, p.ID) {
			out = append(out, p.ID)
		}
	}
	return out
}

func cause(x *property.Inquiry, s *property.Suspect, rank int, props []string) Cause {
	c := Cause{
		Mechanism: s.ID, Rank: rank, Statement: property.MechanismByID[s.ID].Statement, Evidence: s.Evidence, Properties: props,
		Count: max(s.Count, 1), Key: s.Key,
		At: s.At, Procs: s.Procs,
	}
	faults := faultsOf(x, s)
	c.Chain, c.Occasion = withFaults(x, s, faults), occasion(x, s, faults)
	for _, t := range x.Suspects {
		if t != s && s.Group != "" && t.Group == s.Group && t.Weight == s.Weight {
			c.Alternatives = append(c.Alternatives, t.ID)
			c.Apart = property.MechanismByID[s.ID].Apart
		}
	}
	return c
}

// remainder notes the properties for which nothing accounts, and what a violated run
// lacks as a test.
func remainder(x *property.Inquiry, e *Explanation) {
	done := map[string]bool{}
	for _, c := range e.Causes {
		for _, id := range c.Properties {
			done[id] = true
		}
	}
	for _, p := range x.Result.Properties {
		switch {
		case x.Red[p.ID] && !done[p.ID]:
			why := p.Detail
			if len(p.Violations) > 0 {
				why = p.Violations[0].Message
			}
			e.Unexplained = append(e.Unexplained, p.ID+": "+why)
		case p.Status == property.StatusInvalid && x.Result.Verdict == property.Fail:
			for _, v := range p.Violations[:min(len(p.Violations), property.Printed)] {
				e.Lacks = append(e.Lacks, v.Message)
			}
		}
	}
}

// maxChainFaults bounds the faults of a chain.
const maxChainFaults = 3

// faultsOf are the faults that were in force while the case came about, the last ones
// before the harm: those aimed at a worker of the chain, or at no worker.
func faultsOf(x *property.Inquiry, s *property.Suspect) []history.FaultWindow {
	if len(s.Chain) == 0 {
		return nil
	}
	from, to := s.Chain[0].TS, s.Chain[0].TS
	for _, st := range s.Chain {
		from = min(from, st.TS)
		if st.Role != property.RoleHarm {
			to = max(to, st.TS)
		}
	}
	var out []history.FaultWindow
	for _, f := range x.Faults {
		aimed := past.WorkersIn(f.Fault.Targets)
		concerned := len(aimed) == 0 || slices.ContainsFunc(s.Procs, func(p string) bool { return slices.Contains(aimed, history.Worker(p)) })
		if f.From <= to && f.To >= from && concerned {
			out = append(out, f)
		}
	}
	return out[max(0, len(out)-maxChainFaults):]
}

// withFaults is the chain in order, with faults.
func withFaults(x *property.Inquiry, s *property.Suspect, faults []history.FaultWindow) []property.Step {
	chain := append([]property.Step{}, s.Chain...)
	for _, f := range faults {
		st := x.Instant(property.RoleFault, f.From, "%s %s (%s) was in force until +%.3f s",
			f.Fault.ID, f.Fault.Name, strings.Join(f.Fault.Targets, ", "), float64(f.To-x.Begin)/1e9)
		if note := x.FaultEvents(f.Fault.ID); len(note) > 0 {
			st.File, st.Line = phrase.File(x.Dir, note[0].File), note[0].Line
		}
		chain = append(chain, st)
	}
	slices.SortStableFunc(chain, func(a, b property.Step) int { return cmp.Compare(a.TS, b.TS) })
	return chain
}

// faultEffects are what a fault does to the worker that it is aimed at. Other faults are
// reported by name.
var faultEffects = map[string]struct {
	did     string
	expires bool // it keeps the worker from renewing: a lease that is shorter is over
}{
	"clock":             {did: "had a wrong clock"},
	"flaky-links":       {did: "had flaky links"},
	"heartbeat-loss":    {did: "was not seen by the others"},
	"kill-worker":       {did: "was dead", expires: true},
	"latency":           {did: "had slow links"},
	"latency-oneway":    {did: "had links that were slow in one direction"},
	"lost-replies":      {did: "got no answers from the lock store", expires: true},
	"overload":          {did: "was asked for more than can be done"},
	"partition-client":  {did: "was cut off from the lock store", expires: true},
	"partition-peers":   {did: "was cut off from the other workers"},
	"partition-ring":    {did: "was cut off from one node"},
	"pause-worker":      {did: "was paused", expires: true},
	"saturate":          {did: "was asked for as much as can be done"},
	"sink-lost-replies": {did: "got no answers from the sink"},
	"sink-outage":       {did: "was cut off from the sink"},
	"slow-job":          {did: "was slow in its critical section"},
	"stop-worker":       {did: "was stopped", expires: true},
	"suspend":           {did: "was suspended", expires: true},
}

// DescribesFault says whether an answer has words for what a fault does to workers.
func DescribesFault(name string) bool { return faultEffects[name].did != "" }

// occasion is what befell the first worker of a case, by the last fault that was aimed at it.
func occasion(x *property.Inquiry, s *property.Suspect, faults []history.FaultWindow) string {
	if len(s.Procs) == 0 {
		return ""
	}
	worker := history.Worker(s.Procs[0])
	for _, f := range slices.Backward(faults) {
		if !slices.Contains(past.WorkersIn(f.Fault.Targets), worker) {
			continue
		}
		effect := faultEffects[f.Fault.Name]
		did := cmp.Or(effect.did, "was under "+f.Fault.Name)
		text := fmt.Sprintf("worker %s %s for %s", worker, did, inSeconds(f.To-f.From))
		if ttl := longestLease(x.Past); effect.expires && ttl > 0 && f.To-f.From > ttl {
			text += fmt.Sprintf(", past its lease of %s", inSeconds(ttl))
		}
		return text
	}
	return ""
}

// longestLease is the longest ttl of a lock or shard, 0 if there is none.
func longestLease(a *past.Past) int64 {
	longest := int64(0)
	for _, l := range a.Rows {
		for _, c := range l.CAS {
			longest = max(longest, c.TTL())
		}
	}
	return longest
}

func inSeconds(ns int64) string { return fmt.Sprintf("%.1f s", float64(ns)/1e9) }
