package past

import (
	"cmp"
	"fmt"
	"slices"

	"fencepost/harness/record/history"
)

// Version is a version of a row. A row has one of each, so versions compare as pointers.
type Version struct {
	*history.Version
	Number int32    // among the row's, from 0, no row
	Place  int32    // in the chain, of the write that set it; noRowPlace, NotInChain
	SetBy  []*Write // that set it
	UsedBy []*Write // that name it
	Next   *Write   // the chain's write among UsedBy
	Shown  []Observation
	twin   *Version // another one with the same key
}

// Observation is an answer that showed a version: a SERIAL read's, or a rejection.
type Observation struct {
	*Op
	CAS *CAS // that was rejected; nil: it is a read
}

// Read is a SERIAL read that was answered.
type Read struct {
	*Op
	Version *Version
}

// Places of versions that no write of the chain has set.
const (
	noRowPlace = -1 // before the first
	NotInChain = -2
)

// versionKey tells versions apart but for those of a broken record.
type versionKey struct {
	attempt string
	beat    int64
}

// version is the row's for v.
func (l *Row) version(v *history.Version) *Version {
	v = plain(v)
	key := versionKey{v.Attempt, v.Beat}
	for x := l.byKey[key]; x != nil; x = x.twin {
		if *x.Version == *v {
			return x
		}
	}
	x := &Version{Version: v, Number: int32(len(l.Versions)), Place: NotInChain, twin: l.byKey[key]}
	if v.Absent {
		x.Place = noRowPlace
	}
	l.byKey[key] = x
	l.Versions = append(l.Versions, x)
	return x
}

// file files a CAS.
func (l *Row) file(o *Op) {
	c := &CAS{Op: *o, Row: l, From: l.version(o.Invoke.From), To: l.version(o.Invoke.To)}
	if row, ok := observed(o.End); ok {
		c.Shown = l.version(row)
		if o.Outcome == history.Fail {
			c.Shown.Shown = append(c.Shown.Shown, Observation{&c.Op, c})
		}
	}
	l.CAS = append(l.CAS, c)
}

// fileRead files a SERIAL read.
func (l *Row) fileRead(o *Op) {
	if row, ok := observed(o.End); ok {
		v := l.version(row)
		v.Shown = append(v.Shown, Observation{o, nil})
		l.Reads = append(l.Reads, Read{o, v})
	}
}

// inOrder sorts what showed the version by invocation.
func (v *Version) inOrder() {
	slices.SortStableFunc(v.Shown, func(a, b Observation) int { return cmp.Compare(a.Invoke.TS, b.Invoke.TS) })
}

// NoRow is the version of a row that is not there.
var NoRow = history.Version{Absent: true}

// plain is v in the one form that compares: all absent rows are equal, and so is a
// header that no batch has changed.
func plain(v *history.Version) *history.Version {
	if v.Absent || *v == (history.Version{Attempt: v.Attempt}) {
		return &NoRow
	}
	return v
}

// observed is the row that an end shows, if it shows one. A fail for another
// reason than a rejection (not sent, unavailable) names the reason and shows none.
func observed(e *history.Event) (row *history.Version, ok bool) {
	if e == nil || e.Row == nil || (e.Row.Absent && e.Error != "") {
		return nil, false
	}
	return e.Row, true
}

// text says a version in words.
func text(v *history.Version) string {
	switch {
	case v.Absent:
		return "no row"
	case v.Holder == "":
		return fmt.Sprintf("fence %d beat %d (free)", v.Fence, v.Beat)
	}
	return fmt.Sprintf("fence %d beat %d (%s, attempt %s)", v.Fence, v.Beat, v.Holder, ShortID(v.Attempt))
}

func ShortID(attempt string) string {
	if len(attempt) > 8 {
		return attempt[:8]
	}
	return attempt
}

// shown is the first answer that proves that the row was at v: a read of it, or a
// write that applied to it.
func (v *Version) FirstProof() *Op {
	var first *Op
	earlier := func(o *Op) {
		if first == nil || o.End.TS < first.End.TS {
			first = o
		}
	}
	for _, s := range v.Shown {
		if s.CAS == nil {
			earlier(s.Op)
		}
	}
	for _, w := range v.UsedBy {
		if c := w.OK(); c != nil {
			earlier(&c.Op)
		}
	}
	return first
}
