package property

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fencepost/checker/phrase"
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
	// fit best (see [Mechanisms]): an explanation says more of them.
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

// Text is the answer in a line.
func (a Answer) Text() string {
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

// UnknownAnswer is the answer of an UNKNOWN result: what was not checked.
func (r *Result) UnknownAnswer() Answer {
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
		if p.Status != s || s == StatusNA && CheckByID(p.ID).always {
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

// PassAnswer is the answer of a PASS: what was exercised, and what was not.
func (r *Result) PassAnswer() Answer {
	return Answer{What: "no violation in " + phrase.Plural(r.Counts.Operations, "operation"), Exercised: exercised(r),
		NotExercised: notExercised(r)}
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
	had(c.Faults, "%s, %s%s", phrase.Plural(c.Faults, "fault"), proven, c.faults())
	for _, k := range All {
		if k.summary != nil {
			text := k.summary(&c)
			had(len(text), "%s", text)
		}
	}
	had(c.Takeovers, "%s of %s", phrase.Plural(c.Takeovers, "takeover"), phrase.Plural(c.Grants, "grant"))
	had(c.LeasesLost, "%s lost", phrase.Plural(c.LeasesLost, "lease"))
	had(c.StaleRefused, "%s refused", phrase.Plural(c.StaleRefused, "stale write"))
	had(c.Unknowns, "%s", r.unknowns("%[2]s, %[1]d settled by the final rows"))
	had(c.Resends, "%s sent again", phrase.Plural(c.Resends, "request"))
	had(c.ServerTimeouts, "%s given up by a coordinator", phrase.Plural(c.ServerTimeouts, "write"))
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
	blind(c.Unknowns == 0 && r.Chained(), "unknown outcomes: every operation was answered")
	blind(c.Resends == 0, "resent requests: none was sent again")
	blind(c.LeasesLost == 0, "lost leases: none was lost")
	for _, k := range All {
		if k.unexercised != nil {
			k.unexercised(&c, blind)
		}
	}
	blind(c.ServerTimeouts == 0, "writes that surface late: no coordinator gave one up")
	out = append(out, r.reasons(StatusNA)...)
	return append(out, "other faults, other timing, and what needs more time")
}

// Chained: what the rows' chains of versions show was judged, as the system promises it.
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
