package cqltap

import (
	"sync"

	"fencepost/harness/env/link"
)

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
