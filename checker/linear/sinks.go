package linear

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// sinkState is a resource of the sink in the model: the highest token seen, the
// value, and the number of the last decision.
type sinkState struct {
	seen, value, seq int64
	blank            bool // the value is not known (see anySink)
}

// anySink is the state of a model that starts in the middle of a history: what
// is observed first defines it.
var anySink = sinkState{seen: -1, blank: true}

func hashSink(state any) uint64 {
	s := state.(sinkState)
	return hashInt(uint64(s.seen)<<40 ^ uint64(s.value)<<20 ^ uint64(s.seq))
}

type sinkKind uint8

const (
	sinkRaise     sinkKind = iota
	sinkApply              // an effect that was applied
	sinkDuplicate          // an effect that had been applied by another call
	sinkStale
	sinkGet
)

// sinkStep is one call of the sink.
type sinkStep struct {
	of    *past.Op
	kind  sinkKind
	token int64
	value int64
	seen  int64 // stale and get: what was answered; 0 is not compared by get
	seq   int64 // by the ledger; 0 if it has no entry
	// optional: its answer is not known; see rows.go.
	optional bool
}

func (s *sinkStep) apply(state any) (bool, any) {
	if state == closed {
		return s.optional, state
	}
	st := state.(sinkState)
	ok, next := s.step(st)
	if !ok && s.optional {
		return true, st
	}
	return ok, next
}

func (s *sinkStep) step(st sinkState) (bool, sinkState) {
	switch s.kind {
	case sinkRaise:
		if s.token < st.seen || s.token > st.seen && s.seq != 0 && s.seq <= st.seq {
			return false, st
		}
		// After a seal the first raise to its token has an entry too.
		st.seen, st.seq = s.token, max(st.seq, s.seq)
	case sinkApply:
		if s.token < st.seen || s.seq != 0 && s.seq <= st.seq {
			return false, st
		}
		st = sinkState{seen: s.token, value: s.value, seq: max(st.seq, s.seq)}
	case sinkDuplicate:
		if s.seq > st.seq && st.seen >= 0 {
			return false, st
		}
		st.seen = max(st.seen, s.token)
	case sinkStale:
		if st.seen < 0 {
			st.seen = s.seen
		}
		return st.seen > s.token && st.seen == s.seen, st
	case sinkGet:
		if st.seen < 0 && s.seen != 0 {
			st.seen = s.seen
		}
		if st.blank {
			st.blank, st.value = false, s.value
		}
		return st.value == s.value && (s.seen == 0 || st.seen == s.seen), st
	}
	return true, st
}

func (s *sinkStep) source() *past.Op { return s.of }

func (s *sinkStep) observes() bool { return s.kind >= sinkDuplicate }

func (s *sinkStep) pending() step {
	c := *s
	c.optional = true
	return &c
}

func (s *sinkStep) String() string {
	proc := s.of.Invoke.Proc
	switch s.kind {
	case sinkRaise:
		return fmt.Sprintf("%s: raise %d", proc, s.token)
	case sinkApply:
		return fmt.Sprintf("%s: token %d writes %d", proc, s.token, s.value)
	case sinkDuplicate:
		return fmt.Sprintf("%s: token %d, duplicate", proc, s.token)
	case sinkStale:
		return fmt.Sprintf("%s: token %d stale, seen %d", proc, s.token, s.seen)
	}
	return fmt.Sprintf("%s: get %d, seen %d", proc, s.value, s.seen)
}

// OfSink makes the partition of a resource. The ledger settles what is unknown. tokens: the sink checks them,
// and knows that of a duplicate from then on; one that does not check them takes no notice of it.
func OfSink(s *past.Sink, clean, tokens bool) *Partition {
	return &Partition{
		Name: s.Name, any: anySink, Size: len(s.Raises) + len(s.Effects) + len(s.Gets), clean: clean, hash: hashSink,
		show: func(st any) string {
			x := st.(sinkState)
			return fmt.Sprintf("seen %d, value %d", x.seen, x.value)
		},
		Segments: func(yield func(segment) bool) { segments(s, clean, tokens, yield) },
	}
}

// placedOperation is an operation with its place in the ledger, -1 if it changes nothing.
type placedOperation struct {
	porcupine.Operation
	place int
}

// segments are a resource's history cut where nothing is in flight: what is in the ledger
// before such an instant is then exactly a prefix of it, so the state is known. If the
// linear-time checks found something that is not certain, and it is one segment.
func segments(s *past.Sink, clean, tokens bool, yield func(segment) bool) {
	all, states := encode(s, tokens), statesOf(s)
	var seg segment
	seg.init = sinkState{}
	place, quiet := -1, int64(math.MinInt64)
	for _, o := range all {
		if clean && len(seg.ops) >= SegmentOps && o.Call > quiet {
			state := states[place+1]
			seg.ops = append(seg.ops, operation(&closing{state: state}, quiet+1, quiet+1))
			if !yield(seg) {
				return
			}
			seg = segment{init: state}
		}
		seg.ops = append(seg.ops, o.Operation)
		quiet, place = max(quiet, o.Return), max(place, o.place)
	}
	yield(seg)
}

