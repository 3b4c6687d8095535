package checker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// linesFile is one process life's file as its lines.
type linesFile struct {
	name  string
	lines [][]byte
}

// toLines encodes a history as it is on disk.
func toLines(h *history.History) []*linesFile {
	var files []*linesFile
	of := map[string]*linesFile{}
	add := func(f *linesFile, v any) {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // plain data
		}
		f.lines = append(f.lines, append(b, '\n'))
	}
	for _, head := range h.Headers {
		f := &linesFile{name: head.Proc + ".jsonl"}
		files, of[head.Proc] = append(files, f), f
		add(f, head)
	}
	for _, e := range h.Events {
		owner := history.Life(e.Proc)
		if e.Op == history.NoteCrash {
			owner = history.Harness
		}
		if f := of[owner]; f != nil {
			add(f, e)
		}
	}
	return files
}

// judgeLines reads and checks; an error of the reader names the file.
func judgeLines(t *rapid.T, files []*linesFile) (*Result, error) {
	var hs []*history.History
	for _, f := range files {
		h, err := history.Read(bytes.NewReader(bytes.Join(f.lines, nil)), f.name)
		var fe *history.FormatError
		if err != nil && (!errors.As(err, &fe) || fe.File != f.name || fe.Line < 1) {
			t.Fatalf("error without file and line: %v", err)
		}
		if err != nil {
			return nil, err
		}
		hs = append(hs, h)
	}
	h, err := history.Merge(hs...)
	if err != nil {
		return nil, err
	}
	return Check(context.Background(), h, Options{Search: 2 * time.Second}), nil
}

func drawBase(t *rapid.T) (*edit, string) {
	cfg := small(rapid.Uint64Range(0, 60).Draw(t, "seed"))
	cfg.length = 10 * time.Second
	e := newEdit(simulate(cfg))
	planted := "none"
	if rapid.Bool().Draw(t, "bad") {
		m := rapid.SampledFrom(mutations()).Draw(t, "mutation")
		e.draw = func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "place") }
		if m.do(e) {
			planted = m.name
		}
	}
	return e, planted
}

// mustBeNoticed says whether a history without the line cannot pass. What is
// not noticed is documented in docs/properties.md: the end of an operation on a
// lock row, which then counts as unknown, and what a killed process did last.
func mustBeNoticed(e history.Event, killed bool) bool {
	switch e.Type {
	case history.Invoke:
		return !killed
	case history.Note:
		return slices.Contains([]history.Op{history.NoteLedger, history.NoteExpect, history.NoteExit, history.NoteCrash, history.NoteRow}, e.Op)
	}
	main := []history.Op{history.OpLock, history.OpRaise, history.OpGet, history.OpEffect, history.OpEnqueue}
	return !killed && slices.Contains(main, e.Op) && e.Proc != history.Harness
}

// TestLostLinesAreNoticed: a line that is lost from a history, legal or not,
// leaves none that passes. With jobs, an enqueue's end is a main line's, and what a row note
// said is missed by the replay.
func TestLostLinesAreNoticed(t *testing.T) {
	t.Parallel()
	for name, base := range map[string]func(*rapid.T) (*edit, string){
		"locks": drawBase,
		"jobs": func(t *rapid.T) (*edit, string) {
			cfg := smallJobs(rapid.Uint64Range(0, 60).Draw(t, "seed"))
			cfg.length = 2 * time.Second
			return newEdit(simulate(cfg)), "none"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				base, planted := base(t)
				files := toLines(base.h)
				// Not of a life that did nothing: what it loses nobody misses.
				busy := slices.DeleteFunc(slices.Clone(files), func(f *linesFile) bool { return name == "jobs" && len(f.lines) < 3 })
				f := rapid.SampledFrom(busy).Draw(t, "file")
				at := rapid.IntRange(0, len(f.lines)-1).Draw(t, "line")
				gone := f.lines[at]
				f.lines = slices.Delete(slices.Clone(f.lines), at, at+1)
				r, err := judgeLines(t, files)
				if err != nil {
					return // refused with file and line
				}
				if at == 0 {
					t.Fatal("a file without its header was read")
				}
				var e history.Event
				if err := json.Unmarshal(gone, &e); err != nil {
					t.Fatal(err)
				}
				killed := slices.ContainsFunc(base.notes(history.NoteCrash), func(n *history.Event) bool { return n.Proc == history.Life(e.Proc) })
				if r.Verdict != Fail && r.Verdict != Invalid && mustBeNoticed(e, killed) {
					t.Fatalf("planted: %s; line %d of %s was lost (%s), and the verdict is %s", planted, at+1, f.name, gone, r.Verdict)
				}
			})
		})
	}
}

// TestEditedLinesAreJudged: whatever is done to the lines of a history, it is
// refused with file and line or judged.
func TestEditedLinesAreJudged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base, _ := drawBase(t)
		files := toLines(base.h)
		for range rapid.IntRange(1, 4).Draw(t, "edits") {
			editLines(t, rapid.SampledFrom(files).Draw(t, "file"))
		}
		r, err := judgeLines(t, files)
		if err == nil && (r.Verdict == "" || r.Summary == "" || len(r.Properties) != len(property.All)) {
			t.Fatalf("%+v", r)
		}
	})
}

func editLines(t *rapid.T, f *linesFile) {
	if len(f.lines) == 0 {
		return
	}
	line := func(label string) int { return rapid.IntRange(0, len(f.lines)-1).Draw(t, label) }
	i := line("line")
	switch rapid.SampledFrom([]string{"delete", "duplicate", "swap", "truncate", "flip"}).Draw(t, "edit") {
	case "delete":
		f.lines = slices.Delete(f.lines, i, i+1)
	case "duplicate":
		f.lines = slices.Insert(f.lines, line("to"), bytes.Clone(f.lines[i]))
	case "swap":
		j := line("with")
		f.lines[i], f.lines[j] = f.lines[j], f.lines[i]
	case "truncate":
		f.lines = f.lines[:i+1]
		f.lines[i] = f.lines[i][:rapid.IntRange(0, len(f.lines[i])).Draw(t, "length")]
	case "flip":
		if n := len(f.lines[i]); n > 0 {
			f.lines[i] = bytes.Clone(f.lines[i])
			// Digits stay digits, so that many of the edits can be read.
			f.lines[i][rapid.IntRange(0, n-1).Draw(t, "byte")] ^= byte(rapid.SampledFrom([]int{1, 2, 4, 32}).Draw(t, "bit"))
		}
	}
}

// TestDoubledLines: an operation that is recorded twice is refused or noticed.
func TestDoubledLines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := small(rapid.Uint64Range(0, 60).Draw(t, "seed"))
		cfg.length = 10 * time.Second
		files := toLines(simulate(cfg))
		f := rapid.SampledFrom(files).Draw(t, "file")
		at := rapid.IntRange(1, len(f.lines)-1).Draw(t, "line")
		var e history.Event
		if err := json.Unmarshal(f.lines[at], &e); err != nil {
			t.Fatal(err)
		}
		f.lines = slices.Insert(f.lines, at, f.lines[at])
		r, err := judgeLines(t, files)
		if err == nil && r.Verdict == Pass && (e.Type != history.Note || e.Op == history.NoteLedger) {
			t.Fatalf("line %d of %s (%s) is there twice, and the verdict is PASS", at+1, f.name, f.lines[at])
		}
	})
}
