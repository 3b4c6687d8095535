package property

import (
	"fmt"
	"slices"
	"strings"

	"fencepost/checker/phrase"
)

// summarize says in a sentence or two what the verdict means.
func summarize(r *Result, a *Judgement) string {
	switch r.Verdict {
	case Fail:
		return failSummary(r)
	case Invalid:
		if r.HostBusy != "" {
			return "the run proves nothing: " + r.HostBusy
		}
		for _, p := range r.Properties {
			if p.Status == StatusInvalid {
				return fmt.Sprintf("the run proves nothing, for %s: %s", phrase.Plural(p.Count, "reason"), p.Violations[0].Message)
			}
		}
	case Unknown:
		var open []string
		for _, p := range r.Properties {
			if p.Status == StatusUnknown {
				open = append(open, p.ID+": "+p.Detail)
			}
		}
		return "no violation found, but not everything was checked: " + strings.Join(open, "; ")
	}
	c := r.Counts
	more := ""
	for _, k := range All {
		if k.tell != nil {
			if text := k.tell(&c); text != "" {
				more += ", " + text
			}
		}
	}
	return fmt.Sprintf("no violation in %s%s, %s, %s refused, %s; this run could not have seen %s",
		phrase.Plural(c.Operations, "operation"), more, phrase.Plural(c.Takeovers, "takeover"), phrase.Plural(c.StaleRefused, "stale write"),
		r.unknowns("%d of %s settled"), strings.Join(blindSpots(r, a), ", "))
}

// chained: what the rows' chains of versions show was judged, as the system promises it.
func (r *Result) Chained() bool {
	return !slices.ContainsFunc(r.Properties, func(p Property) bool { return p.ID == "P2" && p.Detail == notPromised })
}

// unknowns says how many unknown outcomes there were and, where the rows' chains tell, how
// many of them were settled.
func (r *Result) unknowns(format string) string {
	n := phrase.Plural(r.Counts.Unknowns, "unknown outcome")
	if !r.Chained() {
		return n
	}
	return fmt.Sprintf(format, r.Counts.UnknownSettled, n)
}

func failSummary(r *Result) string {
	var ids []string
	total := 0
	var first *Violation
	for i := range r.Properties {
		p := &r.Properties[i]
		if p.Status != StatusFail {
			continue
		}
		ids = append(ids, p.ID)
		total += p.Count
		if first == nil && len(p.Violations) > 0 {
			first = &p.Violations[0]
		}
	}
	s := fmt.Sprintf("%s of %s", phrase.Plural(total, "violation"), strings.Join(ids, ", "))
	if first != nil {
		s += "; the first: " + first.Message
	}
	return s
}

// blindSpots are the bugs that a run without certain events cannot show.
func blindSpots(r *Result, a *Judgement) []string {
	c := r.Counts
	var out []string
	blind := func(missing bool, what string) {
		if missing {
			out = append(out, what)
		}
	}
	blind(c.Faults == 0, "what only happens under faults (none were injected)")
	blind(c.Takeovers == 0, "a faulty takeover (there was none)")
	blind(c.StaleRefused == 0, "a sink that accepts stale tokens (none arrived)")
	blind(c.Unknowns == 0 && r.Chained(), "a wrongly settled unknown outcome (there was none)")
	blind(c.Resends == 0, "a request applied twice (none was resent)")
	blind(c.LeasesLost == 0, "work that goes on after a lost lease (none was lost)")
	for _, k := range All {
		if k.blind != nil {
			k.blind(&c, blind)
		}
	}
	timeouts := 0
	for _, l := range a.Rows {
		for _, x := range l.CAS {
			if x.End != nil && x.End.ServerTimeout {
				timeouts++
			}
		}
	}
	blind(timeouts == 0, "a timed-out write that surfaces late (no coordinator timed out)")
	var na []string
	for _, p := range r.Properties {
		if p.Status == StatusNA && !Of(p.ID).always {
			na = append(na, p.ID)
		}
	}
	blind(len(na) > 0, "violations of "+strings.Join(na, ", ")+" (not judged)")
	return append(out, "what needs more time, other faults or other timing")
}
