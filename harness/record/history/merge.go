package history

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
)

// minEvent is the length of the shortest event.
const minEvent = int64(len(`{"ts":1,"proc":"w","type":"note","op":"x"}`))

// part is one file of a history that is read as a whole.
type part struct {
	name  string
	size  int64
	lines int
	room  []Event // a stretch of the whole history's events
	read  *History
	err   error
}

// measure counts a file's lines, so that room for all events is made once: a
// history that grows while it is read, and is copied to be merged, takes two
// and a half times its size.
func measure(name string) (*part, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() { // a pipe can be read only once
		h, err := Read(f, name)
		if err != nil {
			return nil, err
		}
		return &part{name: name, lines: len(h.Events), read: h}, nil
	}
	p := &part{name: name, lines: 1}
	buf := make([]byte, 1<<16)
	for {
		n, err := f.Read(buf)
		p.size += int64(n)
		p.lines += bytes.Count(buf[:n], []byte{'\n'})
		if err == io.EOF {
			// A file of nothing but newlines is malformed, not large.
			p.lines = min(p.lines, int(p.size/minEvent)+1)
			return p, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// fill reads the part as long as it was when it was measured.
func (p *part) fill() {
	if p.read != nil {
		p.read.Events = append(p.room, p.read.Events...)
		return
	}
	f, err := os.Open(p.name)
	if err != nil {
		p.err = err
		return
	}
	defer f.Close()
	p.read, p.err = readInto(io.LimitReader(f, p.size), p.name, p.room, nil)
}

// readParts reads the files into one slice of events, several files at a time,
// and puts them in order where they are.
func readParts(parts []*part) (*History, error) {
	total := 0
	for _, p := range parts {
		total += p.lines
	}
	events := make([]Event, total)
	next := make(chan *part)
	var wg sync.WaitGroup
	for range min(len(parts), runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for p := range next {
				p.fill()
			}
		})
	}
	at := 0
	for _, p := range parts {
		p.room = events[at : at : at+p.lines]
		at += p.lines
		next <- p
	}
	close(next)
	wg.Wait()
	out := &History{}
	kept := events[:0]
	for _, p := range parts {
		if p.err != nil {
			return nil, p.err
		}
		if err := out.join(p.read); err != nil {
			return nil, err
		}
		kept = append(kept, p.read.Events...) // to the left, over what is unused
	}
	if len(out.Headers) == 0 {
		return nil, &FormatError{File: parts[0].name, Line: 1, Reason: "empty: there is no header in any file"}
	}
	clear(events[len(kept):])
	out.Events = kept
	out.order()
	if err := out.verify(); err != nil {
		return nil, err
	}
	return out, nil
}

// Merge puts the histories of several processes of one run together.
func Merge(hs ...*History) (*History, error) {
	out := &History{}
	total := 0
	for _, h := range hs {
		total += len(h.Events)
	}
	out.Events = make([]Event, 0, total)
	for _, h := range hs {
		if err := out.join(h); err != nil {
			return nil, err
		}
		out.Events = append(out.Events, h.Events...)
	}
	out.order()
	return out, nil
}

// join adds all but the events of another history of the same run.
func (h *History) join(other *History) error {
	for _, head := range other.Headers {
		if len(h.Headers) > 0 {
			first := h.Headers[0]
			if head.Run != first.Run {
				return fmt.Errorf("histories of different runs: %q and %q", first.Run, head.Run)
			}
			if head.BootID != first.BootID {
				return fmt.Errorf(
					"histories of different boots or hosts (%s on %s, %s on %s): their monotonic clocks cannot be compared",
					first.BootID, first.Host, head.BootID, head.Host)
			}
		}
		for _, prev := range h.Headers {
			if prev.Proc == head.Proc {
				return fmt.Errorf("two histories claim the process life %q (%s)", head.Proc, prev.Host)
			}
		}
		h.Headers = append(h.Headers, head)
	}
	h.Torn += other.Torn
	return nil
}

// order sorts the events by time, stably. Only their places are sorted, then
// each event is moved once: it is large, and a second slice of them larger.
func (h *History) order() {
	type place struct {
		ts   int64
		from int32
	}
	places := make([]place, len(h.Events))
	for i := range h.Events {
		places[i] = place{h.Events[i].TS, int32(i)}
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.ts != b.ts {
			return cmp.Compare(a.ts, b.ts)
		}
		return cmp.Compare(a.from, b.from)
	})
	for i := range places {
		if places[i].from == int32(i) {
			continue
		}
		// Follow the cycle that begins here.
		first := h.Events[i]
		to := int32(i)
		for {
			from := places[to].from
			places[to].from = to
			if from == int32(i) {
				h.Events[to] = first
				break
			}
			h.Events[to] = h.Events[from]
			to = from
		}
	}
}
