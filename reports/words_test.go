package reports

import (
	"slices"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/reports/measure"
)

func TestSummaryIsTakenApart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in, sentence string
		unseen             []string
	}{
		{"a pass", "no violation in 1558 operations, 0 takeovers; this run could not have seen what only happens under faults (none, not one, was injected), a faulty takeover (there was none), violations of P5, P11, P12 (not judged), what needs more time, other faults or other timing",
			"No violation in 1558 operations, 0 takeovers.", []string{
				"What only happens under faults (none, not one, was injected).", "A faulty takeover (there was none).", "Violations of P5, P11, P12 (not judged).", "What needs more time, other faults or other timing.",
			}},
		{"no second half", "P3 is violated. See it.", "P3 is violated. See it.", nil},
		{"empty", "", "No violation found in a run that could have shown one.", nil},
	} {
		r := &run{verdict: &checker.Result{Verdict: checker.Pass, Summary: tc.in}, history: &history.History{}, analysis: &measure.Analysis{}}
		s, unseen := r.summary()
		if s != tc.sentence || !slices.Equal(unseen, tc.unseen) {
			t.Errorf("%s: %q, %q", tc.name, s, unseen)
		}
		if u := r.unseen(); len(u) < 2 || !strings.Contains(u[len(u)-1], "one host") {
			t.Errorf("%s: unseen %q", tc.name, u)
		}
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
		if w := verdictWords(v); w.Word != string(v) || w.Icon == "" || w.Means == "" {
			t.Errorf("%s has no words: %+v", v, w)
		}
	}
}
