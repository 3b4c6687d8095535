package checker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fencepost/checker/property"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/internal/exetest"
	"fencepost/internal/race"
)

// writeRun writes a history as a run directory.
func writeRun(t testing.TB, h *history.History) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, rundir.HistoryDir), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, h, filepath.Join(dir, rundir.HistoryDir))
	return dir
}

// writeFiles writes one file a process life into dir.
func writeFiles(t testing.TB, h *history.History, dir string) []string {
	t.Helper()
	var names []string
	for _, head := range h.Headers {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		if err := enc.Encode(head); err != nil {
			t.Fatal(err)
		}
		for _, e := range h.Events {
			// A crash note is about a worker's life and in the harness's file.
			owner := history.Life(e.Proc)
			if e.Op == history.NoteCrash {
				owner = history.Harness
			}
			if owner == head.Proc {
				if err := enc.Encode(e); err != nil {
					t.Fatal(err)
				}
			}
		}
		name := filepath.Join(dir, head.Proc+".jsonl")
		if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// childOptions leaves out the memory limit where it cannot work.
func childOptions() Options {
	if race.Enabled {
		return Options{Memory: -1}
	}
	return Options{}
}

func TestChildChecksARun(t *testing.T) {
	t.Parallel()
	h := simulate(small(4))
	dir := writeRun(t, h)
	old := filepath.Join(dir, "porcupine-lock-of-an-earlier-check.html")
	if err := os.WriteFile(old, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := childOptions().CheckInChild(context.Background(), os.Args[0], dir)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != Pass || r.Run != "sim" || r.Counts.Events != len(h.Events) {
		t.Errorf("%s %s, %d events of %d: %s", r.Verdict, r.Run, r.Counts.Events, len(h.Events), r.Summary)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("a page of an earlier check is still there")
	}
	b, err := os.ReadFile(filepath.Join(dir, rundir.VerdictFile))
	if err != nil {
		t.Fatal(err)
	}
	var stored Result
	if err := json.Unmarshal(b, &stored); err != nil || stored.Verdict != Pass || len(stored.Properties) != len(property.All) {
		t.Errorf("verdict.json: %v, %s, %d properties", err, stored.Verdict, len(stored.Properties))
	}
	for _, p := range stored.Properties {
		if p.Visualization == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, p.Visualization)); err != nil {
			t.Error(err)
		}
	}
}

func TestChildChecksFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newEdit(simulate(small(4)))
	e.middle().release.end.Type = history.Fail
	e.middle()
	files := writeFiles(t, e.h, dir)
	for _, inputs := range [][]string{files, {dir}} {
		r, err := childOptions().CheckInChild(context.Background(), os.Args[0], inputs...)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != Fail {
			t.Errorf("%s: %s", r.Verdict, r.Summary)
		}
		var out bytes.Buffer
		Print(&out, r)
		if !strings.Contains(out.String(), dir+"/w") || !strings.Contains(out.String(), ".jsonl:") {
			t.Errorf("no place of the violation:\n%s", out.String())
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.html")); len(left) > 0 {
		t.Errorf("files were written beside bare histories: %v", left)
	}
}

func TestChildRefusesInput(t *testing.T) {
	t.Parallel()
	h := simulate(small(4))
	dir := t.TempDir()
	files := writeFiles(t, h, dir)
	lines, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.jsonl")
	parts := bytes.SplitAfterN(lines, []byte("\n"), 4)
	if err := os.WriteFile(broken, bytes.Join([][]byte{parts[0], parts[1], []byte("{\"ts\":1,\n"), parts[3]}, nil), 0o644); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.jsonl")
	if err := os.WriteFile(other, bytes.Replace(lines, []byte(`"run":"sim"`), []byte(`"run":"other"`), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		inputs []string
		says   string
	}{
		{"malformed line", []string{broken}, broken + ":3: "},
		{"no such file", []string{filepath.Join(dir, "none.jsonl")}, "no such file"},
		{"empty directory", []string{t.TempDir()}, "no history"},
		{"two runs", []string{files[0], other}, "different runs"},
		{"two directories", []string{dir, dir}, "one directory"},
		{"nothing", nil, "no history named"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, err := childOptions().CheckInChild(context.Background(), os.Args[0], tc.inputs...)
			var format *history.FormatError
			var input *InputError
			if !errors.As(err, &format) && !errors.As(err, &input) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("result %v, error %v, want one that says %q", r, err, tc.says)
			}
		})
	}
}

