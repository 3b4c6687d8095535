package engine_test

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Thousands of small worlds of a few megabytes: collecting them is half the time.
	debug.SetGCPercent(1000)
	goleak.VerifyTestMain(m)
}
