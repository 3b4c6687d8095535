package checker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Answer is a verdict in words: what a person reads first, wherever a verdict is shown.
type Answer struct {
	// What happened (FAIL), what was missing (INVALID, UNKNOWN), or how much was checked
	// (PASS): a clause without a full stop.
	What string `json:"what"`
	// Because is why that happened, as far as the history tells; "": it does not.
	Because string `json:"because,omitempty"`
	// Do is what to do about an INVALID or UNKNOWN run.
	Do string `json:"do,omitempty"`
	// Properties are the ones that the sentence is about, and Mechanisms the mistakes that
	// fit best (see Mechanisms): Explain says more of them.
	Properties []string `json:"properties,omitempty"`
	Mechanisms []string `json:"mechanisms,omitempty"`
	// Exercised and NotExercised are what a PASS rests on and what it says nothing about.
	Exercised    []string `json:"exercised,omitempty"`
	NotExercised []string `json:"not_exercised,omitempty"`
}

// Sentence is the answer in one sentence, without a capital and a full stop.
func (a Answer) Sentence() string {
	switch {
	case a.Because != "":
		return a.What + ", because " + a.Because
	case a.Do != "":
		return a.What + "; " + a.Do
	}
	return a.What
}

// text is the answer in a line.
func (a Answer) text() string {
	s := a.Sentence()
	for _, list := range []struct {
		name  string
		items []string
	}{{"exercised", a.Exercised}, {"not exercised", a.NotExercised}} {
		if len(list.items) > 0 {
			s += fmt.Sprintf("; %s: %s", list.name, strings.Join(list.items, "; "))
		}
	}
	return s
}

// Told is the answer of a result: the one in it, or for results of older versions one made
// of the rest and of its explanation, if there is one (nil: none).
func (r *Result) Told(e *Explanation) Answer {
	if r.Answer != nil {
		return *r.Answer
	}
	return answer(r, e)
}

func answer(r *Result, e *Explanation) Answer {
	if e == nil {
		e = &Explanation{}
	}
	switch r.Verdict {
	case Fail:
		return failed(r, e)
	case Invalid:
		return lacking(r, e)
	case Unknown:
		return undecided(r)
	}
	return passed(r)
}

// telling is the order in which violated properties are told of: what was done to the
// outside first, the rows last. What is not named comes after them.
var telling = []string{"P3", "P4", "P16", "P17", "P8", "P7", "P12", "P5", "P1", "P9", "P6", "P10", "P11", "P2"}

// failed tells of one violation: one for which the best cause accounts, of the case that its
// chain shows if there is one.
func failed(r *Result, e *Explanation) Answer {
	best := e.best()
	accounted, key := []string(nil), ""
	if len(best) > 0 {
		accounted, key = best[0].Properties, best[0].Key
	}
	var red []*Property
	for i := range r.Properties {
		p := &r.Properties[i]
		if p.Status == StatusFail && len(p.Violations) > 0 && (len(best) == 0 || slices.Contains(accounted, p.ID)) {
			red = append(red, p)
		}
	}
	if len(red) == 0 {
		return Answer{What: "a property is violated", Mechanisms: e.Best()}
	}
	p := slices.MinFunc(red, func(p, q *Property) int { return cmp.Compare(turn(p.ID), turn(q.ID)) })
	at := max(0, slices.IndexFunc(p.Violations, func(v Violation) bool { return v.Key == key }))
	out := Answer{What: p.Violations[at].Message, Because: because(best, p.ID), Properties: accounted, Mechanisms: e.Best()}
	if len(best) == 0 {
		out.Properties = []string{p.ID}
	}
	return out
}

// turn is a property's place in telling.
func turn(id string) int {
	if i := slices.Index(telling, id); i >= 0 {
		return i
	}
	return len(telling) + number(id)
}

