package reports

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/reports/chart"
	"fencepost/reports/measure"
	"fencepost/reports/stat"
)

// ArmNumbers are an arm's numbers over its rounds.
type ArmNumbers struct {
	Arm BenchArm
	// Rate is ok operations a second.
	Rate stat.Spread
	// LWTs are those for each operation, AllLWTs with those of the sink.
	LWTs, AllLWTs stat.Estimate
	Fair          stat.Spread // Jain's index between clients
	// ToCeiling compares row changes a second, ToBaseline and ToCopied operations a second,
	// in the same round; N is 0 where there is nothing to compare with.
	ToCeiling, ToBaseline, ToCopied Comparison
	OK, Fail, Unknown               int64
	// Costs are the quantities of BenchQuantities of which something was read.
	Costs []CostNumbers

	rates  []chart.RoundValue
	hist   *hdrhistogram.Histogram
	rounds map[int]*hdrhistogram.Histogram
	parts  []partNumbers
}

// Comparison is an arm by another, round by round.
type Comparison struct {
	stat.Estimate
	ratios []chart.RoundValue
}

// partNumbers is a part of an arm's latency.
type partNumbers struct {
	name string
	hist *hdrhistogram.Histogram
}

// RateEstimate is Rate with the interval of its median.
func (n ArmNumbers) RateEstimate() stat.Estimate {
	var rates []float64
	for _, r := range n.rates {
		rates = append(rates, r.Value)
	}
	return stat.EstimateOf(rates)
}

// Numbers evaluates the arms. An error names what is wrong with b.
func (b BenchResult) Numbers() ([]ArmNumbers, error) {
	byID := map[string]int{}
	for i, a := range b.Arms {
		if _, dup := byID[a.ID]; dup || a.ID == "" {
			return nil, fmt.Errorf("bench result: arm %d has the id %q, which is empty or not unique", i, a.ID)
		}
		byID[a.ID] = i
	}
	var out []ArmNumbers
	for _, a := range b.Arms {
		n, err := a.numbers()
		if err != nil {
			return nil, fmt.Errorf("bench result: arm %s, %w", a.ID, err)
		}
		out = append(out, n)
	}
	for i := range out {
		n := &out[i]
		for _, c := range []struct {
			what, id string
			of       *Comparison
			factor   func(BenchArm) float64
		}{{"ceiling", n.Arm.Ceiling, &n.ToCeiling, perOp}, {"baseline", n.Arm.Baseline, &n.ToBaseline, one},
			{"original", n.Arm.Control, &n.ToCopied, one}} {
			if c.id == "" {
				continue
			}
			at, ok := byID[c.id]
			if !ok || at == i {
				return nil, fmt.Errorf("bench result: arm %s: there is no other arm %q to be its %s", n.Arm.ID, c.id, c.what)
			}
			*c.of = compare(*n, out[at], c.factor(n.Arm)/c.factor(out[at].Arm))
		}
		if n.Arm.Control != "" {
			for k := range n.Costs {
				c := &n.Costs[k]
				c.ToCopied = c.By(out[byID[n.Arm.Control]].Cost(c.ID))
			}
		}
	}
	return out, nil
}

func (a BenchArm) numbers() (ArmNumbers, error) {
	n := ArmNumbers{Arm: a, hist: measure.NewHistogram(), rounds: map[int]*hdrhistogram.Histogram{}, Costs: a.costs()}
	var rates, lwts, all, fair []float64
	for _, r := range a.Rounds {
		if r.LWTs > 0 && r.Done > 0 {
			own, sinks := float64(r.LWTs)/float64(r.Done), 0.0
			if r.Ended > 0 {
				sinks = float64(r.SinkLWTs) / float64(r.Ended)
			}
			lwts, all = append(lwts, own), append(all, own+sinks)
		}
		if r.Fair > 0 {
			fair = append(fair, r.Fair)
		}
		n.OK, n.Fail, n.Unknown = n.OK+r.OK, n.Fail+r.Fail, n.Unknown+r.Unknown
		if r.Seconds > 0 {
			v := float64(r.OK) / r.Seconds
			rates = append(rates, v)
			n.rates = append(n.rates, chart.RoundValue{Round: r.Round, Value: v})
		}
		if r.Latency == "" {
			continue
		}
		h, err := DecodeHistogram(r.Latency)
		if err != nil {
			return n, fmt.Errorf("round %d: latency: %w", r.Round, err)
		}
		n.rounds[r.Round] = h
		if err := measure.Merge(n.hist, h); err != nil {
			return n, fmt.Errorf("round %d: %w", r.Round, err)
		}
	}
	n.Rate, n.Fair = stat.SpreadOf(rates), stat.SpreadOf(fair)
	n.LWTs, n.AllLWTs = stat.EstimateOf(lwts), stat.EstimateOf(all)
	for _, p := range a.Parts {
		h, err := DecodeHistogram(p.Latency)
		if err != nil || h == nil {
			return n, fmt.Errorf("%s: latency: %w", p.Name, errors.Join(err, errNoLatency))
		}
		n.parts = append(n.parts, partNumbers{p.Name, h})
	}
	return n, nil
}

