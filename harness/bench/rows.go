package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/harness/bench/stat"
	"fencepost/reports/measure"
)

// fewForP99 is the number of latencies below which p99 rests on a handful.
const fewForP99 = 1000

// controlMargin is how far from 1 the whole interval of a control's ratio may
// lie before the machine is too unsteady to compare anything.
const controlMargin = 0.15

// Quantile is a latency in ms: over all rounds together, and its range over rounds.
type Quantile struct {
	All float64 `json:"all"`
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// Row is an arm's result.
type Row struct {
	Arm Arm
	// Rate is the number of ok operations a second.
	Rate          stat.Spread
	P50, P95, P99 Quantile
	// Few says that P99 rests on fewer than 1,000 latencies.
	Few bool
	// LWTs and Reads are the conditional requests and plain reads sent for
	// each ok operation; Rejected is the part of the former that was refused.
	LWTs, Reads stat.Spread
	Rejected    float64
	// Ratio is row changes a second by those of the ceiling, in the same round:
	// see Kind.Changes. N is 0 for the ceiling itself.
	Ratio stat.Estimate
	// ToCopied is a control's rate by that of the arm that it copies.
	ToCopied stat.Estimate
	// OK, Fail and Unknown are over all rounds.
	OK, Fail, Unknown int64
	// Jain is the fairness between threads.
	Jain stat.Spread
	// Client and Nodes are how many cores this process and the database used.
	Client, Nodes stat.Spread
	// Oldest is the longest that an operation which no window counted had taken
	// when its window ended.
	Oldest time.Duration
	// Error is one of those met.
	Error string
}

// Rows are the results of all arms, in the plan's order.
func (r *Result) Rows() ([]Row, error) {
	rows := make([]Row, 0, len(r.Plan.Arms))
	for _, a := range r.Plan.Arms {
		row, err := r.row(a)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (r *Result) row(a Arm) (Row, error) {
	row := Row{Arm: a}
	samples := r.samples(a.ID)
	var rates, lwts, reads, fair, client, nodes []float64
	var sent, rejected int64
	all := measure.NewHistogram()
	for _, s := range samples {
		rates, fair = append(rates, s.Rate()), append(fair, jain(s))
		client, nodes = append(client, s.Load.Own), append(nodes, s.Load.Nodes)
		if s.Done > 0 {
			lwts, reads = append(lwts, s.LWTsPerOp()), append(reads, float64(s.Sent.Reads)/float64(s.Done))
		}
		sent, rejected = sent+s.Sent.LWTs, rejected+s.Sent.Rejected
		row.OK, row.Fail, row.Unknown = row.OK+s.OK, row.Fail+s.Fail, row.Unknown+s.Unknown
		row.Oldest = max(row.Oldest, s.Oldest)
		if row.Error == "" {
			row.Error = s.Error
		}
		if err := measure.Merge(all, s.Latency); err != nil {
			return row, fmt.Errorf("%s: %w", a.ID, err)
		}
	}
	row.Rate, row.LWTs, row.Reads, row.Jain = stat.SpreadOf(rates), stat.SpreadOf(lwts), stat.SpreadOf(reads), stat.SpreadOf(fair)
	row.Client, row.Nodes = stat.SpreadOf(client), stat.SpreadOf(nodes)
	row.P50, row.P95, row.P99 = quantile(all, samples, 50), quantile(all, samples, 95), quantile(all, samples, 99)
	row.Few = all.TotalCount() < fewForP99
	if sent > 0 {
		row.Rejected = float64(rejected) / float64(sent)
	}
	if a.Ceiling != "" {
		row.Ratio = r.ratio(a.ID, a.Ceiling)
	}
	if a.Control != "" {
		row.ToCopied = r.ratio(a.ID, a.Control)
	}
	return row, nil
}

func jain(s Sample) float64 { return stat.Jain(s.PerThread) }

// ratio compares two arms' row changes a second round by round.
func (r *Result) ratio(a, b string) stat.Estimate {
	ratios, _ := stat.Ratios(r.changes(a), r.changes(b))
	return stat.EstimateOf(ratios, r.Plan.Seed)
}

// rates is an arm's rate by round, changes that of its row changes.
func (r *Result) rates(id string) map[int]float64 {
	out := map[int]float64{}
	for _, s := range r.samples(id) {
		out[s.Round] = s.Rate()
	}
	return out
}

func (r *Result) changes(id string) map[int]float64 {
	out := r.rates(id)
	if a, err := r.Plan.Arm(id); err == nil {
		for round := range out {
			out[round] *= a.Kind.Changes()
		}
	}
	return out
}

func quantile(all *hdrhistogram.Histogram, samples []Sample, percent float64) Quantile {
	ms := func(h *hdrhistogram.Histogram) float64 { return float64(h.ValueAtQuantile(percent)) / 1000 }
	if all.TotalCount() == 0 {
		return Quantile{}
	}
	var each []float64
	for _, s := range samples {
		if s.Latency.TotalCount() > 0 {
			each = append(each, ms(s.Latency))
		}
	}
	spread := stat.SpreadOf(each)
	return Quantile{All: ms(all), Min: spread.Min, Max: spread.Max}
}

// Headlines say in a sentence each what the greatest number of threads makes of
// bare updates and of locks, compared round by round with one another and with
// the least number of threads.
func (r *Result) Headlines() []string {
	few, many := slices.Min(r.Plan.Threads), slices.Max(r.Plan.Threads)
	var out []string
	for _, a := range r.Plan.Arms {
		if a.Threads != many || a.Kind == KindWrite || a.Control != "" || a.Kind == KindLock && a.TTL != r.Plan.TTLs[0] {
			continue
		}
		s := fmt.Sprintf("%s with %d %s: median %s/s", a.Name(), many, plural(many, "thread", "threads"), number(stat.Median(slices.Collect(maps.Values(r.rates(a.ID))))))
		if a.Ceiling != "" {
			s += fmt.Sprintf(", %s times the row changes of the bare LWT", factor(r.ratio(a.ID, a.Ceiling)))
		}
		if one := strings.Replace(a.ID, fmt.Sprintf("/%d", many), fmt.Sprintf("/%d", few), 1); one != a.ID {
			s += fmt.Sprintf(", %s times its own rate with %d %s", factor(r.ratio(a.ID, one)), few, plural(few, "thread", "threads"))
		}
		out = append(out, s)
	}
	return out
}

func factor(e stat.Estimate) string {
	return fmt.Sprintf("%s [%s, %s]", number(e.Median), number(e.Low), number(e.High))
}

// judge adds what speaks against the numbers. It never changes one.
func (r *Result) judge() error {
	rows, err := r.Rows()
	if err != nil {
		return err
	}
	for _, row := range rows {
		a := row.Arm
		if row.OK == 0 {
			r.problem("%s: not one operation ended ok within %d windows of %s (%d failed, %d unknown)%s", a.ID, row.Rate.N, r.Plan.Window, row.Fail, row.Unknown, because(row.Error))
		} else if row.Rate.Min == 0 {
			r.note("%s: in at least one round no operation ended within the window%s", a.ID, because(row.Error))
		}
		if row.Rate.N < MinRounds {
			r.problem("%s: %d complete rounds, %d are needed", a.ID, row.Rate.N, MinRounds)
		}
		if starved := r.starved(a); starved > 0 {
			r.note("%s: in %d of %d windows a thread got nothing through from beginning to end; such waits are in no percentile", a.ID, starved, row.Rate.N)
		}
		if a.Control == "" {
			continue
		}
		e := row.ToCopied
		text := fmt.Sprintf("A/A control with %d threads: %.2f of the arm that it copies, 95 %% CI [%.2f, %.2f], range %.2f to %.2f", a.Threads, e.Median, e.Low, e.High, e.Min, e.Max)
		if e.Excludes(controlMargin) {
			r.problem("%s: two equal things differ by more than %.0f %%, so the machine was too unsteady to compare different ones", text, 100*controlMargin)
		} else {
			r.note("%s: %s", text, resolves(e))
		}
	}
	r.judgeWeather()
	return nil
}

// starved counts the windows in which a thread ended no operation at all.
func (r *Result) starved(a Arm) (n int) {
	for _, s := range r.samples(a.ID) {
		if s.Oldest >= r.Plan.Window*99/100 {
			n++
		}
	}
	return n
}

// resolves says what a control's interval means for other comparisons.
func resolves(e stat.Estimate) string {
	if e.Low <= 0 || e.High <= 0 {
		return "nothing can be told at this number of threads"
	}
	factor := max(e.High, 1/e.Low)
	text := fmt.Sprintf("differences between arms of less than %.0f %% are noise", 100*(factor-1))
	if factor > 1+2*controlMargin {
		text += "; repeat it on a quieter machine or with more rounds"
	}
	return text
}

// otherCores is how many cores others may keep busy before a reader is told to
// close them.
const otherCores = 0.2

// judgeWeather says what others did on the machine meanwhile.
func (r *Result) judgeWeather() {
	var other, stolen []float64
	for _, s := range r.Samples {
		if s.Load.Known {
			other, stolen = append(other, s.Load.Other), append(stolen, s.Load.Stolen)
		}
	}
	if len(other) == 0 {
		return
	}
	o, t := stat.SpreadOf(other), stat.SpreadOf(stolen)
	text := fmt.Sprintf("cores kept busy by other programs: median %.2f, most %.2f; taken by the machine below: median %.2f, most %.2f", o.Median, o.Max, t.Median, t.Max)
	if o.Median > otherCores || t.Median > otherCores {
		text += ": for steadier numbers run it alone"
	}
	r.note("%s", text)
}

func because(err string) string {
	if err == "" {
		return ""
	}
	return "; one error: " + err
}

func (r *Result) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

func (r *Result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Exit codes of a benchmark.
const (
	ExitOK        = 0
	ExitViolation = 1 // a lock broke its promise
	ExitInvalid   = 3 // the numbers are not to be quoted
)

// ExitCode is what the result means to whoever waits for it.
func (r *Result) ExitCode() int {
	switch {
	case len(r.Violations) > 0:
		return ExitViolation
	case len(r.Problems) > 0:
		return ExitInvalid
	}
	return ExitOK
}
