package reports

import (
	"fmt"
	"slices"
	"time"

	"fencepost/reports/chart"
	"fencepost/reports/measure"
)

// benchDrawings are the page's main charts, which need no scripts: a row an arm. A chart
// without data is empty.
func benchDrawings(ns []ArmNumbers) []chart.SVG {
	var latencies []chart.BenchLatency
	var ceilings, baselines []chart.BenchRatio
	for _, n := range ns {
		label := n.label(ns)
		latencies = append(latencies, chart.BenchLatency{Label: label, P50: n.Quantile(50), P95: n.Quantile(95), P99: n.Quantile(99), Top: n.Quantile(100)})
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
	rates := chart.Curves{Title: s.Scenario + ": jobs completed per second over time", Over: chart.OverTime, Height: 210, To: total, Lines: []chart.Curve{done}}
	if s.Rate > 0 {
		rates.Lines = append(rates.Lines, chart.Curve{Label: "offered", Color: chart.Muted.Name, Dash: []float64{5, 3}, X: []float64{0, total}, Y: []float64{s.Rate, s.Rate}})
	}
	out := []chart.Curves{rates}
	title := s.Scenario + ": lateness of runs by the time at which their jobs were meant to be asked for, logarithmic"
	if late, ok := chart.Lateness(title, total, done.X, p50, p99, greatest); ok {
		out = append(out, late)
	}
	return out, nil
}
