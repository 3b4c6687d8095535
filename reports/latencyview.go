package reports

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"fencepost/harness/record/history"
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
		return v.Count() < fewRow && !v.Whole() && !slices.Contains([]string{history.PhaseBefore, history.PhaseFault, history.PhaseRecover}, v.Phase)
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
	text := fmt.Sprintf("%d %s ended without a release; %d could be held against the bound of P11.", rec.Orphans, plural(rec.Orphans, "grant", "grants"), rec.Judged)
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
