package property

import (
	"cmp"
	"maps"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// madeUpAnswers are those that no link carried.
func (x *Inquiry) madeUpAnswers() {
	for l := range past.Each(x.FalseAnswers) {
		s := x.found("answer-made-up", shown, "%s", l.Message)
		chain := []Step{x.mistake(l.Op.End, "%s records that its %s was answered %s",
			l.Op.Invoke.Proc, l.Op.Invoke.Op, past.AnswerText(l.Op.End))}
		for _, e := range l.Events[2:] {
			chain = append(chain, x.before(e, "its link carries another answer: %s", past.AnswerText(e)))
		}
		s.show(l.Resource, l.Op.End.TS, []string{l.Op.Invoke.Proc}, chain...)
	}
}

// forgedEntries are those that show another token than their effect was sent with.
func (x *Inquiry) forgedEntries() {
	for _, s := range x.Sinks {
		for e := range past.Each(s.Ledger) {
			if e.Kind != history.LedgerAccept || len(e.By) != 1 || e.By[0].Invoke.Token == e.Token {
				continue
			}
			o := e.By[0]
			sus := x.found("ledger-forged", shown, "effect %s was sent with token %d, and entry %d of the ledger has token %d",
				e.EffectKey, o.Invoke.Token, e.Seq, e.Token)
			sus.show(s.Name, e.Event.TS, []string{o.Invoke.Proc},
				x.before(o.Invoke, "%s sends its effect under token %d", o.Invoke.Proc, o.Invoke.Token),
				x.mistake(e.Event, "the ledger says that it came with token %d (entry %d)", e.Token, e.Seq))
		}
	}
}

// missingRaises: effects that were accepted under a token that nobody had raised before
// the state was read, though the sink said so if it was asked.
func (x *Inquiry) missingRaises() {
	told, silent := 0, 0
	for _, s := range x.Sinks {
		if !s.WasRead() || s.Missing != "" {
			continue
		}
		for e := range past.Each(s.Ledger) {
			if _, raised := s.Raised[past.GrantRef{Issuer: e.Issuer, Token: e.Token}]; e.Kind != history.LedgerAccept || raised || len(e.By) == 0 {
				continue
			}
			o := e.Sender()
			var raise *past.Op
			for _, r := range s.Raises {
				if r.Invoke.Token == e.Token && r.Invoke.Proc == o.Invoke.Proc && r.Outcome == history.OK {
					raise = r
				}
			}
			if raise != nil {
				told++
			} else {
				silent++
			}
			x.showUnraised(s, o, raise, e, told+silent)
		}
	}
}

func (x *Inquiry) showUnraised(s *past.Sink, o, raise *past.Op, e *past.Entry, n int) {
	what := "nobody sent a raise of it"
	if raise != nil {
		what = "its raise was answered and is not in the ledger"
	}
	prev := s.EntryBefore(e)
	if prev == nil || prev.Value == nil || e.Value == nil || *e.Value == *prev.Value+1 || len(prev.By) == 0 {
		return // it did no harm
	}
	sus := x.suspect("raise-not-done", shown, n, "the first that the ledger has of a token is an effect: token %d of %s, entry %d; %s",
		e.Token, s.Name, e.Seq, what)
	chain := []Step{}
	if raise != nil {
		chain = append(chain,
			x.before(raise.End, "%s is told that token %d is raised, and the ledger has no such entry", raise.Invoke.Proc, e.Token))
	}
	chain = append(chain, x.readsFor(RoleMistake, s, o, e)...)
	p := prev.Sender()
	chain = append(chain, x.before(p.Invoke, "%s, with the %s token %d, writes %d", p.Invoke.Proc, comparedText(prev.Token, e.Token),
		prev.Token, *prev.Value), x.harm(o.Invoke, "%s writes %d over it", o.Invoke.Proc, *e.Value))
	sus.show(s.Name, o.Invoke.TS, []string{o.Invoke.Proc, p.Invoke.Proc}, chain...)
}

// readsFor are the reads that an effect can have acted on: of its client, before it, of the value below.
func (x *Inquiry) readsFor(role string, s *past.Sink, o *past.Op, e *past.Entry) (out []Step) {
	for _, g := range s.Gets {
		if g.Invoke.Proc == o.Invoke.Proc && g.Outcome == history.OK && g.End.TS < o.Invoke.TS && g.End.Value != nil &&
			*g.End.Value+1 == *e.Value {
			out = append(out, x.step(role, g.End, "%s reads %d to act on", g.Invoke.Proc, *g.End.Value))
		}
	}
	return out
}

// unfencedWrites: updates that are lost where the system does not promise that its sink compares
// tokens. Nothing is raised there, and what stands for a token is compared with nothing.
func (x *Inquiry) unfencedWrites() {
	if x.Promised("P3") {
		return
	}
	for _, s := range x.Sinks {
		if !s.WasRead() || s.Missing != "" {
			continue
		}
		var prev *past.Entry
		for e := range past.Each(s.Ledger) {
			if e.Kind != history.LedgerAccept {
				continue
			}
			p := prev
			prev = e
			if p == nil || p.Value == nil || e.Value == nil || *e.Value == *p.Value+1 || len(p.By) == 0 || len(e.By) == 0 ||
				e.EffectKey == p.EffectKey {
				continue
			}
			o, before := e.Sender(), p.Sender()
			sus := x.found("no-token-checked", shown, "the system does not promise P3, so the sink refuses no write of an earlier holder; entry %d of %s writes %d over %d",
				e.Seq, s.Name, *e.Value, *p.Value)
			end := cmp.Or(o.End, o.Invoke)
			chain := append(x.readsFor(RoleBefore, s, o, e), x.before(o.Invoke, "%s sends %d", o.Invoke.Proc, *e.Value),
				x.before(before.Invoke, "%s sends %d, which the sink takes first (entry %d)", before.Invoke.Proc, *p.Value, p.Seq),
				x.mistake(end, "the sink takes that of %s (entry %d) and compares no token", o.Invoke.Proc, e.Seq),
				x.harm(end, "%d is written over %d: an update is lost", *e.Value, *p.Value))
			sus.show(s.Name, o.Invoke.TS, []string{o.Invoke.Proc, before.Invoke.Proc}, chain...)
		}
	}
}

// comparedText says how a token compares with another.
func comparedText(token, other int64) string {
	return [...]string{"lower", "same", "higher"}[1+cmp.Compare(token, other)]
}

// forgottenEffects: effects that were answered as applied and are in a gap of the ledger, which a
// forget that came after them has made.
func (x *Inquiry) forgottenEffects() {
	for _, s := range x.Sinks {
		for _, o := range s.Effects {
			if o.Outcome != history.OK || o.End.Result != past.ResultApplied || o.End.Seq == 0 || s.EntryOf(o) >= 0 ||
				neighbour(s, o.End.Seq) == nil || slices.ContainsFunc(s.Ledger, func(e past.Entry) bool { return e.Seq == o.End.Seq }) {
				continue
			}
			i := slices.IndexFunc(s.Forgets, func(f *past.Op) bool { return f.Outcome != history.Fail && f.Invoke.TS > o.Invoke.TS })
			if i < 0 {
				continue
			}
			f := s.Forgets[i]
			sus := x.found("forgotten-too-much", shown, "entry %d of the ledger of %s is gone, which was made %s before a forget began",
				o.End.Seq, s.Name, phrase.MS(max(f.Invoke.TS-o.End.TS, 0)))
			sus.show(s.Name, f.Invoke.TS, []string{o.Invoke.Proc},
				x.before(o.End, "effect %s of %s is applied as entry %d", o.Invoke.EffectKey, o.Invoke.Proc, o.End.Seq),
				x.mistake(f.Invoke, "the sink is told to forget what is old; the entry had not been copied, so it was not old"),
				x.Instant(RoleHarm, f.Invoke.TS, "later entries are there, and this one is not"))
		}
	}
}

// lostEffects: effects that were answered as applied and are not in the ledger. Either
// they were never done, or the ledger was emptied since.
func (x *Inquiry) lostEffects() {
	var undone, gone []*past.Op
	numbered, answered := 0, 0
	where := map[*past.Op]*past.Sink{}
	for _, s := range x.Sinks {
		if !s.WasRead() {
			continue
		}
		for _, o := range s.Effects {
			if o.Outcome != history.OK || o.End.Result != past.ResultApplied {
				continue
			}
			if answered++; o.End.Seq > 0 {
				numbered++
			}
			where[o] = s
			switch {
			case s.EntryOf(o) >= 0:
			case o.End.Seq > 0 && slices.ContainsFunc(s.Ledger, func(e past.Entry) bool { return e.Seq == o.End.Seq }):
				gone = append(gone, o) // its number was given again
			default:
				undone = append(undone, o)
			}
		}
	}
	if len(gone) > 0 {
		o := gone[0]
		s := where[o]
		sus := x.suspect("ledger-emptied", shown, len(gone),
			"%s of %s missing from the ledger, and their numbers were given again: entry %d is another",
			phrase.PluralIs(len(gone), "effect"), s.Name, o.End.Seq)
		chain := []Step{x.before(o.End, "effect %s of %s is applied as entry %d", o.Invoke.EffectKey, o.Invoke.Proc, o.End.Seq)}
		for e := range past.Each(s.Ledger) {
			if e.Seq == o.End.Seq && len(e.By) > 0 {
				by := e.Sender().Invoke
				chain = append(chain, x.mistake(by, "the entry of that number is of %s by %s", by.Op, by.Proc))
			}
		}
		sus.show(s.Name, o.End.TS, []string{o.Invoke.Proc}, chain...)
	}
	if len(undone) == 0 {
		return
	}
	died := 0
	for _, o := range undone {
		if _, crashed := x.deathOf(history.Life(o.Invoke.Proc)); crashed {
			died++
		}
	}
	o, w := undone[0], possible
	if died*2 > len(undone) {
		w = WeightFits
	}
	if numbered == 0 {
		w = shown
	}
	sus := x.suspect("acknowledged-before-done", w, len(undone),
		"%s answered as applied and never in the ledger; the processes of %d of them died afterwards",
		phrase.PluralWas(len(undone), "effect"), died)
	if numbered == 0 {
		x.suspect("acknowledged-before-done", w, len(undone), "none of %s names its entry in the ledger: it was not there yet",
			phrase.Plural(answered, "answer"))
	}
	chain := []Step{x.mistake(o.End, "effect %s of %s is answered as applied", o.Invoke.EffectKey, o.Invoke.Proc)}
	if e, crashed := x.deathOf(history.Life(o.Invoke.Proc)); crashed {
		chain = append(chain, x.before(e, "%s dies: %s", e.Proc, phrase.OrNone(e.Error)))
	}
	chain = append(chain, x.Instant(RoleHarm, o.End.TS, "the ledger of %s has no such entry", where[o].Name))
	sus.show(where[o].Name, o.End.TS, []string{o.Invoke.Proc}, chain...)
}

// deathOf is the note of a life's end by force.
func (a *Judgement) deathOf(life string) (*history.Event, bool) {
	for _, e := range a.Crashes {
		if history.Life(e.Proc) == life {
			return e, true
		}
	}
	return nil, false
}

// repeatedEffects: keys that were applied several times. Under one token or under
// several, by one request or by several, tells what the key lacks.
func (x *Inquiry) repeatedEffects() {
	oneSend, oneToken, attempts, n := 0, 0, 0, 0
	duplicates := x.repeatsKnown()
	var firstSend, firstToken, firstAttempt *repeat
	for _, s := range x.Sinks {
		for _, key := range slices.Sorted(maps.Keys(s.Accepts)) {
			is := s.Accepts[key]
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
		s := x.suspect("resend-is-another-effect", shown, oneSend, "%s applied twice under one token by one recorded request",
			phrase.PluralWas(oneSend, "effect"))
		x.showRepeat(s, firstSend)
	}
	if oneToken > 0 {
		s := x.suspect("effects-without-key", shown, oneToken, "%s applied twice under one token: not even a request that is sent again is known",
			phrase.PluralWas(oneToken, "effect"))
		x.showRepeat(s, firstToken)
	}
	if attempts == 0 || oneToken > 0 {
		return
	}
	text := "%s applied under several tokens, each time by another run; %d repetitions under one token were answered as duplicates"
	s := x.suspect("key-of-the-attempt", WeightFits, attempts, text, phrase.PluralWas(attempts, "effect"), duplicates)
	x.showRepeat(s, firstAttempt)
	if duplicates == 0 {
		other := x.suspect("effects-without-key", WeightFits, attempts, text, phrase.PluralWas(attempts, "effect"), duplicates)
		s.Group, other.Group = "keys", "keys"
		x.showRepeat(other, firstAttempt)
	}
}

// repeat is one key that was applied several times.
type repeat struct {
	s         *past.Sink
	key       string
	a, b      *past.Entry // with one token if there are such two
	sameToken bool
	requests  int // recorded, of that key and token
}

func orRepeat(old *repeat, r repeat) *repeat {
	if old != nil {
		return old
	}
	return &r
}

func (x *Inquiry) repeat(s *past.Sink, key string, is []int) repeat {
	r := repeat{s: s, key: key, a: &s.Ledger[is[0]], b: &s.Ledger[is[1]]}
	byToken := map[int64]*past.Entry{}
	for _, i := range is {
		e := &s.Ledger[i]
		if old := byToken[e.Token]; old != nil && !r.sameToken {
			r.a, r.b, r.sameToken = old, e, true
		}
		byToken[e.Token] = e
	}
	for _, o := range s.Effects {
		if o.Invoke.EffectKey == key && o.Invoke.Token == r.b.Token {
			r.requests++
		}
	}
	return r
}

// repeatsKnown counts the effects that were answered as duplicates though their key was
// applied under several tokens: under their own it was known.
func (x *Inquiry) repeatsKnown() int {
	n := 0
	for _, s := range x.Sinks {
		for _, o := range s.Effects {
			if o.End != nil && o.End.Result == past.ResultDuplicate &&
				slices.ContainsFunc(s.Accepts[o.Invoke.EffectKey], func(i int) bool { return s.Ledger[i].Token == o.Invoke.Token }) {
				n++
			}
		}
	}
	return n
}

func (x *Inquiry) showRepeat(s *Suspect, r *repeat) {
	var chain []Step
	procs := []string{}
	for i, e := range []*past.Entry{r.a, r.b} {
		role := []string{RoleBefore, RoleMistake}[i]
		found := false
		for _, o := range r.s.Effects {
			if o.Invoke.EffectKey == r.key && o.Invoke.Token == e.Token && !found {
				found = true
				procs = append(procs, o.Invoke.Proc)
				chain = append(chain, x.step(role, o.Invoke, "%s sends effect %s under token %d, %s; it is applied as entry %d",
					o.Invoke.Proc, r.key, e.Token, sendText(o), e.Seq))
			}
		}
		if !found {
			chain = append(chain, x.step(role, e.Event, "entry %d of the ledger: effect %s under token %d", e.Seq, r.key, e.Token))
		}
	}
	at := int64(0)
	for _, st := range chain {
		at = max(at, st.TS)
	}
	s.show(r.s.Name, at, procs, chain...)
}
