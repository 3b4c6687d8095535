package system

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/record/verdict"
	"fencepost/internal/docpage"
)

// TestKnownBrokenPageIsCurrent: the page's tables are what the variants' rows say.
func TestKnownBrokenPageIsCurrent(t *testing.T) {
	left := len(variants)
	for _, chapter := range []string{inLocks, inSinks, inJobs, inOrders, inProcesses, inHarness} {
		rows := table(chapter)
		docpage.Check(t, "known-broken.md", chapter, rows)
		left -= strings.Count(rows, "\n") - 2
	}
	if left != 0 {
		t.Errorf("%d variants are in no chapter of the page", left)
	}
}

// table is the variants of a chapter.
func table(chapter string) string {
	var b strings.Builder
	b.WriteString("| variant | mistake | where real systems have it | directed run | found by |\n|---|---|---|---|---|\n")
	for _, v := range variants {
		if v.Chapter != chapter {
			continue
		}
		about, r := v.About, v.Red
		if v.Note != "" {
			about += " (" + v.Note + ")"
		}
		run := r.Scenario + ", " + r.Contention
		if r.Workload != "" {
			run += ", workload " + r.Workload
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s by %s |\n", v.Label(), about, cmp.Or(v.Seen, "–"), run, r.Verdict, strings.Join(r.Properties, ", "))
	}
	return b.String()
}

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
