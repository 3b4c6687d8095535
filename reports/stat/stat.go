// Package stat holds the few statistics that a benchmark on a noisy machine
// needs: estimates over rounds, ratios paired by round, and a fairness index.
//
// The unit of analysis is the round, never the single request: requests of one
// round share its weather (a collector's pause, a neighbour's build) and are not
// independent. What is compared ran in the same round, so that drift and noise
// that last longer than a round cancel in the ratio.
//
// Intervals are of the median, between two order statistics: their confidence is at least the
// one asked for, and nothing is assumed of how the values are distributed. It is the method of
// golang.org/x/perf/benchmath, with two differences for which that is not used here. Its
// interval is unbounded for less than six values, and five rounds are usual. And it takes one
// of two equally good intervals (of eight values the 1st to the 7th), so that the interval of a
// ratio would not be that of its inverse. Of two runs, whose rounds are not paired, it tests
// whether they differ (Mann and Whitney) and does not say within which bounds; RatioOf does.
package stat

import (
	"math"
	"slices"
)

// Confidence is that of every interval, at least.
const Confidence = 0.95

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

// Estimate is a Spread with a confidence interval of the median.
type Estimate struct {
	Spread
	// Low and High bound the interval of Confidence. With five rounds or fewer
	// it is the whole range: so few rounds cannot say more.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// EstimateOf summarizes values. The order does not matter.
func EstimateOf(values []float64) Estimate {
	e := Estimate{Spread: SpreadOf(values)}
	if e.N > 0 {
		sorted, k := slices.Sorted(slices.Values(values)), max(order(e.N), 1)
		e.Low, e.High = sorted[k-1], sorted[e.N-k]
	}
	return e
}

// order is the greatest k for which the kth to the kth last of n values hold the median with
// Confidence, 0 if none does: they miss it with probability 2 P(Bin(n, 1/2) < k).
func order(n int) (k int) {
	p := math.Pow(0.5, float64(n)) // P(Bin(n, 1/2) = k)
	for missed := 2 * p; missed <= 1-Confidence && k < n/2; missed += 2 * p {
		k++
		p *= float64(n-k+1) / float64(k)
	}
	return k
}

// Excludes says that the whole interval lies further from 1 than the factor
// 1+margin either way. An empty estimate excludes nothing.
func (e Estimate) Excludes(margin float64) bool {
	return e.N > 0 && (e.Low > 1+margin || e.High < 1/(1+margin))
}

// Reach is how far from 1 the interval of a ratio reaches, as a factor less 1: 0.1 if two
// things may differ by 10 % either way. It is infinite if nothing is known.
func (e Estimate) Reach() float64 {
	if e.N == 0 || e.Low <= 0 {
		return math.Inf(1)
	}
	return max(e.High, 1/e.Low) - 1
}

// Width is how far the interval reaches from the median, as a part of it. It is infinite
// if nothing is known.
func (e Estimate) Width() float64 {
	switch {
	case e.N == 0:
		return math.Inf(1)
	case e.High == e.Low:
		return 0 // a count that never changes, even of 0
	case e.Median <= 0:
		return math.Inf(1)
	}
	return max(e.High-e.Median, e.Median-e.Low) / e.Median
}

// Median returns the middle value, the mean of the middle two for an even
// number, 0 for none.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(n-1)/2] + s[n/2]) / 2
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
