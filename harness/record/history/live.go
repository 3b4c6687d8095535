package history

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
)

// Feed reads what is added to the histories of a live run.
type Feed struct {
	dir string
	at  map[string]int64 // by file
	dec *lineDecoder
}

// NewFeed reads the *.jsonl files of dir from their present ends on, and those that come
// later from their beginnings.
func NewFeed(dir string) (*Feed, error) {
	f := &Feed{dir: dir, at: map[string]int64{}, dec: newLineDecoder()}
	names, err := f.names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		f.at[name] = info.Size()
	}
	return f, nil
}

// AllOf reads the *.jsonl files of dir from their beginnings on.
func AllOf(dir string) *Feed { return &Feed{dir: dir, at: map[string]int64{}, dec: newLineDecoder()} }

func (f *Feed) names() ([]string, error) { return filepath.Glob(filepath.Join(f.dir, "*.jsonl")) }

// Next calls found with the events of the lines that are whole since the last call: by
// file, and in each in the order in which they were written. A line that is no event is
// passed over: the reader of the whole history says what is wrong with it.
func (f *Feed) Next(found func(*Event)) error {
	names, err := f.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		b, err := added(name, f.at[name])
		if err != nil {
			return err
		}
		f.at[name] += int64(len(b))
		for line := range bytes.Lines(b) {
			var e Event
			f.dec.line(line)
			if _, _, err := eventObject.decode(f.dec, reflect.ValueOf(&e).Elem()); err == nil && e.Op != "" {
				found(&e)
			}
		}
	}
	return nil
}

// added reads the whole lines of a file from at on, where the next one begins.
func added(name string, at int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.NewSectionReader(file, at, 1<<62))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b[:bytes.LastIndexByte(b, '\n')+1], nil
}

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
	b, err := added(f.lines.name, f.at)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(b) {
		if err := f.lines.add(line[:len(line)-1], true); err != nil {
			return err
		}
		f.at += int64(len(line))
	}
	return nil
}
