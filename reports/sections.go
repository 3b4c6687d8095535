package reports

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/reports/chart"
	"fencepost/reports/measure"
)

// latencyTable are the latencies with their range bars on one log scale, from Low to High.
type latencyTable struct {
	Low, High time.Duration
	Ops       []opRows
}

type opRows struct {
	Op   history.Op
	Rows []latencyRow
}

// latencyRow is a row with its range bar, in percent of the bar's room.
type latencyRow struct {
	measure.Latency
	Left, Width, MaxAt float64
	Ratio              float64 // of the p99 to that before the faults; 0: none
	RatioText          string
}

// Table makes the table of latencies.
func (r *run) Table() (table latencyTable) {
	lo, hi := math.Inf(1), 0.0
	for _, l := range r.Analysis.Latencies {
		if l.OK > 0 {
			lo, hi = min(lo, l.P50.Seconds()), max(hi, l.Max.Seconds())
		}
	}
	lo, hi = math.Pow(10, math.Floor(math.Log10(max(lo, 1e-6)))), math.Pow(10, math.Ceil(math.Log10(max(hi, 1e-6))))
	if hi <= lo || math.IsInf(lo, 0) {
		lo, hi = 1e-3, 1
	}
	table.Low, table.High = time.Duration(lo*1e9), time.Duration(hi*1e9)
	at := func(d time.Duration) float64 {
		return min(max(100*math.Log10(max(d.Seconds(), lo)/lo)/math.Log10(hi/lo), 0), 100)
	}
	for _, l := range r.Analysis.Latencies {
		if n := len(table.Ops); n == 0 || table.Ops[n-1].Op != l.Op {
			table.Ops = append(table.Ops, opRows{Op: l.Op})
		}
		row := latencyRow{Latency: l}
		if l.OK > 0 {
			row.Left, row.MaxAt = at(l.P50), at(l.Max)
			row.Width = max(at(l.P99)-row.Left, 1)
		}
		if b := r.Analysis.Latencies.Of(l.Op, history.PhaseBefore); l.OK > 0 && b.OK > 0 && r.afterBefore(l.Phase) {
			row.Ratio = measure.Ratio(l.P99, b.P99)
			row.RatioText = times(row.Ratio)
		}
		op := &table.Ops[len(table.Ops)-1]
		op.Rows = append(op.Rows, row)
	}
	for i := range table.Ops {
		table.Ops[i].Rows = worthShowing(table.Ops[i].Rows)
	}
	return table
}

// Whole says that the row is of the whole run.
func (l latencyRow) Whole() bool { return l.Phase == measure.AllPhases }

// Slower says that the p99 is far above that before the faults.
func (l latencyRow) Slower() bool { return l.Ratio >= 2 }

// fewRow is the number of operations below which a phase's row is in
// latency.csv only, unless the phase is one that a reader looks for.
const fewRow = 10

func worthShowing(rows []latencyRow) []latencyRow {
	if len(rows) == 2 { // a single phase and the same again as the whole run
		return rows[:1]
	}
	out := slices.DeleteFunc(slices.Clone(rows), func(v latencyRow) bool {
		return v.Count() < fewRow && !v.Whole() && !slices.Contains([]string{history.PhaseBefore, history.PhaseFault, history.PhaseRecover},
			v.Phase)
	})
	if len(out) == 1 { // few operations in all: then every row says something
		return rows
	}
	return out
}

// afterBefore says that a phase comes after the undisturbed one, so that a
// comparison with it says something.
func (r *run) afterBefore(phase string) bool {
	names := r.Analysis.PhaseNames()
	return slices.Index(names, phase) > slices.Index(names, history.PhaseBefore)
}

// maxSlowest bounds the table of single slow operations.
const maxSlowest = 10

// Slowest are the slowest operations, without the waiting for locks.
func (r *run) Slowest() []history.Operation {
	all := slices.DeleteFunc(slices.Clone(r.Analysis.Ops), func(op history.Operation) bool {
		return op.End.TS == 0 || op.Outcome == history.Fail || !measure.Client(op.Invoke.Proc) || op.Invoke.Op == history.OpLock
	})
	slices.SortStableFunc(all, func(a, b history.Operation) int { return cmp.Compare(b.End.TS-b.Invoke.TS, a.End.TS-a.Invoke.TS) })
	return all[:min(len(all), maxSlowest)]
}

// Orphans says how the run came back from grants without a release, as the checker found it;
// "" if there is nothing to tell.
func (r *run) Orphans() string {
	rec := r.Verdict.Recovery
	if rec.Orphans == 0 {
		return ""
	}
	text := fmt.Sprintf("%d %s ended without a release; %d could be held against the bound of P11.", rec.Orphans,
		plural(rec.Orphans, "grant", "grants"), rec.Judged)
	if rec.MaxTTL > 0 {
		text += fmt.Sprintf(" From the holder’s last write to the takeover: %.2f TTL (p50), %.2f TTL at most.", rec.P50TTL, rec.MaxTTL)
	}
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(rec.NotJudged)) {
		why = append(why, fmt.Sprintf("%d: %s", rec.NotJudged[reason], reason))
	}
	if len(why) > 0 {
		text += " Not judged " + strings.Join(why, ", ") + "."
	}
	return text
}

func milliseconds(ms float64) string {
	return measure.FormatDuration(time.Duration(ms * float64(time.Millisecond)))
}

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
		out = append(out, jump{violationID(p.ID, 0), fmt.Sprintf("%s: %s %s", p.ID, measure.FormatCount(n),
			plural(n, "violation", "violations"))})
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
