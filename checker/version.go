package checker

import (
	"cmp"
	"slices"

	"fencepost/harness/record/history"
)

// version is a version of a row. A row has one of each, so versions compare as pointers.
type version struct {
	*history.Version
	number int32    // among the row's, from 0, no row
	place  int32    // in the chain, of the write that set it; noRowPlace, notInChain
	setBy  []*write // that set it
	usedBy []*write // that name it
	next   *write   // the chain's write among usedBy
	shown  []observation
	twin   *version // another one with the same key
}

// observation is an answer that showed a version: a SERIAL read's, or a rejection.
type observation struct {
	*op
	cas *cas // that was rejected; nil: it is a read
}

// read is a SERIAL read that was answered.
type read struct {
	*op
	row *version
}

// Places of versions that no write of the chain has set.
const (
	noRowPlace = -1 // before the first
	notInChain = -2
)

// versionKey tells versions apart but for those of a broken record.
type versionKey struct {
	attempt string
	beat    int64
}

// version is the row's for v.
func (l *rowLog) version(v *history.Version) *version {
	v = plain(v)
	key := versionKey{v.Attempt, v.Beat}
	for x := l.byKey[key]; x != nil; x = x.twin {
		if *x.Version == *v {
			return x
		}
	}
	x := &version{Version: v, number: int32(len(l.versions)), place: notInChain, twin: l.byKey[key]}
	if v.Absent {
		x.place = noRowPlace
	}
	l.byKey[key] = x
	l.versions = append(l.versions, x)
	return x
}

// file files a CAS.
func (l *rowLog) file(o *op) {
	c := &cas{op: *o, log: l, from: l.version(o.inv.From), to: l.version(o.inv.To)}
	if row, ok := observed(o.end); ok {
		c.row = l.version(row)
		if o.outcome == history.Fail {
			c.row.shown = append(c.row.shown, observation{&c.op, c})
		}
	}
	l.cas = append(l.cas, c)
}

// fileRead files a SERIAL read.
func (l *rowLog) fileRead(o *op) {
	if row, ok := observed(o.end); ok {
		v := l.version(row)
		v.shown = append(v.shown, observation{o, nil})
		l.reads = append(l.reads, read{o, v})
	}
}

// inOrder sorts what showed the version by invocation.
func (v *version) inOrder() {
	slices.SortStableFunc(v.shown, func(a, b observation) int { return cmp.Compare(a.inv.TS, b.inv.TS) })
}

// noRow is the version of a row that is not there.
var noRow = history.Version{Absent: true}

// plain is v in the one form that compares: all absent rows are equal, and so is a
// header that no batch has changed.
func plain(v *history.Version) *history.Version {
	if v.Absent || *v == (history.Version{Attempt: v.Attempt}) {
		return &noRow
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
