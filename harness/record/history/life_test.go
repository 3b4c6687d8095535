package history

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What ends as its plan says, and what only just does not.
func TestUnplanned(t *testing.T) {
	t.Parallel()
	code := func(n int) *int { return &n }
	killed := ProcessLife{Kind: LifeWorker, Asked: "SIGKILL", By: "f1", Signal: "SIGKILL"}
	asked := func(kind string, code *int, signal string) ProcessLife {
		return ProcessLife{Kind: kind, Asked: "SIGTERM", By: Runner, Code: code, Signal: signal, TookMS: 25_000, BoundMS: 25_000}
	}
	late := asked(LifeWorker, code(0), "")
	late.TookMS++
	segv := killed
	segv.Signal = "SIGSEGV"
	panicked := killed
	panicked.Signal, panicked.Code = "", code(2)
	for name, c := range map[string]struct {
		life ProcessLife
		want string
	}{
		"killed":                       {killed, ""},
		"killed by another signal":     {segv, "was to be killed by f1 and ended otherwise (SIGSEGV)"},
		"panicked before it is killed": {panicked, "was to be killed by f1 and ended otherwise (exit status 2)"},
		"worker in order":              {asked(LifeWorker, code(0), ""), ""},
		"worker with a code":           {asked(LifeWorker, code(1), ""), "did so with exit status 1, not with exit status 0"},
		"worker by the signal":         {asked(LifeWorker, nil, "SIGTERM"), "did so with SIGTERM, not with exit status 0"},
		"late":                         {late, "ended 25.001s after SIGTERM by runner; it has 25s"},
		"sink in order":                {asked(LifeSink, code(0), ""), ""},
		"sink with a code":             {asked(LifeSink, code(143), ""), "not with exit status 0"},
		"node in order":                {asked(LifeNode, code(143), ""), ""},
		"server in order":              {asked(LifeServer, code(0), ""), ""},
		"JVM of a server":              {asked(LifeServer, code(143), ""), ""},
		"server by the signal":         {asked(LifeServer, nil, "SIGTERM"), ""},
		"server with another code":     {asked(LifeServer, code(1), ""), "not with exit status 0 or 143, or by SIGTERM"},
		"server by another signal":     {asked(LifeServer, nil, "SIGSEGV"), "not with exit status 0 or 143"},
		"node with another code":       {asked(LifeNode, code(0), ""), "not with exit status 143"},
		"node out of memory":           {ProcessLife{Kind: LifeNode, Code: code(3)}, "ended by itself (exit status 3): nobody had asked it to"},
		"program in order":             {asked(LifeProgram, code(0), ""), ""},
		"program by the signal":        {asked(LifeProgram, nil, "SIGTERM"), ""},
		"program by another":           {asked(LifeProgram, nil, "SIGINT"), "did so with SIGINT"},
		"program with a code":          {asked(LifeProgram, code(143), ""), "not with exit status 0 or by SIGTERM"},
		"program that quits":           {ProcessLife{Kind: LifeProgram, Code: code(0)}, "ended by itself (exit status 0)"},
		"program by itself by SIGTERM": {ProcessLife{Kind: LifeProgram, Signal: "SIGTERM"}, "ended by itself (SIGTERM)"},
		"killed by somebody":           {ProcessLife{Kind: LifeWorker, Signal: "SIGKILL"}, "ended by itself (SIGKILL)"},
		"task":                         {ProcessLife{Kind: LifeTask, Code: code(0)}, ""},
		"task with a code":             {ProcessLife{Kind: LifeTask, Code: code(1)}, "ended with exit status 1, not with exit status 0"},
		"overdue":                      {ProcessLife{Kind: LifeWorker, Asked: "SIGTERM", Overdue: "did not end within 25s of SIGTERM", Signal: "SIGKILL"}, "did not end within 25s of SIGTERM, and was killed for it"},
		"running":                      {ProcessLife{Kind: LifeNode, Running: true}, ""},
		"asked and running":            {ProcessLife{Kind: LifeNode, Running: true, Asked: "SIGTERM", By: "f1"}, "was asked to end (SIGTERM by f1) and has not"},
		"nobody can tell":              {ProcessLife{Kind: LifeProgram}, "nobody can tell how"},
	} {
		if got := c.life.Unplanned(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A history file is what it was when its life ended, or malformed.
func TestFilesAreKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(file string, b []byte) error
		want   string // "" for nothing wrong
	}{
		"as it was": {func(string, []byte) error { return nil }, ""},
		"longer": {func(file string, b []byte) error {
			return os.WriteFile(file, append(b, `{"ts":9,"proc":"w1.1","type":"note","op":"exit"}`+"\n"...), 0o644)
		}, "w1.1.jsonl:3: it is not what it was when the life w1.1 ended: it had "},
		"torn later": {func(file string, b []byte) error { return os.WriteFile(file, append(b, '{'), 0o644) }, "w1.1.jsonl:3: it is not what it was"},
		"shorter":    {func(file string, b []byte) error { return os.WriteFile(file, b[:len(b)-2], 0o644) }, "w1.1.jsonl:1: it is not what it was"},
		"other": {func(file string, b []byte) error {
			return os.WriteFile(file, []byte(strings.Replace(string(b), `"margin_base_ms":0`, `"margin_base_ms":1`, 1)), 0o644)
		}, "other bytes were in it"},
		"gone": {func(file string, _ []byte) error { return os.Remove(file) }, "w1.1.jsonl:1: it is not what it was"},
		"made by nobody": {func(file string, b []byte) error {
			return os.WriteFile(filepath.Join(filepath.Dir(file), "w2.1.jsonl"), []byte(strings.ReplaceAll(string(b), "w1.1", "w2.1")), 0o644)
		}, "w2.1.jsonl:1: it is not what it was when the life w2.1 ended: it had 0 bytes then"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "w1.1.jsonl")
			w, err := NewRecorder(file, Header{Run: "r", Proc: "w1.1"})
			if err != nil {
				t.Fatal(err)
			}
			w.Record(Event{Proc: "w1.1", Type: Note, Op: NoteExit})
			h, err := NewRecorder(filepath.Join(dir, "harness.jsonl"), Header{Run: "r", Proc: Harness})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"w1.1", "w2.1"} { // the second died before it made its file
				l := ProcessLife{Kind: LifeWorker, Name: name}
				if err := l.Holds(filepath.Join(dir, name+".jsonl")); err != nil {
					t.Fatal(err)
				}
				h.Record(Event{Proc: Harness, Type: Note, Op: NoteLife, Details: &Details{Life: &l}})
			}
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.change(file, b); err != nil {
				t.Fatal(err)
			}
			_, err = ReadDir(dir)
			var format *FormatError
			if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &format) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