// because is the reason that the causes which account for a property give for its violation:
// what befell the worker, and the mistake if it is known. Mistakes that are no rivals may each
// have their part in it, so they give none.
func because(causes []Cause, property string) string {
	var best []Cause
	for _, c := range causes {
		if slices.Contains(c.Properties, property) {
			best = append(best, c)
		}
	}
	if len(best) == 0 || len(best) > 1 && len(best[0].Alternatives) != len(best)-1 {
		return ""
	}
	var out []string
	if c := best[0]; c.Occasion != "" && slices.Contains(late, property) {
		out = append(out, c.Occasion)
	}
	if c := best[0]; len(best) == 1 && !restating[c.Mechanism] && !slices.Contains(stating, property) {
		out = append(out, c.Statement)
	}
	return strings.Join(out, ", and ")
}

// late are the properties that forbid what comes too late: what delays a worker leads to it.
// stating are those whose violations name the mistake themselves.
var (
	late    = []string{"P3", "P4", "P7", "P8", "P9"}
	stating = []string{"P13", "P14", "P15", "P18"}
)

// restating are the mechanisms that say in general what a violation says of one case: they
// are no reason for it.
var restating = map[string]bool{
	"tokens-not-from-row": true, "sink-forgets-tokens": true, "ledger-forged": true, "answer-made-up": true, "rows-differ": true,
	"job-never-ends": true, "completed-before-finish": true, "tried-too-often": true, "step-left-out": true, "run-not-settled": true,
	"no-takeover": true, "foreign-writer": true, "sink-refuses-wrongly": true, "work-stops-in-fault": true,
}

// lacking tells what an INVALID run lacks.
func lacking(r *Result, e *Explanation) Answer {
	out := Answer{What: "the run proves nothing", Do: "run it again", Mechanisms: e.Best()}
	for _, m := range out.Mechanisms {
		if do := remedies[m]; do != "" {
			out.Do = do
			break
		}
	}
	if r.HostBusy != "" {
		out.What, out.Do = "the run proves nothing: "+r.HostBusy, remedies["host-too-busy"]
	}
	reasons := 0
	for _, p := range r.Properties {
		if p.Status != StatusInvalid {
			continue
		}
		out.Properties, reasons = append(out.Properties, p.ID), reasons+p.Count
		if r.HostBusy == "" && len(out.Properties) == 1 && len(p.Violations) > 0 {
			out.What += ": " + p.Violations[0].Message
		}
	}
	if reasons > 1 && r.HostBusy == "" {
		out.What += fmt.Sprintf(" (the first of %d reasons)", reasons)
	}
	return out
}

// remedies are what to do where a run is INVALID for a mechanism.
var remedies = map[string]string{
	"host-too-busy":          "run it again with nothing else at work on this machine",
	"too-little-work":        "run it again for longer (--duration), with nothing else at work on this machine",
	"point-not-reached":      "run it again for longer (--duration), or with another seed",
	"fault-never-came":       "run it again for longer (--duration), or with another seed",
	"worker-missing":         "read that worker's log, and run it again",
	"fault-did-not-bite":     "read the fault's evidence in the report, and run it again",
	"links-not-cut":          "read the fault's evidence in the report, and run it again",
	"process-undisturbed":    "read the fault's evidence in the report, and run it again",
	"threshold-not-measured": "run it again for longer (--duration), so that there is enough to measure",
	"end-not-read":           "run it again, and let it end by itself",
	"calls-missing":          "mend the recorder: fencepost lint lists what it lost",
	"calls-dated-late":       "mend the recorder: an invocation is written down before its request leaves",
	"record-cut-off":         "let each process note its end (docs/history-format.md), and run it again",
	"point-not-kept":         "ask for a point before the request that it is named after (docs/own-system.md)",
	"no-expectation":         "give the history an expect note (docs/history-format.md)",
}

// undecided tells what was not checked.
func undecided(r *Result) Answer {
	out := Answer{
		What: "no violation found, but not everything was checked: " + strings.Join(r.reasons(StatusUnknown), "; "),
		Do:   "check it again on an idle machine or with more time (fencepost check --search)",
	}
	for _, p := range r.Properties {
		if p.Status == StatusUnknown {
			out.Properties = append(out.Properties, p.ID)
		}
	}
	return out
}

