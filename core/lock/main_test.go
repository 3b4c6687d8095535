package lock_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// child, if set, is what this test binary does when it was started by one of
// its own tests as another process.
var child func() (is bool, code int)

// cleanup removes what the tests created; it returns the exit code.
var cleanup = func(code int) int { return code }

func TestMain(m *testing.M) {
	if child != nil {
		if is, code := child(); is {
			os.Exit(code)
		}
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { os.Exit(cleanup(code)) }))
}
