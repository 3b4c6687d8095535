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
	"fencepost/reports/chart"
	"fencepost/reports/measure"
)

type opView struct {
	Title, About string
	Rows         []latencyView
}

type latencyView struct {
	Phase                                      string
	OK, Fail, Unknown, P50, P95, P99, Max      string
	N                                          int
	Few, HasRange, All, Fault                  bool
	Left, Width, MaxAt                         float64 // of the range bar, in percent
	Ratio, RatioClass, RangeLabel, UnknownMark string
}

// latencyTable makes the table's rows with their range bars on one log scale.
func (r *run) latencyTable() (out []opView, scale []string) {
	lo, hi := math.Inf(1), 0.0
	for _, l := range r.analysis.Latencies {
		if l.OK > 0 {
			lo, hi = min(lo, l.P50.Seconds()), max(hi, l.Max.Seconds())
		}
	}
	lo, hi = math.Pow(10, math.Floor(math.Log10(max(lo, 1e-6)))), math.Pow(10, math.Ceil(math.Log10(max(hi, 1e-6))))
	if hi <= lo || math.IsInf(lo, 0) {
		lo, hi = 1e-3, 1
	}
	at := func(d time.Duration) float64 {
		return min(max(100*math.Log10(max(d.Seconds(), lo)/lo)/math.Log10(hi/lo), 0), 100)
	}
	for _, l := range r.analysis.Latencies {
		title := measure.OpTitle(l.Op)
		if len(out) == 0 || out[len(out)-1].Title != title {
			out = append(out, opView{Title: title, About: measure.OpAbout(l.Op)})
		}
		op := &out[len(out)-1]
		op.Rows = append(op.Rows, r.latencyRow(l, at))
	}
	for i := range out {
		out[i].Rows = worthShowing(out[i].Rows)
	}
	return out, []string{measure.FormatDuration(time.Duration(lo * 1e9)), measure.FormatDuration(time.Duration(hi * 1e9))}
}

// fewRow is the number of operations below which a phase's row is in
// latency.csv only, unless the phase is one that a reader looks for.
const fewRow = 10

func worthShowing(rows []latencyView) []latencyView {
	if len(rows) == 2 { // a single phase and the same again as the whole run
		return rows[:1]
	}
	out := slices.DeleteFunc(slices.Clone(rows), func(v latencyView) bool {
		return v.N < fewRow && !v.All && !slices.Contains([]string{history.PhaseBefore, history.PhaseFault, history.PhaseRecover}, v.Phase)
	})
	if len(out) == 1 { // few operations in all: then every row says something
		return rows
	}
	return out
}

func (r *run) latencyRow(l measure.Latency, at func(time.Duration) float64) latencyView {
	v := latencyView{
		Phase: l.Phase, N: l.Count(), Fault: l.Phase == history.PhaseFault && len(r.analysis.Faults) > 0, OK: measure.FormatCount(l.OK), Fail: measure.FormatCount(l.Fail), Unknown: measure.FormatCount(l.Unknown),
		P50: "–", P95: "–", P99: "–", Max: "–", Ratio: "", All: l.Phase == measure.AllPhases,
	}
	switch l.Phase {
	case "":
		v.Phase = "set-up"
	case measure.AllPhases:
		v.Phase = "whole run"
	}
	if l.Unknown > 0 {
		v.UnknownMark = "unknown"
	}
	if l.OK == 0 {
		return v
	}
	v.Few, v.HasRange = l.Few(), true
	v.P50, v.P95, v.P99, v.Max = measure.FormatDuration(l.P50), measure.FormatDuration(l.P95), measure.FormatDuration(l.P99), measure.FormatDuration(l.Max)
	v.Left, v.MaxAt = at(l.P50), at(l.Max)
	v.Width = max(at(l.P99)-v.Left, 1)
	v.RangeLabel = fmt.Sprintf("p50 %s to p99 %s, maximum %s", v.P50, v.P99, v.Max)
	if b, ok := r.analysis.Latency(l.Op, history.PhaseBefore); ok && b.OK > 0 && r.afterBefore(l.Phase) {
		ratio := measure.Ratio(l.P99, b.P99)
		v.Ratio = times(ratio)
		if ratio >= 2 {
			v.RatioClass = "up"
		}
	}
	return v
}

