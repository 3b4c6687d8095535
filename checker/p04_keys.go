package checker

import (
	"maps"
	"slices"

	"fencepost/harness/record/history"
)

// lostEffects: effects that were answered as applied and are not in the ledger. Either
// they were never done, or the ledger was emptied since.
func (x *inquiry) lostEffects() {
	var undone, gone []*op
	numbered, answered := 0, 0
	where := map[*op]*sinkLog{}
	for _, s := range x.a.sinks {
		if !s.read() {
			continue
		}
		for _, o := range s.effects {
			if o.outcome != history.OK || o.end.Result != resultApplied {
				continue
			}
			if answered++; o.end.Seq > 0 {
				numbered++
			}
			where[o] = s
			switch {
			case s.entryOf(o) >= 0:
			case o.end.Seq > 0 && slices.ContainsFunc(s.ledger, func(e entry) bool { return e.Seq == o.end.Seq }):
				gone = append(gone, o) // its number was given again
			default:
				undone = append(undone, o)
			}
		}
	}
	if len(gone) > 0 {
		o := gone[0]
		s := where[o]
		sus := x.suspect("ledger-emptied", shown, len(gone), "%s of %s missing from the ledger, and their numbers were given again: entry %d is another", plural(len(gone), "effect")+are(len(gone)), s.name, o.end.Seq)
		chain := []Step{x.step(RoleBefore, o.end, "effect %s of %s is applied as entry %d", o.inv.EffectKey, o.inv.Proc, o.end.Seq)}
		for i := range s.ledger {
			if e := &s.ledger[i]; e.Seq == o.end.Seq && len(e.by) > 0 {
				chain = append(chain, x.step(RoleMistake, e.by[0].inv, "the entry of that number is of %s by %s", e.by[0].inv.Op, e.by[0].inv.Proc))
			}
		}
		sus.show(s.name, o.end.TS, []string{o.inv.Proc}, chain...)
	}
	if len(undone) == 0 {
		return
	}
	died := 0
	for _, o := range undone {
		if _, crashed := x.a.deathOf(history.Life(o.inv.Proc)); crashed {
			died++
		}
	}
	o, w := undone[0], possible
	if died*2 > len(undone) {
		w = fits
	}
	if numbered == 0 {
		w = shown
	}
	sus := x.suspect("acknowledged-before-done", w, len(undone), "%s answered as applied and never in the ledger; the processes of %d of them died afterwards", were(len(undone), "effect"), died)
	if numbered == 0 {
		x.suspect("acknowledged-before-done", w, len(undone), "none of %s names its entry in the ledger: it was not there yet", plural(answered, "answer"))
	}
	chain := []Step{x.step(RoleMistake, o.end, "effect %s of %s is answered as applied", o.inv.EffectKey, o.inv.Proc)}
	if e, crashed := x.a.deathOf(history.Life(o.inv.Proc)); crashed {
		chain = append(chain, x.step(RoleBefore, e, "%s dies: %s", e.Proc, orNone(e.Error)))
	}
	chain = append(chain, x.instant(RoleHarm, o.end.TS, "the ledger of %s has no such entry", where[o].name))
	sus.show(where[o].name, o.end.TS, []string{o.inv.Proc}, chain...)
}

// deathOf is the note of a life's end by force.
func (a *judgement) deathOf(life string) (*history.Event, bool) {
	for _, e := range a.crashes {
		if history.Life(e.Proc) == life {
			return e, true
		}
	}
	return nil, false
}

