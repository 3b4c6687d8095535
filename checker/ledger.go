package checker

import (
	"fmt"
	"sort"

	"fencepost/harness/record/history"
)

// The sink's answers; see history.Event.Result.
const (
	resultApplied   = "applied"
	resultDuplicate = "duplicate"
	resultStale     = "stale"
	resultConflict  = "conflict"
)

// entry is one row of the sink's ledger.
type entry struct {
	*history.LedgerEntry
	ev *history.Event
	by []*op // operations that explain it
}

// sinkLog is everything about one resource of the sink.
type sinkLog struct {
	name    string
	ledger  []entry // in the sink's order
	raises  []*op
	effects []*op
	gets    []*op
	answers []*history.Event // what links carried, if they are read
	final   *op              // the harness's last read
	accepts map[string][]int // by key, indices into ledger
	raised  map[grantRef]int // by issuer and token, the first raise
	tokens  map[grantRef][]int
	// hole says what is missing from the ledger; "" if it is complete.
	hole       string
	holeEvents []*history.Event
	top        map[string]int64 // highest token by issuer
}

type grantRef struct {
	issuer string
	token  int64
}

// buildLedger orders the ledger and joins it with the operations.
func (a *past) buildLedger(s *sinkLog) {
	sort.SliceStable(s.ledger, func(i, j int) bool { return s.ledger[i].Seq < s.ledger[j].Seq })
	for _, g := range s.gets {
		if g.outcome == history.OK && g.inv.Proc == history.Harness && g.end.Value != nil {
			s.final = g
		}
	}
	s.accepts, s.raised, s.tokens, s.top = map[string][]int{}, map[grantRef]int{}, map[grantRef][]int{}, map[string]int64{}
	for i := range s.ledger {
		e := &s.ledger[i]
		s.tokens[grantRef{e.Issuer, e.Token}] = append(s.tokens[grantRef{e.Issuer, e.Token}], i)
		s.top[e.Issuer] = max(s.top[e.Issuer], e.Token)
		if e.Kind == history.LedgerAccept {
			s.accepts[e.EffectKey] = append(s.accepts[e.EffectKey], i)
		} else if _, known := s.raised[grantRef{e.Issuer, e.Token}]; !known {
			s.raised[grantRef{e.Issuer, e.Token}] = i
		}
	}
	for _, o := range s.effects {
		for _, i := range s.accepts[o.inv.EffectKey] {
			s.ledger[i].by = append(s.ledger[i].by, o)
		}
		if i, ok := s.raised[grantRef{o.inv.Issuer, o.inv.Token}]; ok {
			s.ledger[i].by = append(s.ledger[i].by, o) // an effect raises too
		}
	}
	for _, o := range s.raises {
		if i, ok := s.raised[grantRef{o.inv.Issuer, o.inv.Token}]; ok {
			s.ledger[i].by = append(s.ledger[i].by, o)
		}
	}
	s.findHole()
	for i := range s.ledger {
		if e := &s.ledger[i]; len(e.by) == 0 && (e.Kind == history.LedgerAccept || s.raised[grantRef{e.Issuer, e.Token}] == i) {
			a.stray = append(a.stray, stray{s.name, fmt.Sprintf("ledger entry %d of %s (%s of token %d%s) is explained by no recorded operation: the record lacks events, or something unrecorded writes to the sink", e.Seq, s.name, e.Kind, e.Token, keyText(e.EffectKey)), []*history.Event{e.ev}})
		}
	}
}

func keyText(key string) string {
	if key == "" {
		return ""
	}
	return ", key " + key
}

// findHole looks for missing entries: the sequence numbers are 1, 2, 3 … up to
// the one that the final read shows.
func (s *sinkLog) findHole() {
	prev := int64(0)
	for i := range s.ledger {
		e := &s.ledger[i]
		if s.hole == "" && e.Seq != prev+1 {
			s.hole, s.holeEvents = fmt.Sprintf("entry %d follows entry %d", e.Seq, prev), []*history.Event{e.ev}
		}
		prev = e.Seq
	}
	if s.hole == "" && s.final != nil && s.final.end.Seq > prev {
		s.hole, s.holeEvents = fmt.Sprintf("it ends with entry %d, the final read shows %d", prev, s.final.end.Seq), both(s.final)
	}
}

// read says whether the ledger was read at all, so that what is not in it did
// not happen.
func (s *sinkLog) read() bool { return s.final != nil || len(s.ledger) > 0 }

// entryOf is the ledger index of what o did, or -1. An effect is identified by
// its key, a raise by its token.
func (s *sinkLog) entryOf(o *op) int {
	if o.inv.Op == history.OpEffect {
		if is := s.accepts[o.inv.EffectKey]; len(is) > 0 {
			return is[0]
		}
		return -1
	}
	if i, ok := s.raised[grantRef{o.inv.Issuer, o.inv.Token}]; ok {
		return i
	}
	return -1
}

// settled says whether the ledger decides an unknown raise or effect: it is in
// the ledger, or the sink has seen a higher token and can never take it any more.
func (s *sinkLog) settled(o *op) bool {
	return s.entryOf(o) >= 0 || s.read() && s.top[o.inv.Issuer] > o.inv.Token
}