// afterBefore says that a phase comes after the undisturbed one, so that a
// comparison with it says something.
func (r *run) afterBefore(phase string) bool {
	names := r.analysis.PhaseNames()
	return slices.Index(names, phase) > slices.Index(names, history.PhaseBefore)
}

type slowView struct{ At, Phase, Op, Proc, Key, Latency, Outcome, Where, Link string }

// maxSlowest bounds the table of single slow operations.
const maxSlowest = 10

func (r *run) slowest() []slowView {
	type entry struct {
		op history.Operation
		d  time.Duration
	}
	var all []entry
	for _, op := range r.analysis.Ops {
		if op.End.TS != 0 && op.Outcome != history.Fail && measure.Client(op.Invoke.Proc) && op.Invoke.Op != history.OpLock {
			all = append(all, entry{op, time.Duration(op.End.TS - op.Invoke.TS)})
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return int(min(max(b.d-a.d, -1), 1)) })
	var out []slowView
	for _, e := range all[:min(len(all), maxSlowest)] {
		in := e.op.Invoke
		out = append(out, slowView{
			At: r.clock(in.TS), Phase: r.analysis.Phase(e.op), Op: chart.OperationText(e.op), Proc: in.Proc, Key: in.Key,
			Latency: measure.FormatDuration(e.d), Outcome: string(e.op.Outcome),
			Where: fmt.Sprintf("%s:%d", relative(in.File), in.Line), Link: relative(in.File),
		})
	}
	return out
}

// recoveryView is how the run came back from its faults, as the checker found it.
type recoveryView struct {
	Orphans string // in a sentence, "" if there is nothing to tell
	Rows    []recoveryRow
	// Progress is what was got done while faults were in force.
	Progress []progressRow
}

type progressRow struct{ Fault, Cycles, Gap, Most, Which string }

type recoveryRow struct{ ID, Name, First, Slowest, Lock, Locks string }

func (r *run) recovery() recoveryView {
	if r.verdict == nil || r.verdict.Recovery == nil {
		return recoveryView{}
	}
	rec := r.verdict.Recovery
	var v recoveryView
	for _, p := range r.verdict.Progress {
		v.Progress = append(v.Progress, progressRow{p.Fault, fmt.Sprintf("%d of %d", p.Cycles, p.MinCycles), duration(p.GapMS), duration(p.MostMS), cmp.Or(p.Key, "all")})
	}
	if rec.Orphans > 0 {
		v.Orphans = fmt.Sprintf("%d %s ended without a release; %d could be held against the bound of P11.", rec.Orphans, plural(rec.Orphans, "grant", "grants"), rec.Judged)
		if rec.MaxTTL > 0 {
			v.Orphans += fmt.Sprintf(" From the holder’s last write to the takeover: %.2f TTL (p50), %.2f TTL at most.", rec.P50TTL, rec.MaxTTL)
		}
		var why []string
		for _, reason := range slices.Sorted(maps.Keys(rec.NotJudged)) {
			why = append(why, fmt.Sprintf("%d: %s", rec.NotJudged[reason], reason))
		}
		if len(why) > 0 {
			v.Orphans += " Not judged " + strings.Join(why, ", ") + "."
		}
	}
	for _, f := range rec.Faults {
		row := recoveryRow{ID: f.ID, Name: f.Name, First: "none followed", Slowest: "–", Lock: "–", Locks: fmt.Sprint(f.Locks)}
		if f.Locks > 0 {
			row.First, row.Slowest, row.Lock = duration(f.FirstMS), duration(f.SlowestMS), cmp.Or(f.SlowestLock, "–")
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

func duration(ms float64) string {
	return measure.FormatDuration(time.Duration(ms * float64(time.Millisecond)))
}
