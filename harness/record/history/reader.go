package history

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"sort"
	"time"
)

// FormatError says where a history is malformed.
type FormatError struct {
	File   string
	Line   int
	Reason string
}

func (e *FormatError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason) }

// History is one run's events, of all processes, in the order of TS (ties: by
// file, then line).
type History struct {
	Headers []Header
	Events  []Event
	// Torn counts last lines that a killed process left unfinished.
	Torn int
}

// maxLine bounds one event; longer is malformed.
const maxLine = 1 << 20

// ReadDir reads and merges every *.jsonl file of dir. See Merge.
func ReadDir(dir string) (*History, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no history (*.jsonl) in %s", dir)
	}
	sort.Strings(files)
	return ReadFiles(files...)
}

// ReadFiles reads and merges the named files.
func ReadFiles(files ...string) (*History, error) {
	parts := make([]*part, len(files))
	for i, name := range files {
		p, err := measure(name)
		if err != nil {
			return nil, err
		}
		parts[i] = p
	}
	return readParts(parts)
}

// Read reads one history file. A torn last line (no newline, not a whole
// event) is dropped and counted; an empty file has neither header nor events, as its
// writer was killed before. Anything else malformed is a *FormatError.
func Read(r io.Reader, name string) (*History, error) {
	return readInto(r, name, nil, nil)
}

// Follow reads one history file like Read, and hands on each event as it comes: r may
// be a file that is being written.
func Follow(r io.Reader, name string, each func(*Event)) error {
	_, err := readInto(r, name, nil, each)
	return err
}

// readInto is Read with room for the events; each, if not nil, gets every event.
func readInto(r io.Reader, name string, room []Event, each func(*Event)) (*History, error) {
	lr := newLineReader(name, room)
	br := bufio.NewReaderSize(r, 1<<16)
	var line []byte
	for {
		var whole bool
		var err error
		line, whole, err = readLine(br, line[:0])
		if err == io.EOF {
			break
		}
		if err != nil {
			lr.n++
			return nil, lr.bad("%v", err)
		}
		had := len(lr.h.Events)
		if err := lr.add(line, whole); err != nil {
			return nil, err
		}
		if each != nil && len(lr.h.Events) > had {
			each(&lr.h.Events[had])
		}
	}
	return lr.h, nil
}

// lineReader makes a history of a file's lines.
type lineReader struct {
	name string
	h    *History
	n    int // lines so far
	dec  *lineDecoder
	open map[int64]int // operations without an end so far: their places in h
}

func newLineReader(name string, room []Event) *lineReader {
	return &lineReader{name: name, h: &History{Events: room}, dec: newLineDecoder(), open: map[int64]int{}}
}

func (r *lineReader) bad(format string, args ...any) error {
	return &FormatError{File: r.name, Line: r.n, Reason: fmt.Sprintf(format, args...)}
}

// add reads one line. One that is not whole (without its newline) is the last: if it
// breaks off, it is torn.
func (r *lineReader) add(line []byte, whole bool) error {
	r.n++
	if r.n == 1 {
		return r.header(line)
	}
	h := r.h
	h.Events = append(h.Events, Event{})
	e := &h.Events[len(h.Events)-1]
	r.dec.line(line)
	has, said, err := eventObject.decode(r.dec, reflect.ValueOf(e).Elem())
	if err == nil {
		err = r.dec.over()
	}
	switch {
	case err == nil:
	case !whole && errors.Is(err, io.ErrUnexpectedEOF):
		h.Torn++
		h.Events = h.Events[:len(h.Events)-1]
		return nil
	default:
		return r.bad("not a valid event: %v", err)
	}
	e.File, e.Line = r.name, r.n
	if err := check(e, has, said, h.Headers[0].Proc); err != nil {
		return r.bad("%v", err)
	}
	if err := r.join(e); err != nil {
		return r.bad("%v", err)
	}
	return nil
}

func (r *lineReader) header(line []byte) error {
	var head Header
	r.dec.line(line)
	has, said, err := headerObject.decode(r.dec, reflect.ValueOf(&head).Elem())
	if err == nil {
		err = r.dec.over()
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return r.bad("torn header: the file holds no history")
	case err != nil:
		return r.bad("header: %v", err)
	case head.Format != Format:
		return r.bad("header: format is %q, want %q", head.Format, Format)
	case head.Version != FormatVersion:
		return r.bad("header: format version %d is not supported (this tool reads version %d)", head.Version, FormatVersion)
	}
	if _, err := headerObject.fits(headerObject.always, has, said); err != nil {
		return r.bad("header %v", err)
	}
	if head.Proc != Life(head.Proc) {
		return r.bad("header: proc is %q, want a process life (w1.1, %s)", head.Proc, Harness)
	}
	if _, err := time.Parse(time.RFC3339Nano, head.WallTime); err != nil {
		return r.bad("header: wall_time is %q, want a time by RFC 3339", head.WallTime)
	}
	r.h.Headers = append(r.h.Headers, head)
	return nil
}

// join holds an end against its invoke, which must stand before it. e is the last event.
func (r *lineReader) join(e *Event) error {
	if e.Type == Note {
		return nil
	}
	i, open := r.open[e.ID]
	if e.Type == Invoke {
		if open {
			return fmt.Errorf("id %d is invoked twice", e.ID)
		}
		r.open[e.ID] = len(r.h.Events) - 1
		return nil
	}
	if !open {
		return fmt.Errorf("%s of id %d without its invoke before it", e.Type, e.ID)
	}
	inv := &r.h.Events[i]
	switch {
	case inv.Op != e.Op || inv.Key != e.Key || inv.Proc != e.Proc:
		return fmt.Errorf(
			"%s of id %d is (%s, %s, %s), its invoke on line %d was (%s, %s, %s)",
			e.Type, e.ID, e.Proc, e.Op, e.Key, inv.Line, inv.Proc, inv.Op, inv.Key)
	case e.TS < inv.TS:
		return fmt.Errorf("id %d ends at %d, before its invoke at %d", e.ID, e.TS, inv.TS)
	case e.Op != OpLock && e.Token != 0 && e.Token != inv.Token, e.Issuer != "" && e.Issuer != inv.Issuer,
		e.EffectKey != "" && e.EffectKey != inv.EffectKey:
		return fmt.Errorf(
			"%s of id %d is of token %d of %q, key %q; its invoke on line %d was of token %d of %q, key %q",
			e.Type, e.ID, e.Token, e.Issuer, e.EffectKey, inv.Line, inv.Token, inv.Issuer, inv.EffectKey)
	}
	delete(r.open, e.ID)
	return nil
}

// readLine appends a line without its newline to line and says whether the
// newline was there.
func readLine(br *bufio.Reader, line []byte) (_ []byte, whole bool, err error) {
	for {
		part, err := br.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, false, fmt.Errorf("line longer than %d bytes", maxLine)
		}
		switch {
		case err == nil:
			return line[:len(line)-1], true, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(line) > 0:
			return line, false, nil
		default:
			return nil, false, err
		}
	}
}
