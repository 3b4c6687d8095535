package bench

import (
	"fmt"

	"fencepost/reports/stat"
)

// AtMost is a target of an estimate: no part of its interval is above the limit. Of nothing
// it is missed.
func AtMost(name string, e stat.Estimate, limit float64) Target {
	return Target{Name: name, Want: fmt.Sprintf("at most %.3g", limit), Got: estimate(e), Met: e.N > 0 && e.High <= limit}
}

// AtLeast is one that no part of the interval may be below.
func AtLeast(name string, e stat.Estimate, limit float64) Target {
	return Target{Name: name, Want: fmt.Sprintf("at least %g", limit), Got: estimate(e), Met: e.N > 0 && e.Low >= limit}
}

func estimate(e stat.Estimate) string {
	if e.N == 0 {
		return "not measured"
	}
	return fmt.Sprintf("%.3f [%.3f, %.3f]", e.Median, e.Low, e.High)
}
