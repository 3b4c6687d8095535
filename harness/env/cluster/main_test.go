package cluster

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"fencepost/harness/env/sandbox"
)

// acts are what this test binary does instead of running tests, by the
// environment variable that asks for it; its value is the argument.
var acts = map[string]func(string) int{fakeNodeEnv: fakeNode}

func TestMain(m *testing.M) {
	sandbox.Init()
	for env, act := range acts {
		if arg := os.Getenv(env); arg != "" {
			os.Exit(act(arg))
		}
	}
	goleak.VerifyTestMain(m)
}
