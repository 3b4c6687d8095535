package rundir

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)

// makeRun writes a run of so many hours ago; verdict "" means not checked.
func makeRun(t *testing.T, runs, name, verdict string, hours int) string {
	t.Helper()
	dir := filepath.Join(runs, name)
	if err := os.MkdirAll(filepath.Join(dir, HistoryDir), 0o755); err != nil {
		t.Fatal(err)
	}
	at := noon.Add(-time.Duration(hours) * time.Hour)
	if err := WriteJSON(filepath.Join(dir, InfoFile), Info{Run: name, Started: at, Ended: at.Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	if verdict != "" {
		if err := WriteJSON(filepath.Join(dir, VerdictFile), map[string]string{"verdict": verdict}); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func names(es []Entry) []string {
	var out []string
	for _, e := range es {
		out = append(out, filepath.Base(e.Dir))
	}
	return out
}

func TestPruneChooses(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	for i, v := range []string{"PASS", "FAIL", "PASS", "INVALID", "", "PASS"} {
		makeRun(t, runs, string(rune('a'+i)), v, (i+1)*10)
	}
	all, err := List(runs)
	if err != nil || !slices.Equal(names(all), []string{"a", "b", "c", "d", "e", "f"}) {
		t.Fatalf("listed %v, %v", names(all), err)
	}
	for _, c := range []struct {
		p    Pruning
		want string
	}{
		{Pruning{Keep: 20}, ""},
		{Pruning{}, "a c f"},
		{Pruning{Keep: 1}, "c f"},
		{Pruning{Keep: 1, Older: 35 * time.Hour}, "f"},
		{Pruning{Keep: 1, All: true}, "b c d e f"},
		{Pruning{Older: 35 * time.Hour, All: true}, "d e f"},
	} {
		if got := strings.Join(names(c.p.Choose(all, noon)), " "); got != c.want {
			t.Errorf("%+v: %q, want %q", c.p, got, c.want)
		}
	}
	all[5].Info.Started, all[5].Info.Ended = noon, time.Time{}
	if got := (Pruning{All: true}).Choose(all[5:], noon.Add(time.Minute)); len(got) > 0 {
		t.Errorf("a run that goes on was chosen: %v", names(got))
	}
}

func TestRemoveTouchesOnlyRuns(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	run := makeRun(t, runs, "run-1", "PASS", 1)
	elsewhere := makeRun(t, t.TempDir(), "run-2", "PASS", 1)
	copied := makeRun(t, runs, "run-3", "PASS", 1)
	if err := os.Rename(copied, filepath.Join(runs, "unexpected-run-3")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(runs, "run-2")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("run-1", filepath.Join(runs, "latest")); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"nightly/20260110/run-1", "empty", "torn"} {
		if err := os.MkdirAll(filepath.Join(runs, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"torn/" + InfoFile, InfoFile} {
		if err := os.WriteFile(filepath.Join(runs, f), []byte(`{"run": "to`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all, err := List(runs)
	if err != nil || !slices.Equal(names(all), []string{"run-1"}) {
		t.Fatalf("listed %v, %v; want run-1 alone", names(all), err)
	}
	before, err := os.ReadDir(runs)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"run-2", "latest", "nightly", "empty", "torn", "unexpected-run-3", "no-such", InfoFile, "."} {
		if err := Remove(filepath.Join(runs, d)); err == nil || !strings.Contains(err.Error(), "not removed") {
			t.Errorf("%s: %v, want a refusal", d, err)
		}
	}
	after, err := os.ReadDir(runs)
	if err != nil || len(after) != len(before) {
		t.Errorf("%d entries are left of %d, %v", len(after), len(before), err)
	}
	if err := Remove(run); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(run); !os.IsNotExist(err) {
		t.Errorf("the run is still there: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(runs, "latest")); !os.IsNotExist(err) {
		t.Errorf("latest points to nothing: %v", err)
	}
	if _, err := os.Stat(elsewhere); err != nil {
		t.Error(err)
	}
	if all, err := List(filepath.Join(runs, "no-such")); err != nil || len(all) > 0 {
		t.Errorf("no directory: %v, %v", all, err)
	}
}
