package property

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:    "P4",
		title: "every effect is applied at most once, none is lost",
		by:    "ledger, answers as recorded and as the links carried them, values; Porcupine; the steps of completed jobs",
		run:   checkEffects,
		soFar: effectsSoFar,
		part:  "applied twice, lost updates",
		rules: []rule{
			{needs: "P3", find: (*Inquiry).missingRaises},
			{find: (*Inquiry).unfencedWrites},
			{find: (*Inquiry).madeUpAnswers},
			{find: (*Inquiry).forgedEntries},
			{find: (*Inquiry).forgottenEffects},
			{find: (*Inquiry).lostEffects},
			{find: (*Inquiry).repeatedEffects},
		},
		mechanisms: []mechanism{
			{id: "ledger-emptied", Accounts: []string{"P3", "P4", "P6", "P10", "P13"},
				Statement: "a resource of the sink was emptied while it was in use: what it had seen and accepted is forgotten"},
			{id: "forgotten-too-much", Accounts: []string{"P4", "P10", "P14"},
				Statement: "the sink forgets more than it is told to: entries of its ledger are gone that are younger"},
			{id: "ledger-forged", Accounts: ofEffects,
				Statement: "the sink's ledger shows another token than the one that came with an effect"},
			{id: "answer-made-up", Accounts: []string{"P4", "P10", "P14"},
				Statement: "a worker records an answer of the sink that the sink never gave it"},
			{id: "raise-not-done", Accounts: ofEffects,
				Statement: "a holder reads what it acts on before the sink knows its token: the one before can still write"},
			{id: "no-token-checked", Statement: "the sink checks no token: a holder can still write when another has the lock"},
			{id: "acknowledged-before-done", Statement: "an effect is acknowledged before it is done, and lost with its process"},
			{id: "resend-is-another-effect",
				Statement: "a request that is sent again is another effect: its idempotency key does not cover resends"},
			{id: "effects-without-key", Statement: "effects carry no idempotency key: what an earlier run did is done again",
				Apart: "a repetition that is answered as a duplicate"},
			{id: "key-of-the-attempt", Statement: "no idempotency key covers both attempts: what an earlier one did is done again",
				Apart: "an effect that is applied twice under one token"},
		},
	})
}

// checkEffects is P4: ledger, recorded answers and values agree, and each key
// was applied at most once.
func checkEffects(ctx context.Context, a *Judgement, p *Property) {
	for _, s := range a.Sinks {
		p.Checked += len(s.Effects)
		checkOnce(s, p)
		for _, o := range s.Effects {
			checkAnswer(s, o, p)
		}
		checkDecided(s, p, a.Lost == 0)
		checkValues(s, p)
		checkFinal(s, p)
	}
	a.reportLies(p)
	a.checkSteps(p)
	p.Detail = "ledger, answers and values agree"
	if a.Witness.Reads[history.WitnessAnswers] {
		p.Detail = "ledger, values and answers, as the links carried them, agree"
	}
	a.searchSinks(ctx, p)
}

func checkOnce(s *past.Sink, p *Property) {
	for _, key := range slices.Sorted(maps.Keys(s.Accepts)) {
		is := s.Accepts[key]
		if len(is) < 2 {
			continue
		}
		var events []*history.Event
		for _, i := range is {
			events = append(events, s.Ledger[i].Event)
		}
		p.add(s.Name, append(events, past.FirstEvents(s.Ledger[is[0]].By)...), "effect %s was applied %d times (ledger entries %d and %d)",
			key, len(is), s.Ledger[is[0]].Seq, s.Ledger[is[1]].Seq)
	}
}

