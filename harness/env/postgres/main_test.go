package postgres

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// acts are what this test binary does instead of running tests, by the environment
// variable that asks for it.
var acts = map[string]func() int{}

func TestMain(m *testing.M) {
	for env, act := range acts {
		if os.Getenv(env) != "" {
			os.Exit(act())
		}
	}
	goleak.VerifyTestMain(m)
}
