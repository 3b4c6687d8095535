package reports

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"fencepost/checker"
)

// notChecked replaces the verdict of a run without verdict.json.
const notChecked checker.Verdict = "NOT CHECKED"

// verdictWord is a verdict as a page shows it.
type verdictWord struct {
	Word  string
	Class string // of CSS: pass, fail, invalid, unknown, none
	Icon  string // the name of an icon of the page
	Means string // what the word means in general
}

func verdictWords(v checker.Verdict) verdictWord {
	switch v {
	case checker.Pass:
		return verdictWord{"PASS", "pass", "check", "No violation found in a run that could have shown one."}
	case checker.Fail:
		return verdictWord{"FAIL", "fail", "cross", "At least one property is violated; the counterexample is below."}
	case checker.Invalid:
		return verdictWord{"INVALID", "invalid", "warn", "The run tested too little to count, so it says nothing about the system."}
	case checker.Unknown:
		return verdictWord{"UNKNOWN", "unknown", "question", "A check did not finish, so a violation may have gone unseen."}
	}
	return verdictWord{"NOT CHECKED", "none", "dash", "The history has not been checked yet; the numbers below judge nothing."}
}

// statusWord is a property's status as a page shows it.
func statusWord(s checker.Status) verdictWord {
	switch s {
	case checker.StatusPass:
		return verdictWord{Word: "pass", Class: "pass", Icon: "check"}
	case checker.StatusFail:
		return verdictWord{Word: "fail", Class: "fail", Icon: "cross"}
	case checker.StatusInvalid:
		return verdictWord{Word: "invalid", Class: "invalid", Icon: "warn"}
	case checker.StatusUnknown:
		return verdictWord{Word: "unknown", Class: "unknown", Icon: "question"}
	case checker.StatusNA:
		return verdictWord{Word: "n/a", Class: "none", Icon: "dash"}
	}
	return verdictWord{Word: string(s), Class: "none", Icon: "dash"}
}

// todo is what a person does next, given the verdict.
func (r *run) todo() []string {
	switch r.word() {
	case checker.Pass:
		out := []string{"One run is one sample: repeat it with other seeds, and at other contention, before relying on it."}
		if len(r.analysis.Faults) > 0 {
			out = append(out, "Compare latency before and during the fault below: safe is not the same as usable.")
		}
		return out
	case checker.Fail:
		return []string{
			"Start at the first violation below: its drawing is the shortest stretch of the history in which the rule is broken.",
			"Keep this directory. It holds all that is needed to check and report the run again.",
			"Repeat the run with the same seed after a change; timing differs between runs, so repeat it several times before believing a PASS.",
		}
	case checker.Invalid:
		return []string{"Repeat the run. If it stays INVALID, give it more time or a quieter machine, and see the evidence of the faults below."}
	case checker.Unknown:
		return []string{"Check the run again with nothing else running on the machine. If it stays UNKNOWN, repeat it shorter or at lower contention: the search grows with what is undecided in one lock's history."}
	}
	return []string{"Check it: fencepost check " + r.dirName(), "Then make this report again: fencepost report " + r.dirName()}
}

// why says what made a verdict that is neither PASS nor FAIL.
func (r *run) why() []string {
	switch r.word() {
	case checker.Invalid:
		return r.invalidReasons()
	case checker.Unknown:
		return r.unfinished()
	}
	return nil
}

func (r *run) dirName() string {
	if r.info.Run != "" {
		return "runs/" + r.info.Run
	}
	return "RUN_DIR"
}

func (r *run) word() checker.Verdict {
	if r.verdict == nil {
		return notChecked
	}
	return r.verdict.Verdict
}

func (r *run) invalidReasons() []string {
	var out []string
	for _, p := range r.verdict.Properties {
		if p.Status != checker.StatusInvalid {
			continue
		}
		for _, v := range p.Violations {
			out = append(out, sentenceCase(v.Message))
		}
		if len(p.Violations) == 0 && p.Detail != "" {
			out = append(out, sentenceCase(p.Detail))
		}
	}
	return out
}

func (r *run) unfinished() []string {
	var out []string
	for _, p := range r.verdict.Properties {
		if p.Status == checker.StatusUnknown {
			out = append(out, fmt.Sprintf("%s did not finish. %s", p.ID, p.Detail))
		}
	}
	return out
}

// unseenMark is where a verdict's summary turns from what was seen to what could
// not have been.
const unseenMark = "; this run could not have seen "

