package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sort"
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
// event) is dropped and counted; anything else malformed is a *FormatError.
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
	if len(lr.h.Headers) == 0 {
		return nil, &FormatError{File: name, Line: 1, Reason: "empty file: no header"}
	}
	return lr.h, nil
}

// lineReader makes a history of a file's lines.
type lineReader struct {
	name  string
	h     *History
	n     int // lines so far
	dec   *lineDecoder
	open  map[int64]int
	names interner
}

func newLineReader(name string, room []Event) *lineReader {
	return &lineReader{name: name, h: &History{Events: room}, dec: newLineDecoder(), open: map[int64]int{}, names: interner{}}
}

func (r *lineReader) bad(format string, args ...any) error {
	return &FormatError{File: r.name, Line: r.n, Reason: fmt.Sprintf(format, args...)}
}

// add reads one line. One that is not whole (without its newline) is the last.
func (r *lineReader) add(line []byte, whole bool) error {
	r.n++
	if r.n == 1 {
		return r.header(line, whole)
	}
	h := r.h
	h.Events = append(h.Events, Event{})
	e := &h.Events[len(h.Events)-1]
	if err := r.dec.decode(line, e); err != nil {
		if !whole {
			h.Torn++
			h.Events = h.Events[:len(h.Events)-1]
			return nil
		}
		return r.bad("%v", err)
	}
	e.File, e.Line = r.name, r.n
	r.names.intern(e)
	if err := h.validate(e, r.open); err != nil {
		return r.bad("%v", err)
	}
	return nil
}

func (r *lineReader) header(line []byte, whole bool) error {
	var head Header
	if err := r.dec.decode(line, &head); err != nil {
		if !whole {
			return r.bad("torn header: the file holds no history")
		}
		return r.bad("header: %v", err)
	}
	if head.Format != Format {
		return r.bad("header: format is %q, want %q", head.Format, Format)
	}
	if head.Version != FormatVersion {
		return r.bad("header: format version %d is not supported (this tool reads version %d)", head.Version, FormatVersion)
	}
	if head.Proc == "" || head.Proc != Life(head.Proc) {
		return r.bad("header: proc is %q, want a process life (w1.1, %s)", head.Proc, Harness)
	}
	r.h.Headers = append(r.h.Headers, head)
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

// lineDecoder decodes one line after the other. It refuses unknown fields and
// trailing data: a misspelt field would otherwise be a fact silently lost. Its
// first error is its last.
type lineDecoder struct {
	dec  *json.Decoder
	line []byte // what the decoder has not fetched yet
	fed  int64  // length of the lines before
}

func newLineDecoder() *lineDecoder {
	d := &lineDecoder{}
	d.dec = json.NewDecoder(d)
	d.dec.DisallowUnknownFields()
	return d
}

// Read gives the decoder the current line and no more.
func (d *lineDecoder) Read(p []byte) (int, error) {
	if len(d.line) == 0 {
		return 0, io.EOF
	}
	n := copy(p, d.line)
	d.line = d.line[n:]
	return n, nil
}

func (d *lineDecoder) decode(line []byte, v any) error {
	d.line = line
	if err := d.dec.Decode(v); err != nil {
		return fmt.Errorf("not a valid event: %w", err)
	}
	if rest := line[d.dec.InputOffset()-d.fed:]; len(bytes.TrimSpace(rest)) > 0 {
		return errors.New("data after the event")
	}
	d.fed += int64(len(line))
	return nil
}

// validate checks what later stages rely on; open holds the places of this
// file's operations without an end. e is the last event.
func (h *History) validate(e *Event, open map[int64]int) error {
	if e.TS <= 0 {
		return errors.New("ts missing or not positive")
	}
	if e.Proc == "" || e.Op == "" {
		return errors.New("proc or op missing")
	}
	if err := h.own(e); err != nil {
		return err
	}
	switch e.Type {
	case Note:
		return nil
	case Invoke:
		if e.ID <= 0 {
			return errors.New("invoke without an id")
		}
		if _, dup := open[e.ID]; dup {
			return fmt.Errorf("id %d is invoked twice", e.ID)
		}
		switch e.Op {
		case OpAcquire, OpRenew, OpRelease, OpSeal, OpTake, OpTick, OpHandOver:
			if e.From == nil || e.To == nil {
				return fmt.Errorf("%s invoke without from and to", e.Op)
			}
		case OpEnqueue:
			if e.Job() == nil {
				return errors.New("enqueue invoke without its job")
			}
		case OpUpdate:
			if e.Key == "" || len(e.Changes()) != 1 || e.Changes()[0].Job == "" {
				return errors.New("update invoke without its key or its one change")
			}
		case OpSchedule:
			if e.Schedule() == nil {
				return errors.New("schedule invoke without its schedule")
			}
		}
		open[e.ID] = len(h.Events) - 1
		return nil
	case OK, Fail, Unknown:
		i, ok := open[e.ID]
		if !ok {
			return fmt.Errorf("%s of id %d without its invoke before it", e.Type, e.ID)
		}
		inv := &h.Events[i]
		if inv.Op != e.Op || inv.Key != e.Key || inv.Proc != e.Proc {
			return fmt.Errorf("%s of id %d is (%s, %s, %s), its invoke on line %d was (%s, %s, %s)", e.Type, e.ID, e.Proc, e.Op, e.Key, inv.Line, inv.Proc, inv.Op, inv.Key)
		}
		if e.TS < inv.TS {
			return fmt.Errorf("id %d ends at %d, before its invoke at %d", e.ID, e.TS, inv.TS)
		}
		delete(open, e.ID)
		return nil
	}
	return fmt.Errorf("unknown type %q", e.Type)
}

// own refuses an event of another process life than the file's: ids are counted
// by life, so it would be joined with operations that it has nothing to do with.
// Only the harness writes about others: that they crashed, or what was done to
// their clocks.
func (h *History) own(e *Event) error {
	life, file := Life(e.Proc), h.Headers[0].Proc
	about := e.Type == Note && (e.Op == NoteCrash || e.Op == NoteClock)
	if life == file || file == Harness && about {
		return nil
	}
	return fmt.Errorf("%s of %s in the file of %s: a file holds the events of one process life", e.Op, e.Proc, file)
}

// interner keeps one copy of each name: a history repeats a few thousand of them.
type interner map[string]string

func (in interner) intern(e *Event) {
	e.Proc, e.Key, e.Issuer, e.Result = in.one(e.Proc), in.one(e.Key), in.one(e.Issuer), in.one(e.Result)
	e.Type, e.Op = Type(in.one(string(e.Type))), Op(in.one(string(e.Op)))
	for _, v := range []*Version{e.From, e.To, e.Row} {
		if v != nil {
			v.Attempt, v.Holder = in.one(v.Attempt), in.one(v.Holder)
		}
	}
	for i := range e.Changes() {
		c := &e.Changes()[i]
		c.Job, c.Do, c.Schedule = in.one(c.Job), in.one(c.Do), in.one(c.Schedule)
	}
	if j := e.Job(); j != nil {
		j.Queue, j.Shard, j.Kind, j.Resource = in.one(j.Queue), in.one(j.Shard), in.one(j.Kind), in.one(j.Resource)
		for i := range j.Steps {
			j.Steps[i] = in.one(j.Steps[i])
		}
	}
}

func (in interner) one(s string) string {
	if t, ok := in[s]; ok {
		return t
	}
	in[s] = s
	return s
}
