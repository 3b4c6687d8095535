package stat

import (
	"math"
	"slices"
)

// PairedOf summarizes ratios of two things that were measured in pairs and may be equal, such as a
// program and its copy. The order does not matter.
//
// If they are equal, the logarithms of their ratios lie symmetrically around 0, and so the interval
// holds the factors that Wilcoxon's signed-rank test does not reject. It is narrower by a fifth to
// a third than that of [EstimateOf], which assumes nothing. The median is Hodges and Lehmann's: of
// the geometric means of every two ratios. With five ratios or fewer the interval is the whole
// range. Where a ratio is 0, it is EstimateOf.
func PairedOf(ratios []float64) Estimate {
	e := EstimateOf(ratios)
	if e.N == 0 || e.Min <= 0 {
		return e
	}
	var means []float64
	for i, a := range ratios {
		for _, b := range ratios[:i+1] {
			means = append(means, math.Sqrt(a*b))
		}
	}
	slices.Sort(means)
	e.Median, e.Low, e.High = Median(means), e.Min, e.Max
	if k := orderOfPairs(e.N); k > 0 {
		e.Low, e.High = means[k-1], means[len(means)-k]
	}
	return e
}

// exactPairs is the number of pairs up to which the test is exact, beyond it is approximated by
// the normal distribution.
const exactPairs = 60

// orderOfPairs is the greatest k for which the kth to the kth last of the means of two of n
// values hold their middle with Confidence, 0 if none does: they miss it with probability
// 2 P(W < k), of Wilcoxon's sum of ranks.
func orderOfPairs(n int) (k int) {
	if n > exactPairs {
		m := float64(n)
		return int(m*(m+1)/4 - quantile*math.Sqrt(m*(m+1)*(2*m+1)/24))
	}
	// p[w] is the probability that the ranks of the positive values add up to w: each of 1 to n
	// is among them or not.
	p := make([]float64, n*(n+1)/2+1)
	p[0] = 1
	for rank := 1; rank <= n; rank++ {
		for w := len(p) - 1; w >= 0; w-- {
			p[w] /= 2
			if w >= rank {
				p[w] += p[w-rank] / 2
			}
		}
	}
	return orderOf(p[:len(p)/2+1])
}
