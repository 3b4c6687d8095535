package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestOrderOfPairs: the tables of Wilcoxon's test, two-sided at 5 %: critical values are one less.
func TestOrderOfPairs(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{1: 0, 5: 0, 6: 1, 7: 3, 8: 4, 10: 9, 12: 14, 20: 53, 25: 90, 50: 435} {
		if got := orderOfPairs(n); got != want {
			t.Errorf("n = %d: %d, want %d", n, got, want)
		}
	}
	if exact, about := orderOfPairs(exactPairs), orderOfPairs(exactPairs+1); about-exact < 15 || about-exact > 25 {
		t.Errorf("from %d to %d where it is approximated", exact, about)
	}
}

func TestPairedOf(t *testing.T) {
	t.Parallel()
	e := PairedOf([]float64{1, 1, 2, 0.5, 4, 0.25, 1})
	if e.Median != 1 || e.Low != 1/e.High || e.Min != 0.25 || e.Max != 4 || e.N != 7 || e.High >= 4 {
		t.Errorf("%+v is not symmetric", e)
	}
	if e := PairedOf([]float64{1, 2, 3, 4, 5}); e.Low != 1 || e.High != 5 {
		t.Errorf("of five: %+v", e)
	}
	if e := PairedOf([]float64{0, 1, 1}); e != EstimateOf([]float64{0, 1, 1}) {
		t.Errorf("with 0: %+v", e)
	}
	if e := PairedOf(nil); e.N != 0 || !math.IsInf(e.Reach(), 1) {
		t.Errorf("of none: %+v", e)
	}
}

// TestPairedCoverage: of equal things, 95 of 100 intervals hold 1, with noise that comes in bursts
// too, and they are narrower than those that assume nothing.
func TestPairedCoverage(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	cost := func() float64 {
		v := math.Exp(0.15 * rng.NormFloat64())
		if rng.Float64() < 0.1 {
			v *= 2.5 // a collector at work
		}
		return v
	}
	const runs = 4000
	for _, n := range []int{8, 26} {
		held, narrower := 0, 0
		for range runs {
			ratios := make([]float64, n)
			for i := range ratios {
				ratios[i] = cost() / cost()
			}
			p, e := PairedOf(ratios), EstimateOf(ratios)
			if p.Low <= 1 && p.High >= 1 {
				held++
			}
			if p.High/p.Low < e.High/e.Low {
				narrower++
			}
		}
		if part := float64(held) / runs; part < 0.94 || part > 0.975 {
			t.Errorf("%d pairs: %.3f of the intervals hold 1", n, part)
		}
		if narrower < runs*6/10 {
			t.Errorf("%d pairs: %d of %d are narrower", n, narrower, runs)
		}
	}
}
