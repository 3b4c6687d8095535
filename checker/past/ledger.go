package past

import (
	"fmt"
	"slices"
	"sort"

	"fencepost/harness/record/history"
)

// The answers of the sink and to enqueues; see history.Event.Result.
const (
	ResultInbox     = "inbox"
	ResultApplied   = "applied"
	ResultDuplicate = "duplicate"
	ResultStale     = "stale"
	ResultConflict  = "conflict"
)

// Entry is one row of the sink's ledger.
type Entry struct {
	*history.LedgerEntry
	Event *history.Event
	By    []*Op // operations that explain it
}

// Sender is the operation that made an entry: of those that explain it the one whose answer names the
// entry, else the first with its token. The runs of a job share a key, and each has a token of its own. nil
// if nobody recorded it.
func (e *Entry) Sender() *Op {
	var first *Op
	for _, o := range e.By {
		if o.End != nil && o.End.Seq == e.Seq {
			return o
		}
		if first == nil || first.Invoke.Token != e.Token && o.Invoke.Token == e.Token {
			first = o
		}
	}
	return first
}

// Sink is everything about one resource of the sink.
type Sink struct {
	Name    string
	Ledger  []Entry // in the sink's order
	Raises  []*Op
	Effects []*Op
	Gets    []*Op
	Forgets []*Op
	answers []*history.Event // what links carried, if they are read
	Final   *Op              // the harness's last read
	Accepts map[string][]int // by key, indices into ledger
	Raised  map[GrantRef]int // by issuer and token, the first raise
	Tokens  map[GrantRef][]int
	// Missing says what is missing from the ledger; "" if it is complete.
	Missing       string
	MissingEvents []*history.Event
	top           map[string]int64 // highest token by issuer
}

type GrantRef struct {
	Issuer string
	Token  int64
}

// Calls are those that show a token: raises, then effects.
func (s *Sink) Calls() []*Op { return slices.Concat(s.Raises, s.Effects) }

// buildLedger orders the ledger and joins it with the operations.
func (a *Past) buildLedger(s *Sink) {
	sort.SliceStable(s.Ledger, func(i, j int) bool { return s.Ledger[i].Seq < s.Ledger[j].Seq })
	for _, g := range s.Gets {
		if g.Outcome == history.OK && g.Invoke.Proc == history.Harness && g.End.Value != nil {
			s.Final = g
		}
	}
	s.Accepts, s.Raised, s.Tokens, s.top = map[string][]int{}, map[GrantRef]int{}, map[GrantRef][]int{}, map[string]int64{}
	for i := range s.Ledger {
		e := &s.Ledger[i]
		s.Tokens[GrantRef{e.Issuer, e.Token}] = append(s.Tokens[GrantRef{e.Issuer, e.Token}], i)
		s.top[e.Issuer] = max(s.top[e.Issuer], e.Token)
		switch _, known := s.Raised[GrantRef{e.Issuer, e.Token}]; {
		case e.Kind == history.LedgerAccept:
			s.Accepts[e.EffectKey] = append(s.Accepts[e.EffectKey], i)
		case e.Kind == history.LedgerSeal:
			e.By = s.sealers(e)
		case !known:
			s.Raised[GrantRef{e.Issuer, e.Token}] = i
		}
	}
	for _, o := range s.Effects {
		for _, i := range s.Accepts[o.Invoke.EffectKey] {
			s.Ledger[i].By = append(s.Ledger[i].By, o)
		}
		if i, ok := s.Raised[GrantRef{o.Invoke.Issuer, o.Invoke.Token}]; ok {
			s.Ledger[i].By = append(s.Ledger[i].By, o) // an effect raises too
		}
	}
	for _, o := range s.Raises {
		if i, ok := s.Raised[GrantRef{o.Invoke.Issuer, o.Invoke.Token}]; ok {
			s.Ledger[i].By = append(s.Ledger[i].By, o)
		}
	}
	s.findMissing()
	for i := range s.Ledger {
		if e := &s.Ledger[i]; len(e.By) == 0 && (e.Kind != history.LedgerRaise || s.Raised[GrantRef{e.Issuer, e.Token}] == i) {
			a.Unrecorded = append(a.Unrecorded, Unrecorded{s.Name,
				fmt.Sprintf("ledger entry %d of %s (%s of token %d%s) is explained by no recorded operation: the record lacks events, or something "+
					"unrecorded writes to the sink", e.Seq, s.Name, e.Kind, e.Token, KeyText(e.EffectKey)), []*history.Event{e.Event}})
		}
	}
}

