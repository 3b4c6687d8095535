package serve

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// runTests runs the tests, and ends what they share, such as a browser.
var runTests = (*testing.M).Run

func TestMain(m *testing.M) {
	code := runTests(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}
