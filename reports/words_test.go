package reports

import (
	"slices"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/reports/measure"
)

// The page's answer is the verdict's; only the page knows on how many hosts the run was.
func TestAnswerOfARun(t *testing.T) {
	t.Parallel()
	told := &checker.Answer{What: "no violation in 9 operations", Exercised: []string{"1 fault, proven: clock"}, NotExercised: []string{"takeovers: no lease was taken over"}}
	for cluster, host := range map[string]string{"local": "all processes ran on one host", "external": "workers: all of them ran on one host"} {
		r := &run{Verdict: &checker.Result{Verdict: checker.Pass, Answer: told}, Info: rundir.Info{Cluster: cluster}}
		a := r.Answer()
		if a.Sentence() != "no violation in 9 operations" || !slices.Equal(a.Exercised, told.Exercised) || len(a.NotExercised) != 2 || !strings.Contains(a.NotExercised[1], host) {
			t.Errorf("%s: %+v", cluster, a)
		}
	}
	if len(told.NotExercised) != 1 {
		t.Error("the verdict was changed")
	}
	r := &run{Verdict: &checker.Result{Verdict: checker.Fail, Answer: &checker.Answer{What: "it broke", Because: "it was wet", Mechanisms: []string{"a", "b"}}}}
	if a := r.Answer(); a.Sentence() != "it broke, because it was wet" || len(a.Mechanisms) != 2 || a.NotExercised != nil {
		t.Errorf("%+v", a)
	}
	if a := (&run{}).Answer(); !strings.HasPrefix(a.Sentence(), "the history has not been checked") {
		t.Errorf("%+v", a)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1\u202f000", 1234567: "1\u202f234\u202f567", -1000: "−1\u202f000"} {
		if got := measure.FormatCount(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
	for v, want := range map[float64]string{0: "–", 0.942: "×0.94", 3.21: "×3.2", 27.4: "×27"} {
		if got := times(v); got != want {
			t.Errorf("times(%g) = %q, want %q", v, got, want)
		}
	}
	for in, want := range map[string]string{
		"porcupine.html": "porcupine.html", "viz/a.html": "viz/a.html", "": "", "../x": "", "/etc/passwd": "", "javascript:alert(1)": "", "//host/x": "", "a/../../b": "",
	} {
		if got := safeLink(in); got != want {
			t.Errorf("safeLink(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{"": "", "/a/b/history/w1.1.jsonl": "history/w1.1.jsonl", "w1.1.jsonl": "history/w1.1.jsonl", "../../etc/x": "history/x"} {
		if got := relative(in); got != want {
			t.Errorf("relative(%q) = %q, want %q", in, got, want)
		}
	}
	for _, v := range []checker.Verdict{checker.Pass, checker.Fail, checker.Invalid, checker.Unknown, notChecked} {
		if w := BadgeOf(v); w.Word != string(v) || w.Icon == "" {
			t.Errorf("%s has no words: %+v", v, w)
		}
	}
}
