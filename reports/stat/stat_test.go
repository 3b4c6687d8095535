package stat_test

import (
	"math"
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

// TestEstimate: the probability to miss the median is, for k = 1, 6.25 % of 5 values and 3.1 % of 6;
// for k = 2, 7.0 % of 8 and 3.9 % of 9; for k = 3, 3.9 % of 12.
func TestEstimate(t *testing.T) {
	t.Parallel()
	upTo := func(n int) (values []float64) {
		for i := range n {
			values = append(values, float64(n-i))
		}
		return values
	}
	for _, c := range []struct {
		name      string
		in        []float64
		low, high float64
	}{
		{"none", nil, 0, 0},
		{"one", []float64{4}, 4, 4},
		{"all equal", []float64{2, 2, 2, 2, 2, 2}, 2, 2},
		{"three", upTo(3), 1, 3},
		{"five", upTo(5), 1, 5},
		{"six", upTo(6), 1, 6},
		{"eight", upTo(8), 1, 8},
		{"nine", upTo(9), 2, 8},
		{"nine with one wild", []float64{1, 2, 3, 4, 5, 6, 7, 8, 1000}, 2, 8},
		{"twelve", upTo(12), 3, 10},
	} {
		in := slices.Clone(c.in)
		if e := stat.EstimateOf(in); e.Low != c.low || e.High != c.high {
			t.Errorf("%s: [%v, %v], want [%v, %v]", c.name, e.Low, e.High, c.low, c.high)
		}
		if !slices.Equal(in, c.in) {
			t.Errorf("%s: EstimateOf changed its argument to %v", c.name, in)
		}
	}
}

// TestEstimateProperties: an interval is within the range, and that of the inverse values is
// the inverse.
func TestEstimateProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(rapid.Float64Range(0.01, 100), 1, 40).Draw(t, "values")
		e := stat.EstimateOf(in)
		if !(e.Min <= e.Low && e.Low <= e.High && e.High <= e.Max) {
			t.Fatalf("interval outside of the range: %+v", e)
		}
		if e.Median < e.Min || e.Median > e.Max || e.N != len(in) {
			t.Fatalf("median outside of the range: %+v", e)
		}
		for i := range in {
			in[i] = 1 / in[i]
		}
		if i := stat.EstimateOf(in); i.Low != 1/e.High || i.High != 1/e.Low {
			t.Fatalf("%+v, and of the inverse %+v", e, i)
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
