// Package stat holds the few statistics that a benchmark on a noisy machine
// needs: estimates over rounds, ratios paired by round, and a fairness index.
//
// The unit of analysis is the round, never the single request: requests of one
// round share its weather (a collector's pause, a neighbour's build) and are not
// independent. What is compared ran in the same round, so that drift and noise
// that last longer than a round cancel in the ratio.
package stat

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Confidence is that of every interval.
const Confidence = 0.95

// Resamples is how many bootstrap samples an interval is taken from.
const Resamples = 10_000

// Spread is a value over rounds: its median and range. N is the number of
// rounds; all is 0 when it is.
type Spread struct {
	N      int     `json:"n"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// SpreadOf summarizes values. The order does not matter.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	return Spread{N: len(values), Median: Median(values), Min: slices.Min(values), Max: slices.Max(values)}
}

// Estimate is a Spread with a bootstrap confidence interval of the median.
type Estimate struct {
	Spread
	// Low and High bound the interval of Confidence. With five rounds or fewer
	// it is the whole range: so few rounds cannot say more.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// EstimateOf summarizes values; the same seed gives the same interval.
func EstimateOf(values []float64, seed uint64) Estimate {
	e := Estimate{Spread: SpreadOf(values)}
	e.Low, e.High = BootstrapMedian(values, Resamples, Confidence, rand.New(rand.NewPCG(seed, uint64(len(values)))))
	return e
}

// Excludes says that the whole interval lies further from 1 than the factor
// 1+margin either way. An empty estimate excludes nothing.
func (e Estimate) Excludes(margin float64) bool {
	return e.N > 0 && (e.Low > 1+margin || e.High < 1/(1+margin))
}

// Median returns the middle value, the mean of the middle two for an even
// number, 0 for none.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	return medianSorted(slices.Sorted(slices.Values(values)))
}

func medianSorted(s []float64) float64 {
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

// BootstrapMedian returns the percentile bootstrap interval of the median:
// values are drawn with replacement, as many as there are, resamples times.
func BootstrapMedian(values []float64, resamples int, confidence float64, rng *rand.Rand) (low, high float64) {
	n := len(values)
	if n == 0 || resamples < 1 {
		return 0, 0
	}
	medians := make([]float64, resamples)
	sample := make([]float64, n)
	for i := range medians {
		for j := range sample {
			sample[j] = values[rng.IntN(n)]
		}
		slices.Sort(sample)
		medians[i] = medianSorted(sample)
	}
	slices.Sort(medians)
	tail := (1 - confidence) / 2
	at := func(q float64) float64 {
		i := int(math.Ceil(q*float64(resamples))) - 1
		return medians[min(max(i, 0), resamples-1)]
	}
	return at(tail), at(1 - tail)
}

// Ratios divides a by b round by round. Rounds that only one of them has, and
// rounds in which b is 0, have no ratio; missing counts them.
func Ratios(a, b map[int]float64) (ratios []float64, missing int) {
	rounds := make([]int, 0, len(a))
	for r := range a {
		rounds = append(rounds, r)
	}
	slices.Sort(rounds)
	for _, r := range rounds {
		d, ok := b[r]
		if !ok || d == 0 {
			missing++
			continue
		}
		ratios = append(ratios, a[r]/d)
	}
	for r := range b {
		if _, ok := a[r]; !ok {
			missing++
		}
	}
	return ratios, missing
}

// Jain is Jain's fairness index of what each contender got: 1 if all got the
// same, 1/n if one of n got everything. It is 0 for nothing at all.
func Jain(got []int64) float64 {
	var sum, squares float64
	for _, x := range got {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(got)) * squares)
}
