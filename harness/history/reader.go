package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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
	var all []*History
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		h, err := Read(f, name)
		f.Close()
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return Merge(all...)
}

// Read reads one history file. A torn last line (no newline, not a whole
// event) is dropped and counted; anything else malformed is a *FormatError.
func Read(r io.Reader, name string) (*History, error) {
	h := &History{}
	br := bufio.NewReaderSize(r, 1<<16)
	open := map[int64]Event{}
	names := interner{}
	for n := 1; ; n++ {
		line, whole, err := readLine(br)
		if err == io.EOF {
			break
		}
		bad := func(format string, args ...any) error {
			return &FormatError{File: name, Line: n, Reason: fmt.Sprintf(format, args...)}
		}
		if err != nil {
			return nil, bad("%v", err)
		}
		if n == 1 {
			var head Header
			if err := strictDecode(line, &head); err != nil {
				if !whole {
					return nil, bad("torn header: the file holds no history")
				}
				return nil, bad("header: %v", err)
			}
			if head.Format != Format {
				return nil, bad("header: format is %q, want %q", head.Format, Format)
			}
			if head.Version != FormatVersion {
				return nil, bad("header: format version %d is not supported (this tool reads version %d)", head.Version, FormatVersion)
			}
			h.Headers = append(h.Headers, head)
			continue
		}
		var e Event
		if err := strictDecode(line, &e); err != nil {
			if !whole {
				h.Torn++
				break
			}
			return nil, bad("%v", err)
		}
		e.File, e.Line = name, n
		names.intern(&e)
		if err := validate(&e, open); err != nil {
			return nil, bad("%v", err)
		}
		h.Events = append(h.Events, e)
	}
	if len(h.Headers) == 0 {
		return nil, &FormatError{File: name, Line: 1, Reason: "empty file: no header"}
	}
	return h, nil
}

// readLine returns a line without its newline and whether the newline was there.
func readLine(br *bufio.Reader) (line []byte, whole bool, err error) {
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

// strictDecode refuses unknown fields and trailing data: a misspelt field would
// otherwise be a fact silently lost.
func strictDecode(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("not a valid event: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("data after the event")
	}
	return nil
}

// validate checks what later stages rely on; open holds this file's operations
// without an end.
func validate(e *Event, open map[int64]Event) error {
	if e.TS <= 0 {
		return errors.New("ts missing or not positive")
	}
	if e.Proc == "" || e.Op == "" {
		return errors.New("proc or op missing")
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
		case OpAcquire, OpRenew, OpRelease, OpSeal:
			if e.From == nil || e.To == nil {
				return fmt.Errorf("%s invoke without from and to", e.Op)
			}
		}
		open[e.ID] = *e
		return nil
	case OK, Fail, Unknown:
		inv, ok := open[e.ID]
		if !ok {
			return fmt.Errorf("%s of id %d without its invoke before it", e.Type, e.ID)
		}
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

// Merge puts the histories of several processes of one run together.
func Merge(hs ...*History) (*History, error) {
	out := &History{}
	procs := map[string]string{}
	total := 0
	for _, h := range hs {
		total += len(h.Events)
	}
	out.Events = make([]Event, 0, total)
	for _, h := range hs {
		for _, head := range h.Headers {
			if len(out.Headers) > 0 {
				first := out.Headers[0]
				if head.Run != first.Run {
					return nil, fmt.Errorf("histories of different runs: %q and %q", first.Run, head.Run)
				}
				if head.BootID != first.BootID {
					return nil, fmt.Errorf("histories of different boots or hosts (%s on %s, %s on %s): their monotonic clocks cannot be compared", first.BootID, first.Host, head.BootID, head.Host)
				}
			}
			if prev, dup := procs[head.Proc]; dup {
				return nil, fmt.Errorf("two histories claim the process life %q (%s)", head.Proc, prev)
			}
			procs[head.Proc] = head.Host
			out.Headers = append(out.Headers, head)
		}
		out.Events = append(out.Events, h.Events...)
		out.Torn += h.Torn
	}
	sort.SliceStable(out.Events, func(i, j int) bool { return out.Events[i].TS < out.Events[j].TS })
	return out, nil
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
}

func (in interner) one(s string) string {
	if t, ok := in[s]; ok {
		return t
	}
	in[s] = s
	return s
}
