package system

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/record/verdict"
)

var update = flag.Bool("update", false, "write the tables of docs/known-broken.md")

const page = "../../../docs/known-broken.md"

// TestKnownBrokenPageIsCurrent: the page's tables are what the variants' rows say.
func TestKnownBrokenPageIsCurrent(t *testing.T) {
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	have := string(b)
	want, left := have, len(variants)
	for _, chapter := range []string{inLocks, inSinks, inJobs, inOrders, inProcesses, inHarness} {
		begin, end := "<!-- "+chapter+": written by make docs from harness/target/system/variants*.go -->\n", "<!-- /"+chapter+" -->"
		before, rest, ok := strings.Cut(want, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no place between %q and %q", page, begin, end)
		}
		rows := table(chapter)
		want, left = before+begin+rows+end+after, left-strings.Count(rows, "\n")+4
	}
	if left != 0 {
		t.Errorf("%d variants are in no chapter of the page", left)
	}
	switch {
	case have == want:
	case *update:
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what the variants' rows say: make docs", page)
	}
}

// table is the variants of a chapter, between empty lines.
func table(chapter string) string {
	var b strings.Builder
	b.WriteString("\n| variant | mistake | where real systems have it | directed run | found by |\n|---|---|---|---|---|\n")
	for _, v := range variants {
		if v.Chapter != chapter {
			continue
		}
		about, r := v.About, v.Red
		if v.Note != "" {
			about += " (" + v.Note + ")"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s, %s | %s by %s |\n", v.Label(), about, cmp.Or(v.Seen, "–"), r.Scenario, r.Contention, r.Verdict, strings.Join(r.Properties, ", "))
	}
	return b.String() + "\n"
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
