package reports

import (
	"bytes"
	"strings"
	"testing"

	"fencepost/harness/target/system"
)

func TestExplained(t *testing.T) {
	t.Parallel()
	all := system.Broken()[:3]
	name := func(i int) string { return all[i].Name }
	right := func(i int) string { return all[i].Red.Mechanism }
	rows := Explained(all, []ExplainedRun{
		{System: name(0), Killed: true, Best: []string{right(0)}},
		{System: name(0), Killed: true, Best: []string{right(1), right(0)}},
		{System: name(0), Killed: true, Best: []string{right(1)}},
		{System: name(0), Killed: true},
		{System: name(0), Best: []string{right(0)}},
		{System: name(1), Killed: true, Best: []string{right(1)}},
		{System: "core", Killed: true, Best: []string{right(1)}},
	})
	if r := rows[0]; r.Runs != 4 || r.Otherwise != 1 || r.Named != 2 || r.Alone != 1 || r.Instead[right(1)] != 1 || r.Instead["nothing"] != 1 {
		t.Errorf("%+v", r)
	}
	if share, n := NamedShare(rows); share != 0.75 || n != 2 {
		t.Errorf("%f over %d variants, want 0.75 over 2", share, n)
	}
	var out bytes.Buffer
	PrintExplained(&out, rows)
	for _, want := range []string{"75 % of the planted mechanisms are named, over 2 variants; 1 variants have no kept run", "nothing (1), " + right(1) + " (1)", "4     2      1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, out.String())
		}
	}
}
