package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Remark is something that a well-formed history lacks or has wrong. A run with one is
// INVALID (P14): it cannot be told what it shows.
type Remark struct {
	Kind RemarkKind
	Life string // whose record it is about; "": the run's
	File string
	Line int // 0: of the file as a whole
	Text string
	More int // of the same kind in this file
	// Events show the first of them.
	Events []*Event
}

// RemarkKind says what follows from a remark.
type RemarkKind int

// Kinds of remarks.
const (
	Wrong RemarkKind = iota // the writer is at fault: what it says means something else than it takes it to mean
	Lost                    // the record lacks events: what they would explain cannot be held against anybody
	Late                    // a call was recorded after its request had left: no order in time can be relied on
)

func (r Remark) String() string {
	at := r.File
	if r.Line > 0 {
		at = fmt.Sprintf("%s:%d", r.File, r.Line)
	}
	return fmt.Sprintf("%s: %s", at, r.Message())
}

// Message is the remark without its place.
func (r Remark) Message() string {
	if r.More > 0 {
		return fmt.Sprintf("%s (and %d more)", r.Text, r.More)
	}
	return r.Text
}

// Findings are what Lint finds.
type Findings struct {
	Remarks []Remark
	// Doubt: numbers are missing that the death of their process explains: it may have
	// drawn them without having recorded anything.
	Doubt bool
}

// Lint holds each file of h against the rules for writers, as far as a file by itself can
// break them: the very rules of P14, which demands in addition what only a whole run has.
// What the reader refuses never gets here.
func Lint(h *History) Findings {
	lives := map[string]*lint{}
	for _, head := range h.Headers {
		lives[head.Proc] = newLint(head)
	}
	for i := range h.Events {
		e := &h.Events[i]
		if l := lives[Life(e.Proc)]; l != nil {
			l.event(e)
		}
	}
	vanishing(h, lives)
	var out Findings
	idle := map[string]*lint{} // of workers that have recorded nothing in any life
	var busy []string
	operations, jobs, released, completed := 0, false, 0, 0
	for _, name := range slices.Sorted(maps.Keys(lives)) {
		l := lives[name]
		l.end()
		out.Remarks, out.Doubt = append(out.Remarks, l.remarks...), out.Doubt || l.doubt
		if idle[Worker(name)] = l; len(l.invokes) > 0 || name == Harness {
			busy = append(busy, Worker(name))
		}
		operations, jobs, released, completed = operations+len(l.invokes), jobs || l.jobs, released+l.released, completed+l.completed
	}
	for _, w := range busy {
		delete(idle, w)
	}
	for _, w := range slices.Sorted(maps.Keys(idle)) {
		out.Remarks = append(out.Remarks, Remark{Life: idle[w].head.Proc, File: idle[w].name(), Text: fmt.Sprintf("worker %s has recorded no operation", w)})
	}
	switch {
	case jobs && completed == 0:
		out.Remarks = append(out.Remarks, Remark{File: "the run", Text: fmt.Sprintf("no job was completed (%d operations)", operations)})
	case !jobs && released == 0:
		out.Remarks = append(out.Remarks, Remark{File: "the run", Text: fmt.Sprintf("no lock cycle was completed: no release is ok (%d operations)", operations)})
	}
	return out
}

// Tally counts a life's operations by kind and outcome, in words.
func Tally(h *History, proc string) string {
	ops := map[Op]map[Type]int{}
	for _, o := range h.Operations() {
		if Life(o.Invoke.Proc) != proc {
			continue
		}
		if ops[o.Invoke.Op] == nil {
			ops[o.Invoke.Op] = map[Type]int{}
		}
		ops[o.Invoke.Op][o.Outcome]++
	}
	var words []string
	for _, op := range slices.Sorted(maps.Keys(ops)) {
		var of []string
		for _, t := range []Type{OK, Fail, Unknown} {
			if n := ops[op][t]; n > 0 {
				of = append(of, fmt.Sprintf("%d %s", n, t))
			}
		}
		words = append(words, fmt.Sprintf("%s %s", op, strings.Join(of, " + ")))
	}
	return strings.Join(words, ", ")
}
