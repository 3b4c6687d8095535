package reports

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/reports/chart"
	"fencepost/reports/measure"
)

// maxDrawn bounds the windows drawn a property; the others have their tables.
const maxDrawn = 4

type violationView struct {
	ID, Property, Heading, Message string
	Key, Window                    string
	Drawing                        template.HTML
	Visualization                  string
	Rows                           []eventRow
	Log                            string // what the process printed that it is about
	LogFile, LogTo                 string
	Folded                         bool
	More                           string // about violations that are not listed
}

type eventRow struct {
	history.Event
	N                       int
	At, Since, Told, Detail string
}

// jump leads from the verdict to a property's first violation.
type jump struct{ ID, Text string }

// Jumps lead to the violations.
func (r *run) Jumps() (out []jump) {
	if r.Verdict == nil {
		return nil
	}
	for _, p := range r.Verdict.Properties {
		if p.Status == checker.StatusInvalid || len(p.Violations) == 0 {
			continue
		}
		n := max(p.Count, len(p.Violations))
		out = append(out, jump{violationID(p.ID, 0), fmt.Sprintf("%s: %s %s", p.ID, measure.FormatCount(n), plural(n, "violation", "violations"))})
	}
	return out
}

// Violations makes the views, in the order of the properties.
func (r *run) Violations() []violationView {
	if r.Verdict == nil {
		return nil
	}
	var out []violationView
	for _, p := range r.Verdict.Properties {
		if p.Status == checker.StatusInvalid {
			continue // reasons for INVALID stand at the top of the page
		}
		for i, v := range p.Violations {
			view := r.violation(p, i, v)
			if i == len(p.Violations)-1 && p.Count > len(p.Violations) {
				view.More = fmt.Sprintf("%s has %s more that are not listed.", p.ID, measure.FormatCount(p.Count-len(p.Violations)))
			}
			out = append(out, view)
		}
	}
	return out
}

func (r *run) violation(p checker.Property, i int, v checker.Violation) violationView {
	view := violationView{
		ID: violationID(p.ID, i), Property: p.ID, Message: sentenceCase(v.Message), Key: v.Key, Folded: i >= 2,
		Heading: violationHeading(p, i), Visualization: safeLink(p.Visualization),
	}
	if from, to := window(v); to > from {
		view.Window = fmt.Sprintf("%s to %s of the run, %s long", r.Clock(from), r.Clock(to), measure.FormatDuration(time.Duration(to-from)))
	}
	var events []history.Event
	var last int64
	for n, ref := range v.Events {
		e := ref.Event
		e.File, e.Line = ref.File, ref.Line
		events = append(events, e)
		row := eventRow{
			Event: e, N: n + 1, At: r.Clock(e.TS), Told: r.eventText(e), Detail: eventDetail(e),
		}
		if e.Op == history.NoteLedger {
			row.At = "after the run"
		} else if last > 0 {
			row.Since = "+" + measure.FormatDuration(time.Duration(e.TS-last))
		}
		if l := e.Life(); l != nil && len(l.Log) > 0 {
			view.Log, view.LogFile, view.LogTo = strings.Join(l.Log, "\n"), l.LogFile, rundir.LogDir+"/"+l.LogFile
		}
		last = e.TS
		view.Rows = append(view.Rows, row)
	}
	if i < maxDrawn && r.history != nil {
		view.Drawing = chart.Window(r.Analysis, chart.WindowInput{
			Name: view.ID, Title: fmt.Sprintf("%s: %s", view.Heading, v.Message), Events: events, From: v.From, To: v.To,
		}).Inline()
	}
	return view
}

func violationHeading(p checker.Property, i int) string {
	return fmt.Sprintf("%s, violation %d of %s", p.ID, i+1, measure.FormatCount(max(p.Count, len(p.Violations))))
}

// window is the stretch of the run that a violation spans. The sink's ledger is
// read after the run: its instants are no part of what happened.
func window(v checker.Violation) (from, to int64) {
	for _, ref := range v.Events {
		if ref.Event.Op == history.NoteLedger {
			continue
		}
		if from == 0 || ref.Event.TS < from {
			from = ref.Event.TS
		}
		to = max(to, ref.Event.TS)
	}
	if from == 0 {
		return v.From, v.To
	}
	return from, to
}

// eventText says what an event is; an end is told with what its invoke says.
func (r *run) eventText(e history.Event) string {
	switch e.Type {
	case history.OK, history.Fail, history.Unknown:
		if op, ok := r.Analysis.Operation(e); ok {
			op.End, op.Outcome = e, e.Type
			return chart.OperationText(op)
		}
	}
	return chart.EventText(e)
}

// eventDetail is what an event says beyond its short text.
func eventDetail(e history.Event) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if e.Key != "" {
		add("%s", e.Key)
	}
	if e.Issuer != "" && e.Issuer != e.Key {
		add("issuer %s", e.Issuer)
	}
	if e.From != nil && e.To != nil {
		add("if row is %s, set %s", chart.VersionText(e.From), chart.VersionText(e.To))
	}
	if e.Row != nil && e.Type != history.Fail {
		add("row %s", chart.VersionText(e.Row))
	}
	if n := len(e.Sends); n > 1 {
		add("sent %d times", n)
	}
	if e.EffectKey != "" {
		add("key %s", e.EffectKey)
	}
	if l := e.Life(); l != nil {
		add("%s, pid %d", l.Kind, l.PID)
		if l.Asked != "" {
			add("%s by %s, %s before", l.Asked, l.By, measure.FormatDuration(time.Duration(l.TookMS)*time.Millisecond))
		}
	}
	if e.Result != "" {
		add("%s, seen %d", e.Result, e.Seen)
	}
	if l := e.Ledger(); l != nil {
		add("issuer %s", l.Issuer)
		if l.EffectKey != "" {
			add("key %s", l.EffectKey)
		}
	}
	if e.DecidedAt > 0 && e.TS-e.DecidedAt >= int64(time.Millisecond) {
		add("decided %s before", measure.FormatDuration(time.Duration(e.TS-e.DecidedAt)))
	}
	if e.ServerTimeout {
		add("the server's own timeout")
	}
	if e.Error != "" {
		add("%s", e.Error)
	}
	return strings.Join(parts, "; ")
}
