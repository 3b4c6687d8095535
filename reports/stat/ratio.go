package stat

import (
	"math"
	"slices"
)

// Ratio says by which factor the values of one sample exceed those of another that was not
// taken in the same rounds: Hodges and Lehmann's estimate, the median of the ratios of every
// value of one to every value of the other. The zero Ratio says nothing.
type Ratio struct {
	Median float64
	// Low and High bound the interval of Confidence; 0 and infinity if there are too few
	// values (three and three, for example) for any interval.
	Low, High float64
}

// RatioOf divides the values of b by those of a, which must not be negative. The order does not
// matter.
//
// The interval holds the factors that a Mann-Whitney test does not reject. It is exact for any
// distribution that both samples share up to a factor. A bootstrap of the ratio of medians is
// not, needs a seed, and its interval is no narrower: by a third wider for eight rounds of noise
// in bursts.
func RatioOf(a, b []float64) Ratio {
	if len(a) == 0 || len(b) == 0 {
		return Ratio{}
	}
	all := make([]float64, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			all = append(all, by(y, x))
		}
	}
	slices.Sort(all)
	n := len(all)
	r := Ratio{Median: (all[(n-1)/2] + all[n/2]) / 2, Low: 0, High: math.Inf(1)}
	if k := orderOfTwo(len(a), len(b)); k > 0 {
		r.Low, r.High = all[k-1], all[n-k]
	}
	return r
}

// by divides: two that are 0 are equal.
func by(y, x float64) float64 {
	if x == 0 && y == 0 {
		return 1
	}
	return y / x
}

// Widened is the ratio with an interval that reaches as far as the factor either way at least.
func (r Ratio) Widened(factor float64) Ratio {
	if math.IsInf(factor, 1) {
		r.Low, r.High = 0, factor
		return r
	}
	r.Low, r.High = min(r.Low, r.Median/factor), max(r.High, r.Median*factor)
	return r
}

// Spanning is the ratio with an interval that holds that of another one too.
func (r Ratio) Spanning(o Ratio) Ratio {
	r.Low, r.High = min(r.Low, o.Low), max(r.High, o.High)
	return r
}

// exactTwo is the number of values in two samples up to which the test is exact, beyond it is
// approximated by the normal distribution.
const exactTwo = 100

// orderOfTwo is the greatest k for which the kth to the kth last of the ratios of n and m values
// hold the factor with Confidence, 0 if none does: they miss it with probability 2 P(U < k), of
// Mann and Whitney's U.
func orderOfTwo(n, m int) (k int) {
	if n+m > exactTwo {
		a, b := float64(n), float64(m)
		return max(0, int(a*b/2-quantile*math.Sqrt(a*b*(a+b+1)/12)))
	}
	return orderOf(mannWhitney(n, m))
}

// quantile is that of the normal distribution for Confidence.
const quantile = 1.96

// orderOf is the greatest k that a symmetric statistic falls short of with half of what Confidence
// leaves, of the probabilities that it is 0, 1 … up to its middle; 0 if there is none.
func orderOf(p []float64) (k int) {
	const tail = (1 - Confidence) / 2
	for missed := p[0]; missed <= tail && k < len(p)-1; missed += p[k] {
		k++
	}
	return k
}

// mannWhitney are the probabilities that U of two equal samples is 0, 1 … up to its middle. The
// greatest of all values is one of the first n with probability n/(n+m), and then exceeds all m.
func mannWhitney(n, m int) []float64 {
	last := make([][]float64, n+1) // of one less of the second sample
	for j := range m + 1 {
		of := make([][]float64, n+1)
		for i := range n + 1 {
			of[i] = make([]float64, n*m/2+1)
			if i+j == 0 {
				of[i][0] = 1
				continue
			}
			first := float64(i) / float64(i+j)
			for u := range of[i] {
				if i > 0 && u >= j {
					of[i][u] += first * of[i-1][u-j]
				}
				if j > 0 {
					of[i][u] += (1 - first) * last[i][u]
				}
			}
		}
		last = of
	}
	return last[n]
}