// repeatedEffects: keys that were applied several times. Under one token or under
// several, by one request or by several, tells what the key lacks.
func (x *inquiry) repeatedEffects() {
	oneSend, oneToken, attempts, n := 0, 0, 0, 0
	duplicates := x.repeatsKnown()
	var firstSend, firstToken, firstAttempt *repeat
	for _, s := range x.a.sinks {
		for _, key := range slices.Sorted(maps.Keys(s.accepts)) {
			is := s.accepts[key]
			if len(is) < 2 {
				continue
			}
			n++
			r := x.repeat(s, key, is)
			switch {
			case r.sameToken && r.requests == 1:
				oneSend++
				firstSend = orRepeat(firstSend, r)
			case r.sameToken:
				oneToken++
				firstToken = orRepeat(firstToken, r)
			default:
				attempts++
				firstAttempt = orRepeat(firstAttempt, r)
			}
		}
	}
	if oneSend > 0 {
		s := x.suspect("resend-is-another-effect", shown, oneSend, "%s applied twice under one token by one recorded request", were(oneSend, "effect"))
		x.showRepeat(s, firstSend)
	}
	if oneToken > 0 {
		s := x.suspect("effects-without-key", shown, oneToken, "%s applied twice under one token: not even a request that is sent again is known", were(oneToken, "effect"))
		x.showRepeat(s, firstToken)
	}
	if attempts == 0 || oneToken > 0 {
		return
	}
	text := "%s applied under several tokens, each time by another run; %d repetitions under one token were answered as duplicates"
	s := x.suspect("key-of-the-attempt", fits, attempts, text, were(attempts, "effect"), duplicates)
	x.showRepeat(s, firstAttempt)
	if duplicates == 0 {
		other := x.suspect("effects-without-key", fits, attempts, text, were(attempts, "effect"), duplicates)
		s.group, other.group = "keys", "keys"
		x.showRepeat(other, firstAttempt)
	}
}

// repeat is one key that was applied several times.
type repeat struct {
	s         *sinkLog
	key       string
	a, b      *entry // with one token if there are such two
	sameToken bool
	requests  int // recorded, of that key and token
}

func orRepeat(old *repeat, r repeat) *repeat {
	if old != nil {
		return old
	}
	return &r
}

func (x *inquiry) repeat(s *sinkLog, key string, is []int) repeat {
	r := repeat{s: s, key: key, a: &s.ledger[is[0]], b: &s.ledger[is[1]]}
	byToken := map[int64]*entry{}
	for _, i := range is {
		e := &s.ledger[i]
		if old := byToken[e.Token]; old != nil && !r.sameToken {
			r.a, r.b, r.sameToken = old, e, true
		}
		byToken[e.Token] = e
	}
	for _, o := range s.effects {
		if o.inv.EffectKey == key && o.inv.Token == r.b.Token {
			r.requests++
		}
	}
	return r
}

// repeatsKnown counts the effects that were answered as duplicates though their key was
// applied under several tokens: under their own it was known.
func (x *inquiry) repeatsKnown() int {
	n := 0
	for _, s := range x.a.sinks {
		for _, o := range s.effects {
			if o.end != nil && o.end.Result == resultDuplicate && slices.ContainsFunc(s.accepts[o.inv.EffectKey], func(i int) bool { return s.ledger[i].Token == o.inv.Token }) {
				n++
			}
		}
	}
	return n
}

func (x *inquiry) showRepeat(s *suspect, r *repeat) {
	var chain []Step
	procs := []string{}
	for i, e := range []*entry{r.a, r.b} {
		role := []string{RoleBefore, RoleMistake}[i]
		found := false
		for _, o := range r.s.effects {
			if o.inv.EffectKey == r.key && o.inv.Token == e.Token && !found {
				found = true
				procs = append(procs, o.inv.Proc)
				chain = append(chain, x.step(role, o.inv, "%s sends effect %s under token %d, %s; it is applied as entry %d", o.inv.Proc, r.key, e.Token, sent(o), e.Seq))
			}
		}
		if !found {
			chain = append(chain, x.step(role, e.ev, "entry %d of the ledger: effect %s under token %d", e.Seq, r.key, e.Token))
		}
	}
	at := int64(0)
	for _, st := range chain {
		at = max(at, st.TS)
	}
	s.show(r.s.name, at, procs, chain...)
}