// sealers are the forgets that can have made an entry: the last one that was asked for before the
// entry was read, and those before it of which nobody knows when they were carried out.
func (s *Sink) sealers(e *Entry) (by []*Op) {
	for _, o := range s.Forgets { // by invocation
		if o.Invoke.TS < e.Event.TS {
			by = append(slices.DeleteFunc(by, func(o *Op) bool { return o.Outcome != history.Unknown }), o)
		}
	}
	return by
}

func KeyText(key string) string {
	if key == "" {
		return ""
	}
	return ", key " + key
}

// findMissing looks for missing entries: the sequence numbers are 1, 2, 3 … up to
// the one that the final read shows.
func (s *Sink) findMissing() {
	prev := int64(0)
	for e := range Each(s.Ledger) {
		if s.Missing == "" && e.Seq != prev+1 {
			s.Missing, s.MissingEvents = fmt.Sprintf("entry %d follows entry %d", e.Seq, prev), []*history.Event{e.Event}
		}
		prev = e.Seq
	}
	if s.Missing == "" && s.Final != nil && s.Final.End.Seq > prev {
		s.Missing, s.MissingEvents = fmt.Sprintf("it ends with entry %d, the final read shows %d", prev, s.Final.End.Seq), Events(s.Final)
	}
}

// WasRead says whether the ledger was read at all, so that what is not in it did
// not happen.
func (s *Sink) WasRead() bool { return s.Final != nil || len(s.Ledger) > 0 }

// EntryOf is the ledger index of what o did, or -1. An effect is identified by
// its key, a raise by its token.
func (s *Sink) EntryOf(o *Op) int {
	if o.Invoke.Op == history.OpEffect {
		if is := s.Accepts[o.Invoke.EffectKey]; len(is) > 0 {
			return is[0]
		}
		return -1
	}
	if i, ok := s.Raised[GrantRef{o.Invoke.Issuer, o.Invoke.Token}]; ok {
		return i
	}
	return -1
}

// Settled says whether the ledger decides an unknown raise or effect: it is in
// the ledger, or the sink has seen a higher token and can never take it any more.
func (s *Sink) Settled(o *Op) bool {
	return s.EntryOf(o) >= 0 || s.WasRead() && s.top[o.Invoke.Issuer] > o.Invoke.Token
}

// EntryBefore is the accepted effect before an entry, or nil.
func (s *Sink) EntryBefore(e *Entry) *Entry {
	var prev *Entry
	for x := range Each(s.Ledger) {
		if x.Kind == history.LedgerAccept && x.Seq < e.Seq {
			prev = x
		}
	}
	return prev
}

// DecidedBy says whether by then an effect can have been decided, as a run saw it: somebody
// had asked for it, and the run itself was not waiting for the answer. That of another run
// it may have seen in the sink.
func (s *Sink) DecidedBy(key string, run, by int64) bool {
	return slices.ContainsFunc(s.Effects, func(o *Op) bool {
		waits := o.Invoke.Token == run && o.End != nil && o.End.TS > by
		return o.Invoke.EffectKey == key && o.Invoke.TS <= by && !waits
	})
}

// fromAnswers makes the part of the ledger that applied effects and raises show: each
// answer has its entry's number. A raise to a token that was the highest already
// makes no entry and is answered with the last one; it says what had been seen by
// then, which is true of that place too.
func (s *Sink) fromAnswers() {
	read := map[int64]bool{} // before it was forgotten
	for _, e := range s.Ledger {
		read[e.Seq] = true
	}
	add := func(o *Op, kind string) {
		if o.Outcome != history.OK || o.End.Result != ResultApplied || o.End.Seq == 0 || read[o.End.Seq] {
			return
		}
		s.Ledger = append(s.Ledger, Entry{Event: o.End, LedgerEntry: &history.LedgerEntry{
			Seq: o.End.Seq, Kind: kind, Issuer: o.Invoke.Issuer, Token: o.Invoke.Token, EffectKey: o.Invoke.EffectKey, Value: o.Invoke.Value,
		}})
	}
	for _, o := range s.Raises {
		if o.End != nil && o.End.Seen == o.Invoke.Token {
			add(o, history.LedgerRaise)
		}
	}
	for _, o := range s.Effects {
		add(o, history.LedgerAccept)
	}
}
