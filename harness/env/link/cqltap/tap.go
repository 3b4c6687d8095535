package cqltap

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"

	"fencepost/harness/env/link"
	"fencepost/harness/record/history"
)

// Shape is a statement as it was sent, without its values.
type Shape struct {
	// CQL is the text as it was first sent; of a batch its distinct statements between BEGIN
	// and APPLY BATCH.
	CQL string
	// Consistency is that of the request, SerialConsistency "" if the request names none
	// (the node then takes SERIAL).
	Consistency, SerialConsistency string
	// Place is where it was sent (Options.Place).
	Place string
}

// SerialRead is a read that takes part in consensus: a SELECT at SERIAL or LOCAL_SERIAL.
type SerialRead struct {
	// Table is the one that it reads, without its keyspace.
	Table string
	// Row is the first value that it carries, bound or written into its text, "" if that is no
	// text or there is none.
	Row string
}

// Options are what a tap tells of. Its functions are called from the links' own goroutines:
// they must be quick and safe for concurrent use. Nil: nobody is told.
type Options struct {
	// Place names where a link leads; uses in different places are told apart. Nil: nowhere
	// in particular.
	Place func(l *link.Link) string
	// Shape is called at the first use of a shape by a side that opens connections (link.From).
	Shape func(from string, s Shape)
	// Serial is called at every read that takes part in consensus.
	Serial func(from string, r SerialRead)
	// Unread is told once of a link and a reason for which some of what it carries cannot be
	// read.
	Unread func(l *link.Link, reason error)
	// Writes keeps what every write carried, for FirstWrite: 100 bytes a write.
	Writes bool
}

// Notes are options that note shapes and reads as the record of a run has them. note fills in
// whose they are.
func Notes(note func(history.Event)) Options {
	return Options{
		Shape: func(from string, s Shape) {
			note(history.Event{Op: history.NoteStatement, Key: from, Details: &history.Details{Statement: &history.Statement{
				CQL: s.CQL, Consistency: s.Consistency, SerialConsistency: s.SerialConsistency, Datacenter: s.Place,
			}}})
		},
		Serial: func(from string, r SerialRead) {
			note(history.Event{Op: history.NoteSerial, Key: from, Details: &history.Details{SerialRead: &history.SerialRead{
				Table: r.Table, Row: r.Row,
			}}})
		},
	}
}

// maxShapes bounds what is kept: no program has so many statements.
const maxShapes = 4096

var errShapes = fmt.Errorf("it carries more than %d different statements", maxShapes)

// Tap reads any number of links. Safe for concurrent use.
type Tap struct {
	opt    Options
	reason link.Unread

	mu     sync.Mutex
	texts  texts
	shapes map[use]struct{}
	links  map[string]*account
	writes writes
}

var _ link.Tap = (*Tap)(nil)

// use is one way in which one origin uses a statement.
type use struct {
	from, place   string
	text          *text
	level, serial uint16
}

// New returns a tap for links' Spec.
func New(o Options) *Tap {
	return &Tap{
		opt: o, reason: link.Unread{Tell: o.Unread}, texts: newTexts(), shapes: map[use]struct{}{}, links: map[string]*account{}, writes: writes{},
	}
}

// Open implements link.Tap.
func (t *Tap) Open(l *link.Link) link.Stream {
	a := t.account(l)
	a.mu.Lock()
	a.opened = true
	a.mu.Unlock()
	return &conn{tap: t, link: a, pending: map[int16]request{}}
}

// see tells of a statement if it is new, and keeps what a write carried.
func (t *Tap) see(a *account, s statement) {
	u := use{a.link.From(), a.place, s.text, s.level, s.serial}
	t.mu.Lock()
	if s.values != nil {
		t.writes.add(u.from, s.values)
	}
	_, old := t.shapes[u]
	full := s.text == t.texts.more || !old && len(t.shapes) >= maxShapes
	if !full {
		t.shapes[u] = struct{}{}
	}
	t.mu.Unlock()
	switch {
	case full:
		t.unread(a.link, errShapes)
	case !old && t.opt.Shape != nil:
		t.opt.Shape(u.from, Shape{CQL: s.text.cql, Consistency: level(s.level), SerialConsistency: serial(s.serial), Place: a.place})
	}
	if !full && t.opt.Serial != nil && s.text.reads != "" && (s.level == levelSerial || s.level == levelLocalSerial) {
		t.opt.Serial(u.from, SerialRead{Table: s.text.reads, Row: rowText(s.first)})
	}
}

// longestRow bounds what a row is called.
const longestRow = 256

// rowText is a value as the name of a row, "" if it is no text.
func rowText(b []byte) string {
	if len(b) > longestRow || !utf8.Valid(b) || slices.ContainsFunc([]rune(string(b)), unicode.IsControl) {
		return ""
	}
	return string(b)
}

func (t *Tap) unread(l *link.Link, why error) {
	if errors.Is(why, errForeign) {
		why = errForeign
	}
	t.reason.Note(l, why)
}

// levels are the protocol's consistencies by number.
var levels = []string{"ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_QUORUM", "EACH_QUORUM", "SERIAL", "LOCAL_SERIAL", "LOCAL_ONE"}

// Levels of reads that take part in consensus.
const (
	levelSerial      = 8
	levelLocalSerial = 9
)

func level(n uint16) string {
	if int(n) < len(levels) {
		return levels[n]
	}
	return fmt.Sprintf("0x%04x", n)
}

// noSerial stands for a request that names no serial consistency.
const noSerial = 0xffff

func serial(n uint16) string {
	if n == noSerial {
		return ""
	}
	return level(n)
}

// Counts are the whole frames that a link was given, whatever became of them on it: an answer
// counts when the node has said it, though a fault may drop it.
type Counts struct {
	// Requests are by opcode, Answers by the opcode of the request that they answer. Events
	// are neither.
	Requests, Answers [opcodes]int64
}

// statements are the opcodes that read or change rows: no heartbeats, no setting up.
var statements = []Opcode{OpQuery, OpExecute, OpBatch}

// Asked is how many requests read or change rows.
func (c Counts) Asked() int64 { return sum(c.Requests) }

// Answered is how many such requests the node has answered.
func (c Counts) Answered() int64 { return sum(c.Answers) }

func sum(by [opcodes]int64) (n int64) {
	for _, op := range statements {
		n += by[op]
	}
	return n
}

// Counts is what a link was given so far.
func (t *Tap) Counts(l *link.Link) Counts {
	a := t.account(l)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts
}

// Counted says whether connections came over the link, and all that they carried is in its
// counts.
func (t *Tap) Counted(l *link.Link) bool {
	a := t.account(l)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.opened && !a.uncounted
}

// account is one link's.
type account struct {
	link      *link.Link
	place     string
	mu        sync.Mutex
	counts    Counts
	opened    bool
	uncounted bool // some of what it carried
}

func (t *Tap) account(l *link.Link) *account {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.links[l.Name()]
	if a == nil {
		a = &account{link: l}
		if t.opt.Place != nil {
			a.place = t.opt.Place(l)
		}
		t.links[l.Name()] = a
	}
	return a
}

func (a *account) asked(op Opcode) {
	a.mu.Lock()
	a.counts.Requests[op]++
	a.mu.Unlock()
}

func (a *account) answered(op Opcode) {
	a.mu.Lock()
	a.counts.Answers[op]++
	a.mu.Unlock()
}
