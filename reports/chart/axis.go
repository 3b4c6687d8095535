package chart

import (
	"fmt"
	"math"
)

// Width is that of a drawing.
const (
	Width   = 1160.0
	marginL = 78.0
	marginR = 18.0
)

// niceStep is a round step that cuts span into at most n parts.
func niceStep(span float64, n int) float64 {
	if span <= 0 || n < 1 {
		return 1
	}
	raw := span / float64(n)
	mag := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, f := range []float64{1, 2, 5, 10} {
		if raw <= f*mag*1.0000001 {
			return f * mag
		}
	}
	return 10 * mag
}

// timeSteps are round steps of a time axis from a second upwards, in seconds.
var timeSteps = []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400}

func timeStep(span float64, n int) float64 {
	if span < float64(n) {
		return niceStep(span, n)
	}
	for _, s := range timeSteps {
		if span/s <= float64(n) {
			return s
		}
	}
	return niceStep(span/3600, n) * 3600
}

// clockLabel writes seconds of a run as "12 s", "0.25 s" or "3:30".
func clockLabel(s, step float64) string {
	if math.Abs(s) < 120 || step < 1 {
		prec := 0
		for p := step; p < 0.999 && prec < 6; p *= 10 {
			prec++
		}
		if s == 0 {
			prec = 0
		}
		return fmt.Sprintf("%.*f s", prec, s)
	}
	n := int(math.Round(s))
	if n >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", n/3600, n/60%60, n%60)
	}
	return fmt.Sprintf("%d:%02d", n/60, n%60)
}
