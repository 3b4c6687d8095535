package history

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// TestFilesMerge: files read at once into one slice give what they give when
// they are read one by one and merged.
func TestFilesMerge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		var names []string
		var each []*History
		for i := range rapid.IntRange(1, 5).Draw(rt, "files") {
			proc := string(rune('a'+i)) + ".1"
			var events []Event
			for range rapid.IntRange(0, 8).Draw(rt, "events") {
				point := Event{TS: rapid.Int64Range(1, 20).Draw(rt, "ts"), Proc: proc, Type: Note, Op: NotePoint}
				point.Details = &Details{Point: rapid.StringN(1, 9, -1).Draw(rt, "point")}
				events = append(events, point)
			}
			data := encode(t, header("r", proc, "b"), events...)
			if rapid.Bool().Draw(rt, "torn") {
				data = append(data, `{"ts":`...)
			}
			name := filepath.Join(dir, proc)
			if err := os.WriteFile(name, data, 0o644); err != nil {
				rt.Fatal(err)
			}
			h, err := Read(bytes.NewReader(data), name)
			if err != nil {
				rt.Fatal(err)
			}
			names, each = append(names, name), append(each, h)
		}
		want, err := Merge(each...)
		if err != nil {
			rt.Fatal(err)
		}
		got, err := ReadFiles(names...)
		if err != nil {
			rt.Fatal(err)
		}
		if len(got.Events) != len(want.Events) || len(want.Events) > 0 && !reflect.DeepEqual(got.Events, want.Events) ||
			got.Torn != want.Torn || !reflect.DeepEqual(got.Headers, want.Headers) {
			rt.Fatalf("%+v, want %+v", got, want)
		}
	})
}

// TestFilesError: the first file's error is given, whichever is read first.
func TestFilesError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var names []string
	for _, proc := range []string{"w1.1", "w2.1", "w3.1", "w4.1"} {
		name := filepath.Join(dir, proc)
		if err := os.WriteFile(name, append(encode(t, header("r", proc, "b")), "\n\n\n"...), 0o644); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	_, err := ReadFiles(names...)
	var fe *FormatError
	if !errors.As(err, &fe) || fe.File != names[0] || fe.Line != 2 {
		t.Error(err)
	}
}

// TestPipe: what cannot be read twice is read once.
func TestPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	exit := Event{TS: 1, Proc: "w2.1", Type: Note, Op: NoteExit}
	if err := os.WriteFile(file, encode(t, header("r", "w2.1", "b"), exit), 0o644); err != nil {
		t.Fatal(err)
	}
	events := everyEvent(t, "w1.1")
	written := make(chan error, 1)
	data := encode(t, header("r", "w1.1", "b"), events...)
	go func() { written <- os.WriteFile(pipe, data, 0) }()
	h, err := ReadFiles(pipe, file)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if len(h.Headers) != 2 || len(h.Events) != len(events)+1 || h.Events[1].File != file {
		t.Errorf("%d headers, %d events", len(h.Headers), len(h.Events))
	}
}
