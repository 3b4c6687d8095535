package stat_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"fencepost/reports/stat"
)

// TestRatioOfTwo: the interval of n and m values goes from the kth to the kth last of their n m
// ratios, where k is the critical value of the printed tables of Mann and Whitney's U (two-sided,
// 5 %) and one more.
func TestRatioOfTwo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, m, critical int }{
		{3, 5, 0}, {4, 4, 0}, {5, 5, 2}, {5, 8, 6}, {8, 8, 13}, {9, 6, 10}, {12, 12, 37}, {20, 20, 127},
		{60, 60, 1426}, // not exact: n m/2 - 1.96 sqrt(n m (n+m+1)/12) = 1426.6
	} {
		var old, changed, ratios []float64
		for i := range c.n {
			old = append(old, 100+float64(i*i))
		}
		for i := range c.m {
			changed = append(changed, 150+float64(3*i*i))
		}
		for _, x := range old {
			for _, y := range changed {
				ratios = append(ratios, y/x)
			}
		}
		slices.Sort(ratios)
		k := c.critical + 1
		if c.n+c.m > 100 {
			k = c.critical
		}
		r := stat.RatioOf(old, changed)
		if r.Low != ratios[k-1] || r.High != ratios[len(ratios)-k] || r.Median != stat.Median(ratios) {
			t.Errorf("%d and %d values: %+v, want the interval [%v, %v]", c.n, c.m, r, ratios[k-1], ratios[len(ratios)-k])
		}
	}
}

func TestRatioOfFew(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	for name, c := range map[string]struct {
		old, changed []float64
		want         stat.Ratio
	}{
		"none":            {nil, []float64{1}, stat.Ratio{}},
		"one and one":     {[]float64{2}, []float64{3}, stat.Ratio{Median: 1.5, Low: 0, High: inf}},
		"three and three": {[]float64{2, 2, 2}, []float64{2, 2, 2}, stat.Ratio{Median: 1, Low: 0, High: inf}},
		"exact counts":    {[]float64{3, 3, 3, 3, 3}, []float64{4, 4, 4, 4, 4}, stat.Ratio{Median: 4. / 3, Low: 4. / 3, High: 4. / 3}},
		"nothing twice":   {[]float64{0, 0, 0, 0}, []float64{0, 0, 0, 0}, stat.Ratio{Median: 1, Low: 1, High: 1}},
		"out of nothing":  {[]float64{0, 0, 0, 0}, []float64{1, 1, 1, 1}, stat.Ratio{Median: inf, Low: inf, High: inf}},
	} {
		if got := stat.RatioOf(c.old, c.changed); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestRatioCovers: of two samples that differ by a factor, intervals miss it as seldom as they
// say, whatever the noise.
func TestRatioCovers(t *testing.T) {
	t.Parallel()
	const factor, tries = 1.3, 4000
	for name, noise := range map[string]func(*rand.Rand) float64{
		"normal": func(r *rand.Rand) float64 { return math.Exp(0.04 * r.NormFloat64()) },
		"bursts": func(r *rand.Rand) float64 { return 1 + 3*math.Pow(r.Float64(), 8) },
		"coarse": func(r *rand.Rand) float64 { return float64(1 + r.IntN(3)) },
	} {
		for _, n := range []int{5, 8} {
			rng, missed := rand.New(rand.NewPCG(1, uint64(n))), 0
			for range tries {
				old, changed := make([]float64, n), make([]float64, n)
				for i := range n {
					old[i], changed[i] = noise(rng), factor*noise(rng)
				}
				if r := stat.RatioOf(old, changed); r.Low > factor || r.High < factor {
					missed++
				}
			}
			// Two standard errors more than 5 %.
			if most := tries * 0.05 * 1.14; float64(missed) > most {
				t.Errorf("%s, %d values: %d of %d intervals missed", name, n, missed, tries)
			}
		}
	}
}

// TestRatioProperties: the other way round it is the inverse, and an interval only becomes wider.
func TestRatioProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0.01, 100), 1, 12)
		a, b := values.Draw(t, "a"), values.Draw(t, "b")
		there, back := stat.RatioOf(a, b), stat.RatioOf(b, a)
		near := func(x, y float64) bool { return x == y || math.Abs(x-y) <= 1e-9*y }
		if !near(there.Low, 1/back.High) || !near(there.High, 1/back.Low) || there.Low > there.Median || there.Median > there.High {
			t.Fatalf("%+v and back %+v", there, back)
		}
		f := rapid.Float64Range(1, 3).Draw(t, "factor")
		if w := there.Widened(f); w.Low > there.Low || w.High < there.High || w.Low > there.Median/f || w.High < there.Median*f || w.Median != there.Median {
			t.Fatalf("%+v widened by %v: %+v", there, f, w)
		}
	})
}
