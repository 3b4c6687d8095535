package fault

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"fencepost/harness/osproc"
)

// TestMain doubles as a program of a user's own.
func TestMain(m *testing.M) {
	osproc.Init()
	if os.Getenv("FENCEPOST_TASK") != "" {
		os.Exit(busyProgram())
	}
	goleak.VerifyTestMain(m)
}
