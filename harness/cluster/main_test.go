package cluster

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"fencepost/harness/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	if addr := os.Getenv(fakeNodeEnv); addr != "" {
		os.Exit(fakeNode(addr))
	}
	goleak.VerifyTestMain(m)
}