// checkAnswer compares what the sink answered with what it did.
func checkAnswer(s *past.Sink, o *past.Op, p *Property) {
	if !s.WasRead() {
		return // P14
	}
	key := o.Invoke.EffectKey
	i := s.EntryOf(o)
	if i < 0 {
		if o.Outcome == history.OK {
			p.add(s.Name, append(past.Events(o), neighbour(s, o.End.Seq)),
				"effect %s was answered %s (entry %d), but the ledger of %s does not contain it: an acknowledged effect is lost",
				key, o.End.Result, o.End.Seq, s.Name)
		}
		return
	}
	e := &s.Ledger[i]
	switch {
	case o.Outcome == history.Fail && len(e.By) == 1:
		p.add(s.Name, append(past.Events(o), e.Event),
			"effect %s was reported as failed (%s), but the ledger of %s shows it as applied (entry %d)", key, cmp.Or(o.End.Result,
				o.End.Error), s.Name, e.Seq)
	case len(e.By) == 1 && !sameEffect(o, e):
		p.add(s.Name, append(past.Events(o), e.Event),
			"effect %s was sent with token %d and value %s, but entry %d of the ledger has token %d and value %s",
			key, o.Invoke.Token, phrase.NumberOrNone(o.Invoke.Value), e.Seq, e.Token, phrase.NumberOrNone(e.Value))
	case len(e.By) > 1 && o == e.By[0] && !slices.ContainsFunc(e.By, func(by *past.Op) bool { return sameEffect(by, e) }):
		p.add(s.Name, append(past.FirstEvents(e.By), e.Event),
			"effect %s was asked for %d times, but entry %d of the ledger has token %d and value %s, which none of them had",
			key, len(e.By), e.Seq, e.Token, phrase.NumberOrNone(e.Value))
	case o.Outcome == history.OK && o.End.Result == past.ResultApplied && o.End.Seq == e.Seq && !sameEffect(o, e):
		p.add(s.Name, append(past.Events(o), e.Event),
			"effect %s was answered applied as entry %d with token %d and value %s, but the ledger has it with token %d and value %s",
			key, e.Seq, o.Invoke.Token, phrase.NumberOrNone(o.Invoke.Value), e.Token, phrase.NumberOrNone(e.Value))
	case o.Outcome == history.OK && o.End.Result == past.ResultApplied && o.End.Seq != 0 && !hasSeq(s, key, o.End.Seq):
		p.add(s.Name, append(past.Events(o), e.Event), "effect %s was answered applied as entry %d, but the ledger has it as entry %d",
			key, o.End.Seq, e.Seq)
	}
}

// sameEffect says whether a call can have made an entry: its token and its value are the entry's.
func sameEffect(o *past.Op, e *past.Entry) bool {
	return o.Invoke.Token == e.Token && (o.Invoke.Value == nil || e.Value == nil || *o.Invoke.Value == *e.Value)
}

func hasSeq(s *past.Sink, key string, seq int64) bool {
	return slices.ContainsFunc(s.Accepts[key], func(i int) bool { return s.Ledger[i].Seq == seq })
}

// checkDecided compares when the sink decided, by its own clock, with when it was asked and
// when it answered.
func checkDecided(s *past.Sink, p *Property, whole bool) {
	var last *past.Entry
	for e := range past.Each(s.Ledger) {
		if e.At == 0 {
			continue
		}
		if last != nil && e.At < last.At {
			p.add(s.Name, []*history.Event{last.Event, e.Event}, "entry %d of the ledger of %s was decided %s before entry %d, which it follows",
				e.Seq, s.Name, phrase.MS(last.At-e.At), last.Seq)
		}
		last = e
		if len(e.By) == 0 || e.Kind == history.LedgerAccept && len(s.Accepts[e.EffectKey]) > 1 {
			continue // which call made which is not known
		}
		asked := e.By[0]
		for _, o := range e.By {
			if o.Invoke.TS < asked.Invoke.TS {
				asked = o
			}
			if o.Outcome == history.OK && o.Invoke.Token == e.Token && e.At > o.End.TS &&
				(o.Invoke.Op == history.OpEffect) == (e.Kind == history.LedgerAccept) {
				p.add(s.Name, append(past.Events(o), e.Event), "%s%s was answered %s %s before the sink decided it (entry %d)",
					o.Invoke.Op, past.TokenText(o.Invoke), o.End.Result, phrase.MS(e.At-o.End.TS), e.Seq)
			}
		}
		if e.At < asked.Invoke.TS && whole { // a call that is lost may have asked before
			p.add(s.Name, append(past.Events(asked), e.Event), "the sink decided entry %d (%s of token %d%s) %s before anybody asked for it",
				e.Seq, e.Kind, e.Token, past.KeyText(e.EffectKey), phrase.MS(asked.Invoke.TS-e.At))
		}
	}
}

// neighbour is the ledger note at or after seq, to show what stands there instead.
func neighbour(s *past.Sink, seq int64) *history.Event {
	for i := range s.Ledger {
		if s.Ledger[i].Seq >= seq {
			return s.Ledger[i].Event
		}
	}
	return nil
}

