package property

import (
	"testing"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// TestAgainst: an explanation says lower where it is lower.
func TestAgainst(t *testing.T) {
	t.Parallel()
	for want, c := range map[string][2]int64{"lower": {1, 2}, "same": {2, 2}, "higher": {3, 2}} {
		if got := comparedText(c[0], c[1]); got != want {
			t.Errorf("%v: %s", c, got)
		}
	}
}

// TestStepsOfAScheduledJob: what a schedule asks for is listed though nobody enqueued the
// job by itself.
func TestStepsOfAScheduledJob(t *testing.T) {
	t.Parallel()
	for step, want := range map[string]int{"s1": 0, "s2": 1} {
		s := &past.Sink{Name: "job/q/1", Accepts: map[string][]int{"s1": {0}}, Ledger: []past.Entry{{Event: &history.Event{}}}}
		p := &Property{}
		checkListed(s, []*past.Job{{Spec: &history.Job{Steps: []string{step}}}}, p)
		if p.Count != want {
			t.Errorf("a job of step %s: %d findings, want %d: %+v", step, p.Count, want, p.Violations)
		}
	}
}
