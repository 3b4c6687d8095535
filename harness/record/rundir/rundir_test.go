package rundir

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
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

// files are the files below a directory with their content.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		out[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestArchive(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	dir := makeRun(t, runs, "run-1", "PASS", 1)
	for name, text := range map[string]string{
		"history/w1.1.jsonl": "{}\n", "logs/w1.1.log": "panic: no\n", "logs/nodes/n1.log": "", "plan.yaml": "version: 1\n",
		"report.html": "<html>", "plots/cycles.svg": "<svg>", "porcupine-x.html": "<html>",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// What is left out follows from the rest; a link is none of a run's own files.
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, HistoryDir, "link.jsonl")); err != nil {
		t.Fatal(err)
	}
	want := files(t, dir)
	for _, made := range []string{"report.html", "plots/cycles.svg", "porcupine-x.html", "history/link.jsonl"} {
		delete(want, made)
	}
	a, err := Pack(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := Remove(dir); err != nil {
		t.Fatal(err)
	}
	if have, err := FindArchive(runs, "run-1"); err != nil || have != a || a.Bytes == 0 || len(a.SHA256) != 64 {
		t.Errorf("found %+v, %v; packed %+v", have, err, a)
	}
	if all, err := Archives(runs); err != nil || !slices.Equal(all, []string{"run-1"}) {
		t.Errorf("archives %v, %v", all, err)
	}
	if all, err := List(runs); err != nil || len(all) > 0 {
		t.Errorf("an archive is listed as a run: %v, %v", all, err)
	}
	back, err := a.Unpack(runs, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	got := files(t, back)
	if len(got) != len(want) {
		t.Errorf("unpacked %d files, want %d", len(got), len(want))
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is %q, was %q", name, got[name], text)
		}
	}

	// One that is not what was packed is refused, before anything of it is read.
	path := filepath.Join(runs, ArchiveDir, a.File)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"another byte": append(slices.Clone(whole), 0), "cut off": whole[:len(whole)-1], "empty": nil} {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Unpack(runs, t.TempDir()); !errors.Is(err, ErrOtherArchive) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 2 {
		if err := a.Remove(runs); err != nil {
			t.Error(err)
		}
	}
	if _, err := a.Unpack(runs, t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing archive: %v", err)
	}
}

// TestArchiveStaysInside: neither a digest nor names of files lead out of the directories.
func TestArchiveStaysInside(t *testing.T) {
	t.Parallel()
	runs, outside := t.TempDir(), t.TempDir()
	victim := filepath.Join(outside, "x"+ArchiveEnding)
	if err := os.WriteFile(victim, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	a := Archive{File: victim}
	if err := a.Remove(runs); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(victim); err != nil {
		t.Errorf("a file elsewhere was removed: %v", err)
	}
	if _, err := Pack(outside); err == nil {
		t.Error("a directory that is no run's was packed")
	}
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "../escaped", Mode: 0o644}), w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	into := filepath.Join(t.TempDir(), "into")
	if err := errors.Join(os.WriteFile(victim, b.Bytes(), 0o644), os.Mkdir(into, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := unpack(victim, into); err == nil {
		t.Error("a name that leads out of the directory was unpacked")
	}
	if _, err := os.Stat(filepath.Join(into, "..", "escaped")); err == nil {
		t.Error("it was written outside")
	}
}

// TestStoreText: Cassandra's runs name its release alone, others their store too.
func TestStoreText(t *testing.T) {
	t.Parallel()
	for want, versions := range map[string]map[string]string{
		"cassandra 5.0.6": {"cassandra": "5.0.6", "go": "go1.26.8"},
		"redis-5 7.0.15":  {"store": "redis-5", "redis-5": "7.0.15"},
		"":                {"store": "etcd", "cassandra": "5.0.6"},
	} {
		if got := (Info{Versions: versions}).StoreText(); got != want {
			t.Errorf("%v: %q, want %q", versions, got, want)
		}
	}
}

// TestSize: what cannot be read is an error, not nothing.
func TestSize(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"data/a", "data/b/c", "commitlog/d"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, make([]byte, 5<<10), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := Size(dir); n != 15<<10 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if n, err := Size(filepath.Join(dir, "none")); n != 0 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing has %d bytes, %v", n, err)
	}
}
