package history

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
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
		b, err := f.more(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
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

// more reads the whole lines that were added to a file.
func (f *Feed) more(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.NewSectionReader(file, f.at[name], 1<<62))
	if err != nil {
		return nil, err
	}
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	f.at[name] += int64(len(b))
	return b, nil
}
