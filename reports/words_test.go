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
	for cluster, host := range map[string]string{"local": "All processes ran on one host", "external": "workers: all of them ran on one host"} {
		r := &run{verdict: &checker.Result{Verdict: checker.Pass, Answer: told}, info: rundir.Info{Cluster: cluster}}
		v := r.answerView()
		if v.Sentence != "No violation in 9 operations." || !slices.Equal(v.Exercised, []string{"1 fault, proven: clock."}) || len(v.NotExercised) != 2 ||
			!strings.Contains(strings.ToLower(v.NotExercised[1]), strings.ToLower(host)) {
			t.Errorf("%s: %+v", cluster, v)
		}
	}
	if len(told.NotExercised) != 1 {
		t.Error("the verdict was changed")
	}
	r := &run{verdict: &checker.Result{Verdict: checker.Fail, Answer: &checker.Answer{What: "it broke", Because: "it was wet", Mechanisms: []string{"a", "b"}}}}
	if v := r.answerView(); v.Sentence != "It broke, because it was wet." || v.Mistakes != 2 || v.NotExercised != nil {
		t.Errorf("%+v", v)
	}
	if v := (&run{}).answerView(); !strings.HasPrefix(v.Sentence, "The history has not been checked") {
		t.Errorf("%+v", v)
	}
}

func TestNotesOfTheCluster(t *testing.T) {
	t.Parallel()
	r := &run{info: rundir.Info{Notes: []string{"the nodes are not under control"}}}
	if got := r.notes(); !slices.Equal(got, []string{"The nodes are not under control."}) {
		t.Errorf("%q", got)
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
		if w := verdictWords(v); w.Word != string(v) || w.Icon == "" {
			t.Errorf("%s has no words: %+v", v, w)
		}
	}
}