// summary is the verdict's sentence, and the list into which its second half is
// taken apart: a list is read, a sentence of ten clauses is not. Without that
// half the list is nil.
func (r *run) summary() (sentence string, unseen []string) {
	if r.verdict == nil || r.verdict.Summary == "" {
		return verdictWords(r.word()).Means, nil
	}
	seen, rest, found := strings.Cut(r.verdict.Summary, unseenMark)
	if found {
		for _, item := range clauses(rest) {
			unseen = append(unseen, sentenceCase(item))
		}
	}
	return sentenceCase(seen), unseen
}

// clauses splits a list at its commas, but not within brackets nor between the
// ids of properties.
func clauses(s string) []string {
	var out []string
	depth, start := 0, 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			rest := strings.TrimSpace(s[i+1:])
			if depth > 0 || propertyID.MatchString(rest) || strings.HasPrefix(rest, "other ") {
				continue
			}
			out = append(out, strings.TrimSpace(s[start:i]))
			start = i + 1
		}
	}
	return append(out, strings.TrimSpace(s[start:]))
}

var propertyID = regexp.MustCompile(`^P\d+\b`)

// sentenceCase begins s with a capital, unless its first word is a name such as
// w1.2/c3 or P3, and ends it with a full stop.
func sentenceCase(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return ""
	}
	first, _, _ := strings.Cut(s, " ")
	if c, n := utf8.DecodeRuneInString(s); unicode.IsLower(c) && !strings.ContainsFunc(first, unicode.IsDigit) {
		s = string(unicode.ToUpper(c)) + s[n:]
	}
	if !strings.ContainsAny(s[len(s)-1:], ".!?:") {
		s += "."
	}
	return s
}

// notes are those of the cluster, as sentences.
func (r *run) notes() []string {
	var out []string
	for _, n := range r.info.Notes {
		out = append(out, sentenceCase(n))
	}
	return out
}

// unseen lists what the run could not have shown: by the verdict if it says so,
// else by the counts.
func (r *run) unseen() []string {
	if r.history == nil {
		return []string{"Anything: its history could not be read."}
	}
	host := "Clocks and networks of several machines: all processes ran on one host."
	if r.info.Cluster == "external" {
		host = "Clocks and networks of several machines between workers: all of them ran on one host."
	}
	if _, told := r.summary(); told != nil {
		return append(told, host)
	}
	c := r.counts()
	var out []string
	if len(r.analysis.Faults) == 0 {
		out = append(out, "How the system behaves under faults: none was injected.")
	} else {
		var kinds []string
		unproven := 0
		for _, f := range r.analysis.Faults {
			if !slices.Contains(kinds, f.Fault.Name) {
				kinds = append(kinds, f.Fault.Name)
			}
			if !f.Proven {
				unproven++
			}
		}
		out = append(out, fmt.Sprintf("Faults other than %s.", join(kinds)))
		if unproven > 0 {
			out = append(out, fmt.Sprintf("What %d of %d injections would have shown: there is no proof that they took hold.", unproven, len(r.analysis.Faults)))
		}
	}
	for _, m := range []struct {
		n    int
		what string
	}{
		{c.Takeovers, "A wrong takeover: no lease was taken over."},
		{c.StaleRefused, "Whether the sink refuses a stale token: no stale write reached it."},
		{c.Unknowns, "A wrong reading of an unknown outcome: every operation was answered."},
		{c.LeasesLost, "A holder that goes on after losing its lease: none lost it."},
	} {
		if m.n == 0 {
			out = append(out, m.what)
		}
	}
	if r.verdict != nil {
		if left := c.Unknowns - c.UnknownSettled; left > 0 {
			out = append(out, fmt.Sprintf("What became of %d %s that stayed unknown.", left, plural(left, "operation", "operations")))
		}
		var na, empty []string
		for _, p := range r.verdict.Properties {
			switch {
			case p.Status == checker.StatusNA:
				na = append(na, p.ID)
			case p.Status == checker.StatusPass && p.Checked == 0:
				empty = append(empty, p.ID)
			}
		}
		if len(na) > 0 {
			out = append(out, fmt.Sprintf("Violations of %s: not promised by the system, or not decidable from this history.", join(na)))
		}
		if len(empty) > 0 {
			out = append(out, fmt.Sprintf("Violations of %s: there was nothing to check.", join(empty)))
		}
	}
	return append(out, host)
}

func join(words []string) string {
	switch n := len(words); n {
	case 0:
		return ""
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// times writes a ratio: ×0.94, ×3.2, ×27.
func times(v float64) string {
	switch {
	case v <= 0:
		return "–"
	case v < 2:
		return fmt.Sprintf("×%.2f", v)
	case v < 10:
		return fmt.Sprintf("×%.1f", v)
	}
	return fmt.Sprintf("×%.0f", v)
}