// checkValues: every effect wrote the value that the one before had left, plus
// one. Otherwise its holder acted on a state that was no longer current.
func checkValues(s *past.Sink, p *Property) {
	prev, seq, gap := int64(0), int64(0), false
	var last *past.Entry
	for e := range past.Each(s.Ledger) {
		gap = gap || e.Seq != seq+1
		seq = e.Seq
		if e.Kind != history.LedgerAccept || e.Value == nil {
			continue
		}
		if !gap && *e.Value != prev+1 {
			events := append([]*history.Event{e.Event}, past.FirstEvents(e.By)...)
			if last != nil {
				events = append(append(events, last.Event), past.FirstEvents(last.By)...)
			}
			p.add(s.Name, events, "lost update: effect %s (entry %d, token %d) wrote %d over %d, so it had read an older value",
				e.EffectKey, e.Seq, e.Token, *e.Value, prev)
		}
		prev, last, gap = *e.Value, e, false
	}
}

// checkFinal compares the final value with the number of applied effects.
func checkFinal(s *past.Sink, p *Property) {
	if s.Final == nil || s.Missing != "" {
		return
	}
	n := int64(0)
	var last *history.Event
	for i := range s.Ledger {
		if s.Ledger[i].Kind == history.LedgerAccept {
			n, last = n+1, s.Ledger[i].Event
		}
	}
	if v := *s.Final.End.Value; v != n {
		p.add(s.Name, append(past.Events(s.Final), last), "the final value of %s is %d after %d applied effects", s.Name, v, n)
	}
}

// effectsSoFar is what of P4 a part of the ledger can show.
func effectsSoFar(_ context.Context, a *Judgement, p *Property) {
	for _, s := range a.Sinks {
		checkOnce(s, p)
		checkValues(s, p)
	}
}

// propertyOf is where a lie counts: a refusal that never happened where refusals are judged.
func propertyOf(l *past.FalseAnswer) string {
	switch l.Op.End.Result {
	case past.ResultStale, past.ResultConflict:
		return "P10"
	}
	return "P4"
}

// reportLies adds the lies that count for a property. No event that was lost can excuse one.
func (a *Judgement) reportLies(p *Property) {
	for l := range past.Each(a.FalseAnswers) {
		if propertyOf(l) == p.ID || p.ID == "P14" && !a.Promised(propertyOf(l)) {
			p.add(l.Resource, l.Events, "%s", l.Message)
			p.certain = true
		}
	}
}

// checkSteps is the part of P4 that jobs add: a job that is completed has had each of
// its effects exactly once, and no job any that it does not list.
func (a *Judgement) checkSteps(p *Property) {
	owners := map[string][]*past.Job{}
	for _, j := range a.Jobs.List {
		if j.Spec == nil || j.Spec.Resource == "" {
			continue
		}
		owners[j.Spec.Resource] = append(owners[j.Spec.Resource], j)
		if j.EndedAs != past.StateCompleted {
			continue
		}
		s := a.SinkOf[j.Spec.Resource]
		if s != nil && (!s.WasRead() || s.Missing != "") {
			continue // P14
		}
		for _, step := range j.Spec.Steps {
			p.Checked++
			if s == nil || len(s.Accepts[step]) == 0 {
				p.add(j.ID, append(past.Events(j.Last()), j.Starts...), "job %s is completed, but its effect %s on %s was never applied",
					j.ID, step, j.Spec.Resource)
				continue
			}
			if o, run := j.Completion(); o != nil && !s.DecidedBy(step, run, o.Invoke.TS) {
				p.add(j.ID, append(past.Events(o), j.Starts...), "job %s was completed by %s before its effect %s on %s was decided",
					j.ID, o.Invoke.Proc, step, j.Spec.Resource)
			}
		}
	}
	for _, res := range slices.Sorted(maps.Keys(owners)) {
		if s := a.SinkOf[res]; s != nil {
			checkListed(s, owners[res], p)
		}
	}
}

func checkListed(s *past.Sink, owners []*past.Job, p *Property) {
	listed := map[string]bool{}
	for _, j := range owners {
		specs := []*history.Job{j.Spec} // asked for by a schedule, or in a sequence
		for _, o := range j.Calls {
			specs = append(specs, o.Invoke.Job())
		}
		for _, spec := range specs {
			for _, step := range slices.Concat(spec.Steps, spec.May) {
				listed[step] = true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Accepts)) {
		if e := &s.Ledger[s.Accepts[key][0]]; !listed[key] {
			p.add(s.Name, append([]*history.Event{e.Event}, past.FirstEvents(e.By)...),
				"effect %s was applied to %s, which belongs to job %s, and no job lists it", key, s.Name, owners[0].ID)
		}
	}
}