// TestChildThatDies: whatever ends a child, the verdict is UNKNOWN with the
// reason, in verdict.json too.
func TestChildThatDies(t *testing.T) {
	t.Parallel()
	script := func(body string) string {
		name := filepath.Join(t.TempDir(), "exe")
		exetest.Write(t, name, "#!/bin/sh\n"+body+"\n")
		return name
	}
	dir := writeRun(t, simulate(small(4)))
	large := dir
	if !race.Enabled {
		cfg := small(4)
		cfg.length, cfg.maxEvents, cfg.locks = time.Hour, 60_000, 10
		large = writeRun(t, simulate(cfg))
	}
	for _, tc := range []struct {
		name, exe, dir string
		opts           Options
		says           string
		needsLimit     bool
	}{
		{"killed", script("kill -9 $$"), dir, Options{}, "was killed", false},
		{"out of its depth", script("echo 'panic: lost' >&2; exit 2"), dir, Options{}, "panic: lost", false},
		{"out of memory by its own account", script("echo 'fatal error: runtime: out of memory' >&2; exit 2"), dir, Options{Memory: 64 << 20}, "64 MB", false},
		{"out of memory in the runtime", script("echo 'SIGSEGV: segmentation violation' >&2; exit 2"), dir, Options{Memory: 64 << 20}, "more than its 64 MB", false},
		{"out of memory for a thread", script("echo 'runtime/cgo: pthread_create failed: Resource temporarily unavailable' >&2; exit 2"), dir, Options{Memory: 64 << 20}, "more than its 64 MB", false},
		{"out of memory", os.Args[0], large, Options{Memory: 80 << 20}, "more than its 80 MB", true},
		{"too slow", script("exec sleep 60"), dir, Options{Limit: 50 * time.Millisecond}, "did not finish within 50ms", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.needsLimit && race.Enabled {
				t.Skip("the race detector's memory exceeds any limit")
			}
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(tc.dir)); err != nil {
				t.Fatal(err)
			}
			r, err := tc.opts.CheckInChild(context.Background(), tc.exe, copied)
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != Unknown || !strings.Contains(r.Summary, tc.says) {
				t.Errorf("%s: %s, want one that says %q", r.Verdict, r.Summary, tc.says)
			}
			b, err := os.ReadFile(filepath.Join(copied, rundir.VerdictFile))
			if err != nil || !bytes.Contains(b, []byte(`"UNKNOWN"`)) {
				t.Errorf("verdict.json: %v\n%s", err, b)
			}
		})
	}
}

func TestChildErrors(t *testing.T) {
	t.Parallel()
	dir := writeRun(t, simulate(small(4)))
	if _, err := CheckInChild(context.Background(), "/nonexistent/exe", dir); err == nil {
		t.Error("a checker that cannot be started: no error")
	}
	if _, err := CheckInChild(context.Background(), "/bin/true", dir); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a program that is no checker: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := CheckInChild(ctx, os.Args[0], dir); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if ChildMain(&bytes.Buffer{}) == 0 {
		t.Error("a child without orders succeeds")
	}
}

func TestPrint(t *testing.T) {
	t.Parallel()
	e := newEdit(simulate(small(4)))
	h := e.middle()
	h.effect.inv.DecidedAt = h.acquire.inv.TS + 20_000_000_000
	r := Check(context.Background(), e.h, Options{})
	var out bytes.Buffer
	Print(&out, r)
	t.Log(out.String())
	for _, want := range []string{"FAIL  ", "P7   FAIL", "P5   n/a", "P1   pass", "after the holder's own deadline", ".jsonl:", "cycles"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q", want)
		}
	}
}
