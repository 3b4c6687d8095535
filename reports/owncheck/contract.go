package owncheck

import (
	"fmt"
	"strings"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/target/own"
)

func setup(r *Run) []Finding {
	var points []string
	for _, p := range r.Trial.Offer.Points {
		points = append(points, string(p))
	}
	if len(points) == 0 {
		points = []string{"no points"}
	}
	return one(OK, "ended with 0; it offers %s and promises %s", strings.Join(points, ", "), strings.Join(r.Trial.Offer.Promises, ", "))
}

func ready(r *Run) []Finding {
	var out []Finding
	if r.Trial.Ready > 0 {
		out = one(OK, "%s after its start", ms(int64(r.Trial.Ready)))
	}
	for _, l := range r.lives(history.LifeProgram) {
		if wrong := l.Unplanned(); wrong != "" && l.Asked != sigTerm { // else see stop
			out = append(out, Finding{Status: Wrong, Text: l.Name + " " + wrong + words(l), Do: "work until SIGTERM; the log is " + logOf(l)})
		}
	}
	if out == nil {
		return []Finding{{Status: Wrong, Text: "no life was ready", Do: remedies[own.MistakeReady]}}
	}
	return out
}

// sigTerm is how processes are asked to end in order.
const sigTerm = "SIGTERM"

func words(l *history.ProcessLife) string {
	if w := l.Words(); w != "" {
		return "; its log: " + w
	}
	return ""
}

func logOf(l *history.ProcessLife) string { return "logs/" + l.Name + ".log" }

// lives are how processes of a kind ended.
func (r *Run) lives(kind string) (out []*history.ProcessLife) {
	if r.History == nil {
		return nil
	}
	for i := range r.History.Events {
		if l := r.History.Events[i].Life(); l != nil && l.Kind == kind {
			out = append(out, l)
		}
	}
	return out
}

// lintDo is what to do about a remark.
var lintDo = map[history.RemarkKind]string{
	history.Late:  "write the invoke before the first byte of its request leaves, and take the times of its sends after that",
	history.Lost:  "number operations 1, 2, 3 … over all clients of a process, end each with ok, fail or unknown, and end with an exit note",
	history.Wrong: "docs/history-format.md says what each field means",
}

// flawed: the history has mistakes, from which others may follow.
func (r *Run) flawed() bool { return len(history.Lint(r.History).Remarks) > 0 }

func lint(r *Run) (out []Finding) {
	for _, m := range history.Lint(r.History).Remarks {
		f := Finding{Status: Wrong, Text: m.Message(), Do: lintDo[m.Kind]}
		if m.Line > 0 {
			f.File, f.Line = below(r.Dir, m.File), m.Line
		} else {
			f.Text = below(r.Dir, m.File) + ": " + f.Text
		}
		out = append(out, f)
	}
	if out != nil {
		return out
	}
	events, lives := 0, map[string]bool{}
	for i := range r.History.Events {
		if life := history.Life(r.History.Events[i].Proc); life != history.Harness {
			events++
			lives[life] = true
		}
	}
	return one(OK, "%s of %s, read as strictly as fencepost lint does", plural(events, "event"), plural(len(lives), "process life"))
}

// operation is what a client recorded.
type operation struct{ invoke, end *history.Event }

func (o operation) ok() bool { return o.end != nil && o.end.Type == history.OK }

type ref struct {
	life string
	id   int64
}

// operations are all that were recorded.
func (r *Run) operations() map[ref]operation {
	out := map[ref]operation{}
	for i := range r.History.Events {
		e := &r.History.Events[i]
		at := ref{history.Life(e.Proc), e.ID}
		switch e.Type {
		case history.Note:
		case history.Invoke:
			out[at] = operation{invoke: e}
		default:
			o := out[at]
			o.end = e
			out[at] = o
		}
	}
	return out
}

