// Package bytetap keeps what programs say on links whose protocol the harness does not know,
// and when they said it: whether a request had been sent is then no program's own word.
package bytetap

import (
	"bytes"
	"errors"
	"slices"
	"sync"

	"fencepost/harness/env/link"
	"fencepost/harness/record/history"
)

const (
	// reach is how far before the last value of a request the others may be: a request may come
	// in two pieces.
	reach = 4 << 10
	// most bounds what is kept of all connections.
	most = 256 << 20
)

var errFull = errors.New("it carried more than the harness keeps")

// Tap reads any number of links. Safe for concurrent use.
type Tap struct {
	reason link.Unread

	mu   sync.Mutex
	said map[string][]*stream // by the side that opens connections
	kept int
}

var _ link.Tap = (*Tap)(nil)

// New returns a tap for links' Spec. unread is told once of a link on which more was said
// than is kept; nil: nobody is.
func New(unread func(l *link.Link, reason error)) *Tap {
	return &Tap{reason: link.Unread{Tell: unread}, said: map[string][]*stream{}}
}

// Open implements link.Tap.
func (t *Tap) Open(l *link.Link) link.Stream {
	s := &stream{tap: t, link: l}
	t.mu.Lock()
	t.said[l.From()] = append(t.said[l.From()], s)
	t.mu.Unlock()
	return s
}

// stream is what a connection said, by the side that opened it.
type stream struct {
	tap    *Tap
	link   *link.Link
	text   []byte
	pieces []piece
}

// piece ends somewhere in the text, and was said at once.
type piece struct {
	end int
	at  int64 // as history.Now
}

// Said keeps requests.
func (s *stream) Said(d link.Dir, b []byte) {
	if d != link.Up {
		return
	}
	t := s.tap
	t.mu.Lock()
	full := t.kept+len(b) > most
	if !full {
		t.kept += len(b)
		s.text = append(s.text, b...)
		s.pieces = append(s.pieces, piece{len(s.text), history.Now()})
	}
	t.mu.Unlock()
	if full {
		t.reason.Note(s.link, errFull)
	}
}

// Ended implements link.Stream.
func (s *stream) Ended() {}

// FirstWrite is when from first said something, since then, that has one of the forms of each
// of the values, as history.Now; 0: never. The last value is the one that tells this request from
// others: it counts where it ends.
func (t *Tap) FirstWrite(from string, since int64, values ...[][]byte) (first int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.said[from] {
		start := 0
		for _, p := range s.pieces {
			if p.at >= since && (first == 0 || p.at < first) && s.carries(start, p.end, values) {
				first = p.at
				break
			}
			start = p.end
		}
	}
	return first
}

// carries says that the last value ends in a piece, and that the others are in it or before.
func (s *stream) carries(start, end int, values [][][]byte) bool {
	within := func(from int, f []byte) bool { return len(f) > 0 && bytes.Contains(s.text[max(0, from):end], f) }
	last := len(values) - 1
	for _, forms := range values[:last] {
		if !slices.ContainsFunc(forms, func(f []byte) bool { return within(start-reach, f) }) {
			return false
		}
	}
	return slices.ContainsFunc(values[last], func(f []byte) bool { return within(start-len(f)+1, f) })
}
