package bench

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/reports/measure"
	"fencepost/reports/stat"
)

// fewForP99 is the number of latencies below which p99 rests on a handful.
const fewForP99 = 1000

// Part is a part of an arm's latency.
type Part struct {
	Name          string
	P50, P95, P99 Quantile
}

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
	// Parts are those of the latency.
	Parts []Part
	// LWTs and Plain are the conditional requests and others sent for
	// each ok operation; Rejected is the part of the former that was refused. AllLWTs
	// are with those of the sink.
	LWTs, AllLWTs stat.Estimate
	Plain         stat.Spread
	Rejected      float64
	// Ratio is row changes a second by those of the ceiling, in the same round:
	// see Arm.Changes. N is 0 for the ceiling itself. ToBaseline is operations a
	// second by those of the baseline.
	Ratio, ToBaseline stat.Estimate
	// ToCopied is a control's rate by that of the arm that it copies.
	ToCopied stat.Estimate
	// OK, Fail and Unknown are over all rounds.
	OK, Fail, Unknown int64
	// Jain is the fairness between thplain.
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
	var rates, lwts, all, plain, fair, client, nodes []float64
	var sent, rejected int64
	for _, s := range samples {
		rates, fair = append(rates, s.Rate()), append(fair, jain(s))
		client, nodes = append(client, s.Load.Own), append(nodes, s.Load.Nodes)
		if s.Done > 0 {
			lwts, all, plain = append(lwts, s.LWTsPerOp()), append(all, s.AllLWTsPerOp()), append(plain, s.perOp(s.Sent.Plain))
		}
		sent, rejected = sent+s.Sent.LWTs, rejected+s.Sent.Rejected
		row.OK, row.Fail, row.Unknown = row.OK+s.OK, row.Fail+s.Fail, row.Unknown+s.Unknown
		row.Oldest = max(row.Oldest, s.Oldest)
		if row.Error == "" {
			row.Error = s.Error
		}
	}
	row.Rate, row.Plain, row.Jain = stat.SpreadOf(rates), stat.SpreadOf(plain), stat.SpreadOf(fair)
	row.LWTs, row.AllLWTs = stat.EstimateOf(lwts), stat.EstimateOf(all)
	row.Client, row.Nodes = stat.SpreadOf(client), stat.SpreadOf(nodes)
	if sent > 0 {
		row.Rejected = float64(rejected) / float64(sent)
	}
	if a.Ceiling != "" {
		row.Ratio = r.changesRatio(a.ID, a.Ceiling)
	}
	if a.Baseline != "" {
		row.ToBaseline = r.Ratio(a.ID, a.Baseline, Sample.Rate)
	}
	if a.Control != "" {
		row.ToCopied = r.Ratio(a.ID, a.Control, Sample.Rate)
	}
	return row, row.latencies(samples)
}

// latencies merges those of all rounds.
func (row *Row) latencies(samples []Sample) error {
	whole, err := quantiles("", samples, func(s Sample) *hdrhistogram.Histogram { return s.Latency })
	if err != nil {
		return fmt.Errorf("%s: %w", row.Arm.ID, err)
	}
	row.P50, row.P95, row.P99 = whole.P50, whole.P95, whole.P99
	row.Few = row.OK < fewForP99
	for i, name := range row.Arm.Parts {
		p, err := quantiles(name, samples, func(s Sample) *hdrhistogram.Histogram { return s.Parts[i] })
		if err != nil {
			return fmt.Errorf("%s, %s: %w", row.Arm.ID, name, err)
		}
		row.Parts = append(row.Parts, p)
	}
	return nil
}

func quantiles(name string, samples []Sample, of func(Sample) *hdrhistogram.Histogram) (Part, error) {
	all, err := merged(samples, of)
	if err != nil {
		return Part{}, err
	}
	at := func(percent float64) Quantile {
		if all.TotalCount() == 0 {
			return Quantile{}
		}
		ms := func(h *hdrhistogram.Histogram) float64 { return float64(h.ValueAtQuantile(percent)) / 1000 }
		var each []float64
		for _, s := range samples {
			if h := of(s); h.TotalCount() > 0 {
				each = append(each, ms(h))
			}
		}
		spread := stat.SpreadOf(each)
		return Quantile{All: ms(all), Min: spread.Min, Max: spread.Max}
	}
	return Part{Name: name, P50: at(50), P95: at(95), P99: at(99)}, nil
}

func merged(samples []Sample, of func(Sample) *hdrhistogram.Histogram) (*hdrhistogram.Histogram, error) {
	all := measure.NewHistogram()
	for _, s := range samples {
		if err := measure.Merge(all, of(s)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func jain(s Sample) float64 { return stat.Jain(s.PerThread) }

// compete: the arm's threads compete with each other, so that fairness means something.
// Those of a queue of jobs only keep it full.
func (a Arm) compete() bool { return a.Threads > 1 && a.Shards == 0 }

// Ratio compares a value of two arms round by round.
func (r *Result) Ratio(a, b string, of func(Sample) float64) stat.Estimate {
	return r.RatioOf(a, of, b, of)
}

// RatioOf compares a value of one arm with a value of another round by round.
func (r *Result) RatioOf(a string, ofA func(Sample) float64, b string, ofB func(Sample) float64) stat.Estimate {
	ratios, _ := stat.Ratios(r.byRound(a, ofA), r.byRound(b, ofB))
	return stat.EstimateOf(ratios)
}

// changesRatio compares two arms' row changes a second.
func (r *Result) changesRatio(a, b string) stat.Estimate {
	changes := func(id string) func(Sample) float64 {
		arm, err := r.Plan.Arm(id)
		if err != nil {
			return func(Sample) float64 { return 0 }
		}
		return func(s Sample) float64 { return s.Rate() * arm.changes() }
	}
	return r.RatioOf(a, changes(a), b, changes(b))
}

// byRound is a value of an arm by round.
func (r *Result) byRound(id string, of func(Sample) float64) map[int]float64 {
	out := map[int]float64{}
	for _, s := range r.samples(id) {
		out[s.Round] = of(s)
	}
	return out
}

// Headline says in a sentence how fast an arm was, as a factor of what is named.
func (r *Result) Headline(a Arm, who string) string {
	var rates []float64
	for _, s := range r.samples(a.ID) {
		rates = append(rates, s.Rate())
	}
	what := "the rate"
	if a.Changes > 0 {
		what = "the row changes"
	}
	s := fmt.Sprintf("%s%s: median %s/s", a.Name, who, Number(stat.Median(rates)))
	if a.Ceiling != "" {
		s += fmt.Sprintf(", %s times %s of the bare LWT", Factor(r.changesRatio(a.ID, a.Ceiling)), what)
	}
	return s
}

// Factor writes a ratio with its interval.
func Factor(e stat.Estimate) string {
	return fmt.Sprintf("%s [%s, %s]", Number(e.Median), Number(e.Low), Number(e.High))
}
