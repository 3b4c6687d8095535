package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/harness/target/system"
	"fencepost/reports"
)

// TestFieldJobs: each system has its runs, those that its store can have.
func TestFieldJobs(t *testing.T) {
	t.Parallel()
	jobs, err := fieldFlags{seeds: 2, first: 1}.jobs()
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]int{}
	for _, j := range jobs {
		has[j.System+" "+j.Scenario]++
	}
	for _, s := range system.Stored() {
		want := 2
		if s.OptIn {
			want = 0
		}
		if has[s.Name+" steady"] != want || has[s.Name+" pause-worker"] != want {
			t.Errorf("%s: %v", s.Name, has)
		}
	}
	if has["redis-set server-clock-jump"] != 2 || has["etcd-lease server-clock-jump"] != 0 || has["redis-set kill-node"] != 0 || has["etcd-lease kill-node"] != 2 {
		t.Errorf("what stores cannot have: %v", has)
	}
	if one, err := (fieldFlags{systems: "redis-set", scenarios: "steady,pause-worker", seeds: 1, first: 7}).jobs(); err != nil || len(one) != 2 || one[1].Seed != 7 {
		t.Errorf("%v, %v", one, err)
	}
}

func TestFieldRefuses(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`unknown system "lock-per-job"`:     {"field", "--system=lock-per-job"},
		`unknown fault of the table "soak"`: {"field", "--scenarios=soak"},
		"--seeds=0: 1 to 1000":              {"field", "--seeds=0"},
		"no store of these systems can":     {"field", "--system=etcd-lease", "--scenarios=server-clock-jump"},
	} {
		if code, errOut := refused(t, args...); code != exitUsage || !strings.Contains(errOut, want) {
			t.Errorf("%v: exit code %d, %q; want %q", args, code, errOut, want)
		}
	}
}

// TestFieldCheck: a page that is another than what the kept runs give is refused.
func TestFieldCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	page := filepath.Join(dir, "field.md")
	check := func() (int, string) {
		code, errOut := refused(t, "field", "--check", "--results="+dir, "--bench="+filepath.Join(dir, "bench.jsonl"), "--page="+page)
		return code, errOut
	}
	if code, said := check(); code == 0 {
		t.Errorf("no page: %q", said)
	}
	text, err := reports.Field(reports.FieldKept{Systems: system.Field()}, suitsField)
	if err := errors.Join(err, os.WriteFile(page, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	if code, said := check(); code != 0 {
		t.Errorf("exit code %d: %q", code, said)
	}
	if err := os.WriteFile(page, []byte("PASS everywhere\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, said := check(); code != 2 || !strings.Contains(said, "is not what the kept runs give") {
		t.Errorf("exit code %d: %q", code, said)
	}
}
