package race

import "testing"

// Skip skips a test that computes much and in which nothing is concurrent.
func Skip(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("slow with the race detector, which has nothing to find in it: make test-unit runs it without")
	}
}
