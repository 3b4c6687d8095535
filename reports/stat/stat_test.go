package stat_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"fencepost/reports/stat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   []float64
		want float64
	}{
		{nil, 0},
		{[]float64{7}, 7},
		{[]float64{3, 1}, 2},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		in := slices.Clone(c.in)
		if got := stat.Median(in); got != c.want {
			t.Errorf("Median(%v) = %v, want %v", c.in, got, c.want)
		}
		if !slices.Equal(in, c.in) {
			t.Errorf("Median changed its argument to %v", in)
		}
	}
}

func TestJain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   []int64
		want float64
	}{
		{nil, 0},
		{[]int64{0, 0}, 0},
		{[]int64{5}, 1},
		{[]int64{3, 3, 3, 3}, 1},
		{[]int64{8, 0, 0, 0}, 0.25},
		{[]int64{1, 3}, 16.0 / 20},
		{[]int64{1, 2, 3}, 36.0 / 42},
	} {
		if got := stat.Jain(c.in); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Jain(%v) = %v, want %v", c.in, got, c.want)
		}
	}
}

// With three distinct values the bootstrap median is the smallest or the largest
// with probability 7/27 each, so the interval is the range. With five, the
// smallest has P(Bin(5, 1/5) >= 3) = 5.8 % > 2.5 %: the range again. With nine,
// P(median <= 2nd) = P(Bin(9, 2/9) >= 5) = 2.96 % and P(median = 1st) = 0.14 %:
// from the second to the eighth.
func TestBootstrapMedianKnown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		in        []float64
		low, high float64
	}{
		{"none", nil, 0, 0},
		{"one", []float64{4}, 4, 4},
		{"all equal", []float64{2, 2, 2, 2, 2, 2}, 2, 2},
		{"three", []float64{3, 1, 2}, 1, 3},
		{"five", []float64{1, 2, 3, 4, 5}, 1, 5},
		{"nine", []float64{9, 8, 7, 6, 5, 4, 3, 2, 1}, 2, 8},
		{"nine with one wild", []float64{1, 2, 3, 4, 5, 6, 7, 8, 1000}, 2, 8},
	} {
		low, high := stat.BootstrapMedian(c.in, stat.Resamples, stat.Confidence, rand.New(rand.NewPCG(1, 2)))
		if low != c.low || high != c.high {
			t.Errorf("%s: [%v, %v], want [%v, %v]", c.name, low, high, c.low, c.high)
		}
	}
}

// A wider confidence never narrows the interval, and a narrower one is found:
// for nine values P(median <= 3rd) = P(Bin(9, 1/3) >= 5) = 14.5 %, P(median <=
// 2nd) = 2.96 %, so the 80 % interval is from the third to the seventh.
func TestBootstrapConfidence(t *testing.T) {
	t.Parallel()
	in := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}
	low, high := stat.BootstrapMedian(in, stat.Resamples, 0.80, rand.New(rand.NewPCG(1, 2)))
	if low != 3 || high != 7 {
		t.Errorf("80 %%: [%v, %v], want [3, 7]", low, high)
	}
}

func TestEstimateIsReproducible(t *testing.T) {
	t.Parallel()
	in := []float64{0.9, 1.1, 1.0, 1.3, 0.7, 1.02, 0.97, 1.05}
	if a, b := stat.EstimateOf(in, 7), stat.EstimateOf(in, 7); a != b {
		t.Errorf("the same seed gave %+v and %+v", a, b)
	}
}

func TestEstimateProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(rapid.Float64Range(0.01, 100), 1, 12).Draw(t, "values")
		e := stat.EstimateOf(in, rapid.Uint64().Draw(t, "seed"))
		if !(e.Min <= e.Low && e.Low <= e.High && e.High <= e.Max) {
			t.Fatalf("interval outside of the range: %+v", e)
		}
		if e.Median < e.Min || e.Median > e.Max || e.N != len(in) {
			t.Fatalf("median outside of the range: %+v", e)
		}
	})
}

func TestExcludes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		low, high float64
		n         int
		want      bool
	}{
		{"around 1", 0.95, 1.05, 8, false},
		{"wide around 1", 0.5, 2, 8, false},
		{"beside 1 but within the margin", 1.02, 1.4, 8, false},
		{"touches the margin", 1.15, 1.4, 8, false},
		{"above", 1.16, 1.4, 8, true},
		{"below", 0.5, 0.86, 8, true},
		{"below, within the factor", 0.5, 0.875, 8, false},
		{"no rounds", 0, 0, 0, false},
	} {
		e := stat.Estimate{Spread: stat.Spread{N: c.n}, Low: c.low, High: c.high}
		if got := e.Excludes(0.15); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestRatios(t *testing.T) {
	t.Parallel()
	got, missing := stat.Ratios(
		map[int]float64{1: 10, 2: 30, 3: 5, 5: 8},
		map[int]float64{1: 20, 2: 10, 3: 0, 4: 7},
	)
	if !slices.Equal(got, []float64{0.5, 3}) {
		t.Errorf("ratios %v, want [0.5 3]", got)
	}
	if missing != 3 { // 3: divided by nothing, 4 and 5: only in one
		t.Errorf("missing %d, want 3", missing)
	}
}
