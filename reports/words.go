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

// Badge is a verdict, or another such word, with its colour and icon.
type Badge struct {
	Word  string
	Class string // of CSS: pass, fail, invalid, unknown, none
	Icon  string // the name of an icon of the page
}

// BadgeOf is that of a verdict or of a property's status.
func BadgeOf[S ~string](s S) Badge {
	class := strings.ToLower(string(s))
	if icon := map[string]string{"pass": "check", "fail": "cross", "invalid": "warn", "unknown": "question"}[class]; icon != "" {
		return Badge{string(s), class, icon}
	}
	return Badge{string(s), "none", "dash"}
}

// Proven is the badge of a fault that took hold, or did not for all that is known.
func Proven(proven bool) Badge {
	if proven {
		return Badge{"proven", "pass", "check"}
	}
	return Badge{"not proven", "invalid", "warn"}
}

// Todo is what a person does next, beside what the answer says.
func (r *run) Todo() []string {
	switch r.Word() {
	case checker.Pass:
		out := []string{"One run is one sample: repeat it with other seeds, and at other contention, before relying on it."}
		if len(r.Analysis.Faults) > 0 {
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

// Answer is the verdict in words, and of a run that was not checked what that means.
func (r *run) Answer() checker.Answer {
	if r.Verdict == nil {
		return checker.Answer{What: "the history has not been checked yet: the numbers below judge nothing"}
	}
	a := checker.Told(r.Verdict, r.explanation)
	if len(a.NotExercised) > 0 {
		host := "clocks and networks of several machines: all processes ran on one host"
		if r.Info.Cluster == "external" {
			host = "clocks and networks of several machines between workers: all of them ran on one host"
		}
		a.NotExercised = append(slices.Clone(a.NotExercised), host)
	}
	return a
}

// Why are all reasons of an INVALID verdict, where the answer names one of several.
func (r *run) Why() []string {
	if r.Word() != checker.Invalid {
		return nil
	}
	if all := r.invalidReasons(); len(all) > 1 {
		return all
	}
	return nil
}

func (r *run) dirName() string {
	if r.Info.Run != "" {
		return "runs/" + r.Info.Run
	}
	return "RUN_DIR"
}

// Word is the verdict.
func (r *run) Word() checker.Verdict {
	if r.Verdict == nil {
		return notChecked
	}
	return r.Verdict.Verdict
}

func (r *run) invalidReasons() []string {
	var out []string
	for _, p := range r.Verdict.Properties {
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
