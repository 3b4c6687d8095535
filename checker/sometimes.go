package checker

// MissingSometimes returns the reach points of expect (an expectation's sometimes)
// that none of the results reached, in order. The caller passes the last 20 kept
// runs of one scenario: a point that a single run may miss must not be missed by
// all of them.
func MissingSometimes(expect []string, results []Result) []string {
	var out []string
	for _, point := range expect {
		hit := false
		for i := range results {
			hit = hit || results[i].Counts.Points[point] > 0
		}
		if !hit {
			out = append(out, point)
		}
	}
	return out
}