// encode makes the operations of a resource, by call.
func encode(s *past.Sink, tokens bool) []placedOperation {
	out := make([]placedOperation, 0, len(s.Raises)+len(s.Effects)+len(s.Gets))
	by := bounds(s)
	add := func(x *sinkStep, call, ret int64, place int) {
		if x.kind == sinkDuplicate && !tokens {
			x.token = 0
		}
		out = append(out, placedOperation{operation(x, call, ret), place})
	}
	for _, o := range s.Calls() {
		encodeCall(s, add, o, by)
	}
	for i := range s.Ledger {
		encodeSeal(s, add, i)
	}
	for _, o := range s.Gets {
		if o.Outcome == history.OK && o.End.Value != nil {
			add(&sinkStep{of: o, kind: sinkGet, value: *o.End.Value, seen: o.End.Seen}, o.Invoke.TS, o.End.TS, -1)
		}
	}
	slices.SortStableFunc(out, func(x, y placedOperation) int { return cmp.Compare(x.Call, y.Call) })
	return out
}

// encodeSeal makes a raise of a seal, by the forgets that can have made it.
func encodeSeal(s *past.Sink, add func(x *sinkStep, call, ret int64, place int), i int) {
	e := &s.Ledger[i]
	if e.Kind != history.LedgerSeal || len(e.By) == 0 {
		return
	}
	last := e.By[len(e.By)-1]
	ret := e.Event.TS // it was read then
	if last.Outcome == history.OK {
		ret = min(ret, last.End.TS)
	}
	add(&sinkStep{of: last, kind: sinkRaise, token: e.Token, seq: e.Seq}, e.By[0].Invoke.TS, ret, i)
}

func encodeCall(s *past.Sink, add func(x *sinkStep, call, ret int64, place int), o *past.Op, by []int64) {
	i := s.EntryOf(o)
	x := &sinkStep{of: o, kind: sinkRaise, token: o.Invoke.Token}
	effect := o.Invoke.Op == history.OpEffect
	if effect {
		x.kind = sinkApply
	}
	if effect && o.Invoke.Value != nil {
		x.value = *o.Invoke.Value
	}
	if i >= 0 {
		x.seq = s.Ledger[i].Seq
	}
	switch {
	case effect && o.Outcome == history.OK && o.End.Result == past.ResultDuplicate && (i < 0 || maker(s, i) != o):
		x.kind = sinkDuplicate
		add(x, o.Invoke.TS, o.End.TS, -1)
	case o.Outcome == history.OK:
		add(x, o.Invoke.TS, o.End.TS, i)
	case o.Outcome == history.Fail && o.End.Result == past.ResultStale:
		x.kind, x.seen = sinkStale, o.End.Seen
		add(x, o.Invoke.TS, o.End.TS, -1)
	case o.Outcome == history.Unknown && i >= 0 && maker(s, i) == o:
		add(x, o.Invoke.TS, by[i], i)
	}
}

// maker is the call that stands for an entry that no answer explains: of those that
// can have made it the first. Calls with one key are told apart by their tokens; if
// they have one token too, the first can have done whatever any of them did. A duplicate
// may be one of an earlier copy of the same call.
func maker(s *past.Sink, i int) *past.Op {
	e := &s.Ledger[i]
	if len(e.By) == 1 {
		return e.By[0]
	}
	var first *past.Op
	for _, o := range e.By {
		switch {
		case o.Invoke.Token != e.Token || o.Invoke.Issuer != e.Issuer || o.Outcome == history.Fail:
		case o.Outcome == history.OK && o.End.Result == past.ResultApplied && (o.Invoke.Op == history.OpRaise) == (e.Kind == history.LedgerRaise):
			return nil // its answer explains it
		case first == nil || o.Invoke.TS < first.Invoke.TS:
			first = o
		}
	}
	return first
}

// bounds are, by ledger entry, the latest instant at which it can have been
// made: before the answers about it and about all later entries.
func bounds(s *past.Sink) []int64 {
	out := make([]int64, len(s.Ledger))
	t := int64(history.Forever)
	for i := len(s.Ledger) - 1; i >= 0; i-- {
		for _, o := range s.Ledger[i].By {
			if o.Outcome == history.OK && (o.Invoke.Op == history.OpRaise) == (s.Ledger[i].Kind == history.LedgerRaise) {
				t = min(t, o.End.TS)
			}
		}
		out[i] = t
	}
	return out
}

// statesOf are the states before the first entry of the ledger and after each.
func statesOf(s *past.Sink) []sinkState {
	out := make([]sinkState, 1, len(s.Ledger)+1)
	var st sinkState
	for _, e := range s.Ledger {
		st.seen, st.seq = max(st.seen, e.Token), e.Seq
		if e.Kind == history.LedgerAccept && e.Value != nil {
			st.value = *e.Value
		}
		out = append(out, st)
	}
	return out
}
