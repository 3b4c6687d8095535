package history

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Tail reads the history of a run that still goes on, each line once.
type Tail struct {
	dir   string
	files map[string]*tailFile
}

type tailFile struct {
	lines *lineReader
	at    int64 // where the next line begins
}

// NewTail reads the *.jsonl files of dir, those that come later too.
func NewTail(dir string) *Tail { return &Tail{dir: dir, files: map[string]*tailFile{}} }

// SoFar returns all that was recorded until a moment ago, in the order of TS. It is
// consistent: with an event it has all that led to it. For what led to it was written
// before, and so is found by a look at the files that begins after it.
func (t *Tail) SoFar() (*History, error) {
	now := Now()
	names, err := filepath.Glob(filepath.Join(t.dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	total := 0
	for _, name := range names {
		f := t.files[name]
		if f == nil {
			f = &tailFile{lines: newLineReader(name, nil)}
			t.files[name] = f
		}
		if err := f.read(); err != nil {
			return nil, err
		}
		total += len(f.lines.h.Events)
	}
	out := &History{Events: make([]Event, 0, total)}
	for _, name := range slices.Sorted(maps.Keys(t.files)) {
		h := t.files[name].lines.h
		if err := out.join(h); err != nil {
			return nil, err
		}
		for i := range h.Events {
			if h.Events[i].TS <= now {
				out.Events = append(out.Events, h.Events[i])
			}
		}
	}
	out.order()
	return out, nil
}

// read adds the lines that are whole by now.
func (f *tailFile) read() error {
	file, err := os.Open(f.lines.name)
	if err != nil {
		return err
	}
	defer file.Close()
	b, err := io.ReadAll(io.NewSectionReader(file, f.at, 1<<62))
	if err != nil {
		return fmt.Errorf("%s: %w", f.lines.name, err)
	}
	for {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			return nil
		}
		if err := f.lines.add(b[:end], true); err != nil {
			return err
		}
		b, f.at = b[end+1:], f.at+int64(end)+1
	}
}
