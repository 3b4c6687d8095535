package checker

import (
	"fmt"
	"sort"

	"fencepost/harness/record/history"
)

// exchange identifies what a worker asked of the sink; all copies of a request are one.
type exchange struct {
	op             history.Op
	worker, issuer string
	token          int64
	key            string // of an effect
}

func exchangeOf(e *history.Event) exchange {
	x := exchange{op: e.Op, worker: history.Worker(e.Proc)}
	if e.Asked() != nil {
		x.op, x.worker = e.Asked().Op, e.Asked().Worker
	}
	if x.op != history.OpGet {
		x.issuer, x.token = e.Issuer, e.Token
	}
	if x.op == history.OpEffect {
		x.key = e.EffectKey
	}
	return x
}

// lie is an answer that a worker recorded and the sink never gave it.
type lie struct {
	op       *op
	resource string
	message  string
	events   []*history.Event
}

// property is where a lie counts: a refusal that never happened where refusals are judged.
func (l *lie) property() string {
	switch l.op.end.Result {
	case resultStale, resultConflict:
		return "P10"
	}
	return "P4"
}

// compareAnswers compares what workers say that the sink answered with what the links
// carried, both ways.
func (a *past) compareAnswers() {
	if !a.told.reads[history.WitnessAnswers] || len(a.told.gaps[history.WitnessAnswers]) > 0 || a.soFar {
		return // of what is not read P14 tells
	}
	for _, s := range a.sinks {
		sort.SliceStable(s.answers, func(i, j int) bool { return s.answers[i].TS < s.answers[j].TS })
		ops := map[exchange][]*op{}
		for _, list := range [][]*op{s.raises, s.effects, s.gets} {
			for _, o := range list {
				if o.inv.Proc != history.Harness {
					x := exchangeOf(o.inv)
					ops[x] = append(ops[x], o)
				}
			}
		}
		given := map[exchange][]*history.Event{}
		for _, e := range s.answers {
			x := exchangeOf(e)
			given[x] = append(given[x], e)
			a.unasked(s, e, ops[x])
		}
		for _, list := range [][]*op{s.raises, s.effects, s.gets} {
			for _, o := range list {
				a.given(s, o, given[exchangeOf(o.inv)])
			}
		}
		a.uncarried(s, given)
	}
}

// given looks for the answer that an operation says it got, among those to its like.
func (a *past) given(s *sinkLog, o *op, answers []*history.Event) {
	if o.inv.Proc == history.Harness || o.end == nil || o.end.Result == "" && (o.inv.Op != history.OpGet || o.outcome != history.OK) {
		return // it claims none
	}
	var other *history.Event
	for i := sort.Search(len(answers), func(i int) bool { return answers[i].TS >= o.inv.TS }); i < len(answers) && answers[i].TS <= o.end.TS; i++ {
		if e := answers[i]; e.Asked().Sent >= o.inv.TS {
			if claims(o, e) {
				return
			}
			other = e
		}
	}
	l := lie{op: o, resource: s.name, events: both(o)}
	l.message = fmt.Sprintf("%s says that its %s%s was answered %s, and its link carried no such answer", o.inv.Proc, o.inv.Op, ofToken(o.inv), answerText(o.end))
	if other != nil {
		l.events = append(l.events, other)
		l.message += ": the sink said " + answerText(other)
	}
	a.lies = append(a.lies, l)
}

// unasked: what a link carried and nobody recorded asking for. A copy of a request may come
// to the link when another one was answered long ago.
func (a *past) unasked(s *sinkLog, e *history.Event, ops []*op) {
	for _, o := range ops {
		if o.inv.TS <= e.Asked().Sent && (e.Asked().Op != history.OpGet || o.end == nil || e.Asked().Sent <= o.end.TS+lateCopy) {
			return
		}
	}
	what := "with " + e.Error
	if e.Error == "" {
		what = "answered " + answerText(e)
	}
	a.stray = append(a.stray, stray{s.name, fmt.Sprintf("the link of %s carried the %s%s to %s, %s, which no operation of it recorded: the record lacks events, or something unrecorded asks the sink", e.Asked().Worker, e.Asked().Op, ofToken(e), s.name, what), []*history.Event{e}})
}

// lateCopy is for how long after a read another copy of it may come to the link: a read has
// nothing that tells it from the next one.
const lateCopy = int64(2e9)

// uncarried finds entries of the ledger that no link carried a request for. The harness's own
// requests take no link.
func (a *past) uncarried(s *sinkLog, given map[exchange][]*history.Event) {
	tokens, keys := map[grantRef]bool{}, map[string]bool{}
	for x := range given {
		tokens[grantRef{x.issuer, x.token}] = true
		keys[x.key] = true
	}
	for _, o := range s.raises {
		if o.inv.Proc == history.Harness {
			tokens[grantRef{o.inv.Issuer, o.inv.Token}] = true
		}
	}
	for i := range s.ledger {
		e := &s.ledger[i]
		if !tokens[grantRef{e.Issuer, e.Token}] || e.Kind == history.LedgerAccept && !keys[e.EffectKey] {
			a.stray = append(a.stray, stray{s.name, fmt.Sprintf("entry %d of the ledger of %s (%s of token %d%s) was asked for on no link: something reaches the sink past the links", e.Seq, s.name, e.Kind, e.Token, keyText(e.EffectKey)), append([]*history.Event{e.ev}, first(e.by)...)})
		}
	}
}

// claims says whether an operation's end claims just this answer. What it leaves out it does
// not claim.
func claims(o *op, e *history.Event) bool {
	c := o.end
	value := c.Value
	if o.inv.Op == history.OpEffect {
		value = o.inv.Value
	}
	return c.Result == e.Result && (c.Seen == 0 || c.Seen == e.Seen) && (c.Seq == 0 || c.Seq == e.Seq) &&
		(value == nil || e.Value != nil && *value == *e.Value) && e.Error == ""
}

func ofToken(e *history.Event) string {
	if e.Token == 0 {
		return ""
	}
	return fmt.Sprintf(" of token %d%s", e.Token, keyText(e.EffectKey))
}

func answerText(e *history.Event) string {
	s := e.Result
	if s == "" {
		s = "value " + num(e.Value)
	}
	if e.Error != "" {
		return e.Error
	}
	return fmt.Sprintf("%s (seen %d, number %d)", s, e.Seen, e.Seq)
}

// reportLies adds the lies that count for a property. No event that was lost can excuse one.
func (a *past) reportLies(p *Property) {
	for i := range a.lies {
		if l := &a.lies[i]; l.property() == p.ID || p.ID == "P14" && !a.promised(l.property()) {
			p.add(l.resource, l.events, "%s", l.message)
			p.certain = true
		}
	}
}