// reasons are the details of the properties with that status, each with the ids of those
// that share it. What no system promises is left out.
func (r *Result) reasons(s Status) []string {
	var details []string
	ids := map[string][]string{}
	for _, p := range r.Properties {
		if p.Status != s || s == StatusNA && of(p.ID).always {
			continue
		}
		if ids[p.Detail] == nil {
			details = append(details, p.Detail)
		}
		ids[p.Detail] = append(ids[p.Detail], p.ID)
	}
	for i, detail := range details {
		details[i] = strings.Join(ids[detail], ", ") + ": " + strings.TrimPrefix(detail, "not judged: ")
	}
	return details
}

// passed tells what was exercised, and what was not.
func passed(r *Result) Answer {
	return Answer{What: "no violation in " + plural(r.Counts.Operations, "operation"), Exercised: exercised(r), NotExercised: notExercised(r)}
}

func exercised(r *Result) []string {
	c := r.Counts
	var out []string
	had := func(n int, format string, args ...any) {
		if n > 0 {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	proven := fmt.Sprintf("%d of them proven", c.FaultsProven)
	if c.FaultsProven == c.Faults {
		proven = "proven"
	}
	had(c.Faults, "%s, %s%s", plural(c.Faults, "fault"), proven, c.faults())
	for _, k := range checks {
		if k.tell != nil {
			text := k.tell(&c)
			had(len(text), "%s", text)
		}
	}
	had(c.Takeovers, "%s of %s", plural(c.Takeovers, "takeover"), plural(c.Grants, "grant"))
	had(c.LeasesLost, "%s lost", plural(c.LeasesLost, "lease"))
	had(c.StaleRefused, "%s refused", plural(c.StaleRefused, "stale write"))
	had(c.Unknowns, "%s", r.unknowns("%[2]s, %[1]d settled by the final rows"))
	had(c.Resends, "%s sent again", plural(c.Resends, "request"))
	had(c.ServerTimeouts, "%s given up by a coordinator", plural(c.ServerTimeouts, "write"))
	return out
}

// faults names them with their numbers.
func (c Counts) faults() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(c.FaultNames)) {
		text := name
		if n := c.FaultNames[name]; n > 1 {
			text = fmt.Sprintf("%s (%d)", name, n)
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return ""
	}
	return ": " + strings.Join(out, ", ")
}

// notExercised are the bugs that a run without certain events cannot show.
func notExercised(r *Result) []string {
	c := r.Counts
	var out []string
	blind := func(missing bool, what string) {
		if missing {
			out = append(out, what)
		}
	}
	blind(c.Faults == 0, "faults: none was injected")
	blind(c.Takeovers == 0, "takeovers: no lease was taken over")
	blind(c.StaleRefused == 0, "stale writes: none reached the sink")
	blind(c.Unknowns == 0 && r.chained(), "unknown outcomes: every operation was answered")
	blind(c.Resends == 0, "resent requests: none was sent again")
	blind(c.LeasesLost == 0, "lost leases: none was lost")
	for _, k := range checks {
		if k.blind != nil {
			k.blind(&c, blind)
		}
	}
	blind(c.ServerTimeouts == 0, "writes that surface late: no coordinator gave one up")
	out = append(out, r.reasons(StatusNA)...)
	return append(out, "other faults, other timing, and what needs more time")
}

// chained: what the rows' chains of versions show was judged, as the system promises it.
func (r *Result) chained() bool {
	return !slices.ContainsFunc(r.Properties, func(p Property) bool { return p.ID == "P2" && p.Detail == notPromised })
}

// unknowns says how many unknown outcomes there were and, where the rows' chains tell, how
// many of them were settled.
func (r *Result) unknowns(format string) string {
	n := plural(r.Counts.Unknowns, "unknown outcome")
	if !r.chained() {
		return n
	}
	return fmt.Sprintf(format, r.Counts.UnknownSettled, n)
}
