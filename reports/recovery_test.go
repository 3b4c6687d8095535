package reports

import (
	"strings"
	"testing"

	"fencepost/checker"
)

func TestRecovery(t *testing.T) {
	t.Parallel()
	none := &run{}
	if v := none.recovery(); v.Orphans != "" || v.Rows != nil {
		t.Errorf("not checked: %+v", v)
	}
	r := &run{verdict: &checker.Result{Recovery: &checker.Recovery{
		Orphans: 3, Judged: 2, NotJudged: map[string]int{"nobody waited": 1}, MaxTTL: 1.5, P50TTL: 1.1,
		Faults: []checker.FaultRecovery{{ID: "f1", Name: "partition", FirstMS: 12, SlowestMS: 3400, SlowestLock: "lock-<7>", Locks: 4}, {ID: "f2", Name: "kill-worker"}},
	}}}
	v := r.recovery()
	for _, want := range []string{"3 grants ended without a release; 2 could", "1.10 TTL (p50), 1.50 TTL at most", "Not judged 1: nobody waited."} {
		if !strings.Contains(v.Orphans, want) {
			t.Errorf("%q lacks %q", v.Orphans, want)
		}
	}
	if len(v.Rows) != 2 || v.Rows[0].Lock != "lock-<7>" || v.Rows[0].First == v.Rows[0].Slowest || v.Rows[1].First != "none followed" {
		t.Errorf("%+v", v.Rows)
	}
	html, err := render("run.html", page{Recovery: v})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h3>Recovery</h3>", "lock-&lt;7&gt;", "none followed"} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if html, err = render("run.html", page{}); err != nil || strings.Contains(string(html), "<h3>Recovery</h3>") {
		t.Errorf("a page without recovery: %v", err)
	}
}
