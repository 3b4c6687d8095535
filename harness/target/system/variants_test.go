package system

import (
	"slices"
	"testing"

	"fencepost/checker"
	"fencepost/harness/record/verdict"
)

// Every variant says what must find it, and by what name it must be explained.
func TestVariantsAreComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, v := range Broken() {
		r := v.Red
		if r == nil || r.Scenario == "" || r.Contention == "" || len(r.Properties) == 0 || r.Verdict != verdict.Fail && r.Verdict != verdict.Invalid {
			t.Errorf("%s: %+v", v.Name, r)
			continue
		}
		if !slices.Contains(checker.Mechanisms(), r.Mechanism) {
			t.Errorf("%s: no mechanism %q", v.Name, r.Mechanism)
		}
		if seen[v.Name] || v.About == "" || v.Chapter == "" {
			t.Errorf("%s: twice, or without a word", v.Name)
		}
		seen[v.Name] = true
	}
}
