package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fencepost/checker/property"
)

// Answer tells what a judgement has found, explained if it is FAIL or INVALID. What explains an
// UNKNOWN one is that a check did not finish.
func Answer(j *property.Judgement, r *property.Result) property.Answer {
	if r.Verdict == property.Fail || r.Verdict == property.Invalid {
		return answer(r, explain(j, r))
	}
	return answer(r, nil)
}

// AnswerOf is the answer of a result: the one in it, or for results of older versions one made
// of the rest and of its explanation, if there is one (nil: none).
func AnswerOf(r *property.Result, e *Explanation) property.Answer {
	if r.Answer != nil {
		return *r.Answer
	}
	return answer(r, e)
}

func answer(r *property.Result, e *Explanation) property.Answer {
	if e == nil {
		e = &Explanation{}
	}
	switch r.Verdict {
	case property.Fail:
		return failAnswer(r, e)
	case property.Invalid:
		return invalidAnswer(r, e)
	case property.Unknown:
		return r.UnknownAnswer()
	}
	return r.PassAnswer()
}

// reportOrder is the order in which violated properties are reported: what was done to the outside
// first, the rows last. A property that is not named here comes after them.
var reportOrder = []string{"P3", "P4", "P16", "P17", "P8", "P7", "P12", "P5", "P1", "P9", "P6", "P10", "P11", "P2"}

// failAnswer tells of one violation: one for which the best cause accounts, of the case that its
// chain shows if there is one.
func failAnswer(r *property.Result, e *Explanation) property.Answer {
	best := e.best()
	accounted, key := []string(nil), ""
	if len(best) > 0 {
		accounted, key = best[0].Properties, best[0].Key
	}
	var red []*property.Property
	for i := range r.Properties {
		p := &r.Properties[i]
		if p.Status == property.StatusFail && len(p.Violations) > 0 && (len(best) == 0 || slices.Contains(accounted, p.ID)) {
			red = append(red, p)
		}
	}
	if len(red) == 0 {
		return property.Answer{What: "a property is violated", Mechanisms: e.Best()}
	}
	p := slices.MinFunc(red, func(p, q *property.Property) int { return cmp.Compare(reportPlace(p.ID), reportPlace(q.ID)) })
	at := max(0, slices.IndexFunc(p.Violations, func(v property.Violation) bool { return v.Key == key }))
	out := property.Answer{What: p.Violations[at].Message, Because: reason(best, p.ID), Properties: accounted, Mechanisms: e.Best()}
	if len(best) == 0 {
		out.Properties = []string{p.ID}
	}
	return out
}

// reportPlace is a property's place in reportOrder.
func reportPlace(id string) int {
	if i := slices.Index(reportOrder, id); i >= 0 {
		return i
	}
	return len(reportOrder)
}

// reason is the reason that the causes which account for a property give for its violation:
// what befell the worker, and the mistake if it is known. Mistakes that are no rivals may each
// have their part in it, so they give none.
func reason(causes []Cause, property string) string {
	best := slices.DeleteFunc(slices.Clone(causes), func(c Cause) bool { return !slices.Contains(c.Properties, property) })
	if len(best) == 0 || len(best) > 1 && len(best[0].Alternatives) != len(best)-1 {
		return ""
	}
	var out []string
	if c := best[0]; c.Occasion != "" && slices.Contains(delayed, property) {
		out = append(out, c.Occasion)
	}
	if c := best[0]; len(best) == 1 && !general[c.Mechanism] && !slices.Contains(selfExplaining, property) {
		out = append(out, c.Statement)
	}
	return strings.Join(out, ", and ")
}

// delayed are the properties that forbid what comes too late: what delays a worker leads to it.
// selfExplaining are those whose violations name the mistake themselves.
var (
	delayed        = []string{"P3", "P4", "P7", "P8", "P9"}
	selfExplaining = []string{"P13", "P14", "P15", "P18"}
)

// general are the mechanisms that say in general what a violation says of one case: they
// are no reason for it.
var general = map[string]bool{
	"tokens-not-from-row": true, "sink-forgets-tokens": true, "ledger-forged": true, "answer-made-up": true, "rows-differ": true,
	"job-never-ends": true, "completed-before-finish": true, "tried-too-often": true, "step-left-out": true, "run-not-settled": true,
	"no-takeover": true, "foreign-writer": true, "sink-refuses-wrongly": true, "work-stops-in-fault": true,
}

// invalidAnswer tells what an INVALID run lacks.
func invalidAnswer(r *property.Result, e *Explanation) property.Answer {
	out := property.Answer{What: "the run proves nothing", Do: "run it again", Mechanisms: e.Best()}
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
		if p.Status != property.StatusInvalid {
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