// store compares requests about a lock's row with what the links carried.
func store(r *Run) []Finding {
	if len(r.Trial.Sent) == 0 {
		return one(Unchecked, "it offers neither acquire-sent nor release-sent, so that nobody knows how its requests show on the links")
	}
	ops := r.operations()
	kinds := []struct {
		do    string
		wrong func(o operation, at int64) string
		first Finding
		count int
	}{
		{do: "write the invoke before the first byte of its request leaves", wrong: func(o operation, at int64) string {
			if at == 0 || at >= o.invoke.TS {
				return ""
			}
			return fmt.Sprintf("%s of %s came to a link %s before its invoke was recorded", o.invoke.Op, o.invoke.Proc, ms(o.invoke.TS-at))
		}},
		{do: "take the time of a send before its first byte leaves: a lease counts from it", wrong: func(o operation, at int64) string {
			if at == 0 || o.end == nil || len(o.end.Sends) == 0 || o.end.Sends[0] <= at {
				return ""
			}
			return fmt.Sprintf("%s of %s had come to a link %s before the first of its sends", o.invoke.Op, o.invoke.Proc, ms(o.end.Sends[0]-at))
		}},
		{do: "reach the store by $FENCEPOST_NODES alone, and send the attempt that is recorded; or do not offer the point before it",
			wrong: func(o operation, at int64) string {
				if at > 0 || !o.ok() {
					return ""
				}
				return fmt.Sprintf("%s of %s is ok, and its links carried no request with its lock and its attempt", o.invoke.Op, o.invoke.Proc)
			}},
	}
	seen := 0
	for _, s := range r.Trial.Sent {
		o := ops[ref{history.Life(s.Proc), s.ID}]
		if o.invoke == nil {
			continue // of a history that was read otherwise
		}
		if s.At > 0 {
			seen++
		}
		for i := range kinds {
			if text := kinds[i].wrong(o, s.At); text != "" {
				if kinds[i].count++; kinds[i].count == 1 {
					kinds[i].first = r.at(Finding{Status: Wrong, Text: text, Do: kinds[i].do}, o.invoke)
				}
			}
		}
	}
	var out []Finding
	for _, k := range kinds {
		if k.count > 1 {
			k.first.Text += fmt.Sprintf(" (and %d more)", k.count-1)
		}
		if k.count > 0 {
			out = append(out, k.first)
		}
	}
	if out == nil {
		return one(OK, "%d of %s were seen on the links, each after its invoke", seen, plural(len(r.Trial.Sent), "request"))
	}
	return out
}

// sink is about requests to the sink. Answers that were never given fail P4 or P10.
func sink(r *Run) []Finding {
	if all := r.invalid(aboutSink); len(all) > 0 {
		return []Finding{r.first(Wrong, all, len(all), "record each request to $FENCEPOST_SINK before it is sent, reads too, and reach the sink by that address alone", false)}
	}
	n := 0
	for i := range r.History.Events {
		if r.History.Events[i].Op == history.NoteAnswer {
			n++
		}
	}
	if n == 0 {
		return one(Unchecked, "nothing was asked of the sink")
	}
	return one(OK, "%s on its links, each recorded", plural(n, "request"))
}

// about is what a finding of P14 is about.
type about int

const (
	aboutRecord about = iota // what lint says
	aboutSink
	aboutPoint
	aboutFault
	aboutSeal
	aboutProperty // of which nothing was checked
	aboutRun      // all else
)

// invalid are the findings of P14 about one thing.
func (r *Run) invalid(what about) (out []checker.Violation) {
	remarks := map[string]bool{}
	for _, m := range history.Lint(r.History).Remarks {
		remarks[m.Message()] = true
	}
	ids := map[string]bool{}
	for _, p := range checker.Catalogue() {
		ids[p.ID] = true
	}
	for _, p := range r.Result.Properties {
		if p.ID != "P14" {
			continue
		}
		for _, v := range p.Violations {
			of := aboutRun
			switch {
			case remarks[v.Message]:
				of = aboutRecord
			case ids[v.Key]:
				of = aboutProperty
			case has(v, history.NoteHit):
				of = aboutPoint
			case has(v, history.NoteAnswer), has(v, history.NoteLedger), has(v, history.NoteWitness):
				of = aboutSink
			case has(v, history.NoteFault), v.Key != "" && strings.HasPrefix(v.Message, "fault "+v.Key+" "):
				of = aboutFault
			case strings.Contains(v.Message, " was not sealed after the run"):
				of = aboutSeal
			}
			if of == what {
				out = append(out, v)
			}
		}
	}
	return out
}

// has says whether a violation is shown by an event of a kind.
func has(v checker.Violation, op history.Op) bool { return eventOf(v, op) != nil }

func eventOf(v checker.Violation, op history.Op) *history.Event {
	for i := range v.Events {
		if v.Events[i].Event.Op == op {
			return &v.Events[i].Event
		}
	}
	return nil
}
