package past

import (
	"fmt"
	"sort"

	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// Witness is what the harness itself read on the links of workers, beside what workers say
// of themselves.
type Witness struct {
	Reads     map[string]bool             // what it reads, by the key of its note
	Gaps      map[string][]*history.Event // what of it cannot be read
	OnLinks   []*history.Event            // statement notes of the links
	ByWorkers []*history.Event            // and of the workers
	Serial    []*history.Event            // serial-read notes
	Hits      []*history.Event            // clients at points before requests
}

func (w *Witness) note(e *history.Event) {
	if history.Life(e.Proc) != history.Harness {
		return
	}
	if w.Reads == nil {
		w.Reads, w.Gaps = map[string]bool{}, map[string][]*history.Event{}
	}
	if e.Error == "" {
		w.Reads[e.Key] = true
	} else {
		w.Gaps[e.Key] = append(w.Gaps[e.Key], e)
	}
}

func (w *Witness) statement(e *history.Event) {
	if history.Life(e.Proc) == history.Harness && e.Key != "" {
		w.OnLinks = append(w.OnLinks, e)
	} else {
		w.ByWorkers = append(w.ByWorkers, e)
	}
}

// Sender is the worker that a statement note is of.
func Sender(e *history.Event) string {
	if history.Life(e.Proc) == history.Harness && e.Key != "" {
		return e.Key
	}
	return history.Worker(e.Proc)
}

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

// FalseAnswer is an answer that a worker recorded and the sink never gave it.
type FalseAnswer struct {
	Op       *Op
	Resource string
	Message  string
	Events   []*history.Event
}

// compareAnswers compares what workers say that the sink answered with what the links
// carried, both ways.
func (a *Past) compareAnswers() {
	if !a.Witness.Reads[history.WitnessAnswers] || len(a.Witness.Gaps[history.WitnessAnswers]) > 0 || a.soFar {
		return // of what is not read P14 tells
	}
	for _, s := range a.Sinks {
		sort.SliceStable(s.answers, func(i, j int) bool { return s.answers[i].TS < s.answers[j].TS })
		ops := map[exchange][]*Op{}
		for _, list := range [][]*Op{s.Raises, s.Effects, s.Gets} {
			for _, o := range list {
				if o.Invoke.Proc != history.Harness {
					x := exchangeOf(o.Invoke)
					ops[x] = append(ops[x], o)
				}
			}
		}
		given := map[exchange][]*history.Event{}
		for _, e := range s.answers {
			x := exchangeOf(e)
			given[x] = append(given[x], e)
			a.reportUnasked(s, e, ops[x])
		}
		for _, list := range [][]*Op{s.Raises, s.Effects, s.Gets} {
			for _, o := range list {
				a.findAnswer(s, o, given[exchangeOf(o.Invoke)])
			}
		}
		a.reportUncarried(s, given)
	}
}

// findAnswer looks for the answer that an operation says it got, among those to its like.
func (a *Past) findAnswer(s *Sink, o *Op, answers []*history.Event) {
	if o.Invoke.Proc == history.Harness || o.End == nil || o.End.Result == "" && (o.Invoke.Op != history.OpGet || o.Outcome != history.OK) {
		return // it claims none
	}
	var other *history.Event
	first := sort.Search(len(answers), func(i int) bool { return answers[i].TS >= o.Invoke.TS })
	for i := first; i < len(answers) && answers[i].TS <= o.End.TS; i++ {
		if e := answers[i]; e.Asked().Sent >= o.Invoke.TS {
			if claims(o, e) {
				return
			}
			other = e
		}
	}
	l := FalseAnswer{Op: o, Resource: s.Name, Events: Events(o)}
	l.Message = fmt.Sprintf("%s says that its %s%s was answered %s, and its link carried no such answer",
		o.Invoke.Proc, o.Invoke.Op, TokenText(o.Invoke), AnswerText(o.End))
	if other != nil {
		l.Events = append(l.Events, other)
		l.Message += ": the sink said " + AnswerText(other)
	}
	a.FalseAnswers = append(a.FalseAnswers, l)
}

// reportUnasked: what a link carried and nobody recorded asking for. A copy of a request may come
// to the link when another one was answered long ago.
func (a *Past) reportUnasked(s *Sink, e *history.Event, ops []*Op) {
	for _, o := range ops {
		if o.Invoke.TS <= e.Asked().Sent && (e.Asked().Op != history.OpGet || o.End == nil || e.Asked().Sent <= o.End.TS+lateCopy) {
			return
		}
	}
	what := "with " + e.Error
	if e.Error == "" {
		what = "answered " + AnswerText(e)
	}
	a.Unrecorded = append(a.Unrecorded, Unrecorded{s.Name,
		fmt.Sprintf("the link of %s carried the %s%s to %s, %s, which no operation of it recorded: the record lacks events, or "+
			"something unrecorded asks the sink", e.Asked().Worker, e.Asked().Op, TokenText(e), s.Name, what), []*history.Event{e}})
}

// lateCopy is for how long after a read another copy of it may come to the link: a read has
// nothing that tells it from the next one.
const lateCopy = int64(2e9)

// reportUncarried finds entries of the ledger that no link carried a request for. The harness's own
// requests take no link.
func (a *Past) reportUncarried(s *Sink, given map[exchange][]*history.Event) {
	tokens, keys := map[GrantRef]bool{}, map[string]bool{}
	for x := range given {
		tokens[GrantRef{x.issuer, x.token}] = true
		keys[x.key] = true
	}
	for _, o := range s.Raises {
		if o.Invoke.Proc == history.Harness {
			tokens[GrantRef{o.Invoke.Issuer, o.Invoke.Token}] = true
		}
	}
	for e := range Each(s.Ledger) {
		if e.Kind == history.LedgerSeal {
			continue // the harness asked for it, which takes no link
		}
		if !tokens[GrantRef{e.Issuer, e.Token}] || e.Kind == history.LedgerAccept && !keys[e.EffectKey] {
			a.Unrecorded = append(a.Unrecorded, Unrecorded{s.Name,
				fmt.Sprintf("entry %d of the ledger of %s (%s of token %d%s) was asked for on no link: something reaches the sink past the links",
					e.Seq, s.Name, e.Kind, e.Token, KeyText(e.EffectKey)), append([]*history.Event{e.Event}, FirstEvents(e.By)...)})
		}
	}
}

// claims says whether an operation's end claims just this answer. What it leaves out it does
// not claim.
func claims(o *Op, e *history.Event) bool {
	c := o.End
	value := c.Value
	if o.Invoke.Op == history.OpEffect {
		value = o.Invoke.Value
	}
	return c.Result == e.Result && (c.Seen == 0 || c.Seen == e.Seen) && (c.Seq == 0 || c.Seq == e.Seq) &&
		(value == nil || e.Value != nil && *value == *e.Value) && e.Error == ""
}

func TokenText(e *history.Event) string {
	if e.Token == 0 {
		return ""
	}
	return fmt.Sprintf(" of token %d%s", e.Token, KeyText(e.EffectKey))
}

func AnswerText(e *history.Event) string {
	s := e.Result
	if s == "" {
		s = "value " + phrase.NumberOrNone(e.Value)
	}
	if e.Error != "" {
		return e.Error
	}
	return fmt.Sprintf("%s (seen %d, number %d)", s, e.Seen, e.Seq)
}
