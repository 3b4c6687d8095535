package run

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"fencepost/harness/env/osproc"
)

// TestMain doubles as a program of a user's own.
func TestMain(m *testing.M) {
	osproc.Init()
	if os.Getenv("FENCEPOST_TASK") != "" {
		os.Exit(muteProgram())
	}
	goleak.VerifyTestMain(m)
}
