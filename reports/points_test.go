package reports

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"fencepost/harness/target/control"
	"fencepost/reports/evidence"
	"fencepost/reports/measure"
)

// pointRuns are two runs: a point that was reached, one that was reached once of twice, one that
// was armed and never reached, and one that the plan has and was never armed.
func pointRuns() []evidence.Result {
	meant := []measure.Reach{
		{Point: "renew-answered", Fault: "kill-worker", Armed: 1}, {Point: "effect-sent", Fault: "pause-worker", Armed: 1},
		{Point: "take-answered", Fault: "kill-worker", Armed: 1}, {Point: "run-end", Fault: "pause-worker", Armed: 2},
	}
	ran := func(effect measure.Reach) evidence.Result {
		return evidence.Result{Meant: meant, Points: []measure.Reach{
			{Point: "renew-answered", Fault: "kill-worker", Armed: 1, Reached: 1, NoEnd: 1}, effect, {Point: "take-answered", Fault: "kill-worker", Armed: 1},
		}}
	}
	return []evidence.Result{
		ran(measure.Reach{Point: "effect-sent", Fault: "pause-worker", Armed: 1, Reached: 1, Fail: 1, LeaseLost: 1}),
		ran(measure.Reach{Point: "effect-sent", Fault: "pause-worker", Armed: 1}),
	}
}

func TestPointTable(t *testing.T) {
	t.Parallel()
	table := NewPointTable(pointRuns())
	if len(table.Rows) != len(control.Points) || !slices.Equal(table.Faults, []string{"kill-worker", "pause-worker"}) {
		t.Errorf("%d rows, faults %v", len(table.Rows), table.Faults)
	}
	var b strings.Builder
	must(t, table.Print(&b))
	rows := map[string]string{}
	for line := range strings.Lines(b.String()) {
		name, rest, _ := strings.Cut(line, " ")
		rows[name] = strings.Join(strings.Fields(rest), " ")
	}
	for point, want := range map[string]string{
		"renew-answered": "2 2 2 · 0 0 0 2 0 0",
		"effect-sent":    "2 1 · 1 of 2 0 1 0 0 0 1",
		"take-answered":  "2 0 0 of 2 ! · · · · · · ·",
		"run-end":        "0 0 · 0 of 4 ! · · · · · ·",
		"acquire-sent":   "0 0 · · · · · · · ·",
	} {
		if rows[point] != want {
			t.Errorf("%s: %q, want %q", point, rows[point], want)
		}
	}
	if strings.Contains(b.String(), "arm notes") {
		t.Errorf("nothing was inferred:\n%s", b.String())
	}
	old := pointRuns()
	old[0].Points[0].Inferred = 1
	if note := NewPointTable(old).Note(); !strings.HasPrefix(note, "1 arming is of") {
		t.Errorf("note %q", note)
	}
}

func TestEvidencePageHasPoints(t *testing.T) {
	t.Parallel()
	all := sample()
	for i, r := range pointRuns() {
		all[i].Points, all[i].Meant = r.Points, r.Meant
	}
	path, err := WriteEvidence(filepath.Join(t.TempDir(), "locks.jsonl"), all, "")
	must(t, err)
	var missed []string
	rows, red := 0, 0
	readPage(t, path).each("", func(n *html.Node) {
		switch {
		case n.Data == "td" && strings.Contains(attrOf(n, "class"), "missed"):
			missed = append(missed, n.FirstChild.Data)
		case n.Data == "tr" && n.Parent.Data == "tbody" && attrOf(n.Parent.Parent, "class") == "points":
			rows++
			if attrOf(n, "class") == "p-fail" {
				red++
			}
		}
	})
	if rows != len(control.Points) || red != 2 || !slices.Equal(missed, []string{"0 of 4", "0 of 2"}) {
		t.Errorf("%d rows, %d of them red, missed %q", rows, red, missed)
	}
}