var errNoLatency = errors.New("it has none")

// compare makes the ratios to another arm, round by round: what disturbs the
// machine disturbs both arms of a round, and so cancels.
func compare(n, other ArmNumbers, factor float64) Comparison {
	at := map[int]float64{}
	for _, r := range other.rates {
		at[r.Round] = r.Value
	}
	var c Comparison
	var vs []float64
	for _, r := range n.rates {
		if o := at[r.Round]; o > 0 {
			v := r.Value / o * factor
			vs = append(vs, v)
			c.ratios = append(c.ratios, chart.RoundValue{Round: r.Round, Value: v})
		}
	}
	c.Estimate = stat.EstimateOf(vs)
	return c
}

func one(BenchArm) float64 { return 1 }

func perOp(a BenchArm) float64 {
	if a.LWTsPerOp > 0 {
		return a.LWTsPerOp
	}
	return 1
}

// label tells the arm from the others by what differs among them.
func (n ArmNumbers) label(among []ArmNumbers) string {
	differs := func(of func(BenchArm) any) bool {
		return slices.ContainsFunc(among, func(o ArmNumbers) bool { return of(o.Arm) != of(n.Arm) })
	}
	s := n.Arm.Scenario
	if n.Arm.Contention != "" && differs(func(a BenchArm) any { return cmp.Or(a.Contention, n.Arm.Contention) }) {
		s += ", " + n.Arm.Contention
	}
	// Arms without leases say nothing about whether several TTLs are compared.
	if n.Arm.TTL > 0 && differs(func(a BenchArm) any { return cmp.Or(a.TTL, n.Arm.TTL) }) {
		s += ", ttl " + measure.FormatDuration(n.Arm.TTL)
	}
	if n.Arm.Shards > 0 { // which say how many clients there are
		return fmt.Sprintf("%s, %d %s", s, n.Arm.Shards, plural(n.Arm.Shards, "shard", "shards"))
	}
	return fmt.Sprintf("%s, %d %s", s, n.Arm.Threads, plural(n.Arm.Threads, "client", "clients"))
}

// Quantile is that of the latencies of all rounds together, 0 if there are none.
func (n ArmNumbers) Quantile(percent float64) time.Duration {
	return measure.Quantile(n.hist, percent)
}

// Parts are quantiles of what the latencies consist of, by name.
func (n ArmNumbers) Parts(percent float64) map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, p := range n.parts {
		out[p.name] = measure.Quantile(p.hist, percent)
	}
	return out
}

