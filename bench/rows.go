package bench

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/reports"
	"fencepost/reports/measure"
	"fencepost/reports/stat"
)

// Numbers are those of all arms, in the plan's order.
func (r *Result) Numbers() ([]reports.ArmNumbers, error) {
	b := reports.BenchResult{Seed: r.Plan.Seed}
	for _, a := range r.Plan.Arms {
		arm, err := r.reportArm(a)
		if err != nil {
			return nil, err
		}
		b.Arms = append(b.Arms, arm)
	}
	return b.Numbers()
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
	s := fmt.Sprintf("%s%s: median %s/s", a.Name, who, reports.RateText(stat.Median(rates)))
	if a.Ceiling != "" {
		s += fmt.Sprintf(", %s times %s of the bare LWT", Factor(r.changesRatio(a.ID, a.Ceiling)), what)
	}
	return s
}

// Factor writes a ratio with its interval.
func Factor(e stat.Estimate) string {
	return fmt.Sprintf("%s [%s, %s]", reports.RateText(e.Median), reports.RateText(e.Low), reports.RateText(e.High))
}
