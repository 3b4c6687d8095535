package reports

import (
	"fmt"
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
}

func verdictWords(v checker.Verdict) verdictWord {
	switch v {
	case checker.Pass:
		return verdictWord{"PASS", "pass", "check"}
	case checker.Fail:
		return verdictWord{"FAIL", "fail", "cross"}
	case checker.Invalid:
		return verdictWord{"INVALID", "invalid", "warn"}
	case checker.Unknown:
		return verdictWord{"UNKNOWN", "unknown", "question"}
	}
	return verdictWord{"NOT CHECKED", "none", "dash"}
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

// todo is what a person does next, beside what the answer says.
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
			"Read the likely cause, then the first violation: its drawing is the shortest stretch of the history in which the rule is broken.",
			"Keep this directory. It holds all that is needed to check and report the run again.",
			"Repeat the run with the same seed after a change; timing differs between runs, so repeat it several times before believing a PASS.",
		}
	case checker.Invalid:
		return nil // the answer says it
	case checker.Unknown:
		return []string{"If it stays UNKNOWN, repeat it shorter or at lower contention: the search grows with what is undecided in one lock's history."}
	}
	return []string{"Check it: fencepost check " + r.dirName(), "Then make this report again: fencepost report " + r.dirName()}
}

// answer is the verdict in words, and of a run that was not checked what that means.
func (r *run) answer() checker.Answer {
	if r.verdict == nil {
		return checker.Answer{What: "the history has not been checked yet: the numbers below judge nothing"}
	}
	a := checker.AnswerOf(r.verdict, r.explanation)
	if len(a.NotExercised) > 0 {
		host := "clocks and networks of several machines: all processes ran on one host"
		if r.info.Cluster == "external" {
			host = "clocks and networks of several machines between workers: all of them ran on one host"
		}
		a.NotExercised = append(slices.Clone(a.NotExercised), host)
	}
	return a
}

// why are all reasons of an INVALID verdict, where the answer names one of several.
func (r *run) why() []string {
	if r.word() != checker.Invalid {
		return nil
	}
	if all := r.invalidReasons(); len(all) > 1 {
		return all
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