// RateText writes three significant digits at least, and no exponent.
func RateText(v float64) string {
	switch {
	case v >= 1000:
		return measure.FormatCount(int64(v + 0.5))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.2 || v == 0:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// benchDrawings are the page's main charts, which need no scripts: a row an arm. A chart
// without data is empty.
func benchDrawings(ns []ArmNumbers) []chart.SVG {
	var latencies []chart.BenchLatency
	var ceilings, baselines []chart.BenchRatio
	for _, n := range ns {
		label := n.label(ns)
		latencies = append(latencies, chart.BenchLatency{Label: label, P50: n.Quantile(50), P95: n.Quantile(95), P99: n.Quantile(99),
			Top: n.Quantile(100)})
		ceilings, baselines = append(ceilings, n.ToCeiling.line(label)), append(baselines, n.ToBaseline.line(label))
	}
	return []chart.SVG{
		chart.BenchRatios("ratios", "Ratio to the ceiling by round, with median and spread", "the ceiling", ceilings),
		chart.BenchRatios("baselines", "Ratio to the baseline by round, with median and spread", "the baseline", baselines),
		chart.BenchLatencies(latencies),
	}
}

func (c Comparison) line(label string) chart.BenchRatio {
	return chart.BenchRatio{Label: label, Rounds: c.ratios, Median: c.Median, Min: c.Min, Max: c.Max}
}

// benchCurves are throughput by number of clients and by round, as far as there are several.
func benchCurves(ns []ArmNumbers) (out []chart.Curves) {
	var rounds []chart.Curve
	for _, n := range ns {
		l := chart.Curve{Label: n.label(ns)}
		for _, r := range n.rates {
			l.X, l.Y = append(l.X, float64(r.Round)), append(l.Y, r.Value)
		}
		rounds = append(rounds, l)
	}
	for _, c := range []chart.Curves{
		chart.Compare("Operations per second by number of clients (bars: least to greatest round)", chart.OverClients, 270, scaling(ns)),
		chart.Compare("Operations per second by round", chart.OverRounds, 240, rounds),
	} {
		if c.From < c.To {
			out = append(out, c)
		}
	}
	return out
}

// scaling groups arms that differ in the number of clients alone. A queue's arms have as
// many clients as its shards need.
func scaling(ns []ArmNumbers) (out []chart.Curve) {
	ns = slices.Clone(ns)
	slices.SortStableFunc(ns, func(a, b ArmNumbers) int { return a.Arm.Threads - b.Arm.Threads })
	for _, n := range ns {
		label := n.Arm.Scenario
		if n.Arm.Contention != "" {
			label += ", " + n.Arm.Contention
		}
		if n.Arm.TTL > 0 {
			label += ", ttl " + measure.FormatDuration(n.Arm.TTL)
		}
		i := slices.IndexFunc(out, func(l chart.Curve) bool { return l.Label == label })
		if i < 0 {
			i, out = len(out), append(out, chart.Curve{Label: label})
		}
		l := &out[i]
		l.X, l.Y, l.Bars = append(l.X, float64(n.Arm.Threads)), append(l.Y, n.Rate.Median), append(l.Bars, [2]float64{n.Rate.Min, n.Rate.Max})
	}
	return out
}

// curves are a load over time: what was done a second beside what was asked for, and how
// late runs began, by when they were meant to.
func (s BenchSteady) curves() ([]chart.Curves, error) {
	for _, encoded := range []string{s.Late, s.Ended} {
		if _, err := DecodeHistogram(encoded); err != nil {
			return nil, fmt.Errorf("bench result: load %s: lateness: %w", s.ID, err)
		}
	}
	if len(s.Buckets) < 2 {
		return nil, nil
	}
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	total := 0.0
	done := chart.Curve{Label: "jobs/s", Color: chart.OKColor.Name, Fill: true}
	var p50, p99, greatest []time.Duration
	for _, b := range s.Buckets {
		done.X, done.Y = append(done.X, total+b.Seconds/2), append(done.Y, perSecond([]BenchBucket{b}))
		total += b.Seconds
		p50, p99, greatest = append(p50, us(b.LateP50)), append(p99, us(b.LateP99)), append(greatest, us(b.LateMax))
	}
	rates := chart.Curves{Title: s.Scenario + ": jobs completed per second over time", Over: chart.OverTime, Height: 210, To: total,
		Lines: []chart.Curve{done}}
	if s.Rate > 0 {
		rates.Lines = append(rates.Lines, chart.Curve{Label: "offered", Color: chart.Muted.Name, Dash: []float64{5, 3}, X: []float64{0, total},
			Y: []float64{s.Rate, s.Rate}})
	}
	out := []chart.Curves{rates}
	title := s.Scenario + ": lateness of runs by the time at which their jobs were meant to be asked for, logarithmic"
	if late, ok := chart.Lateness(title, total, done.X, p50, p99, greatest); ok {
		out = append(out, late)
	}
	return out, nil
}
