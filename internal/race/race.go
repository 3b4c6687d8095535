// Package race tells a test whether the race detector is on, which makes what computes
// much about ten times as slow. Tests with nothing to find in it for the detector skip
// there, or do less; make test-unit runs every package whose tests ask this one in full
// without the detector too, and two of them (SEQUENTIAL in the Makefile) only so.
package race

import "testing"

// Skip skips a test that computes much and in which nothing is concurrent.
func Skip(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("slow with the race detector, which has nothing to find in it: make test-unit runs it without")
	}
}
