//go:build integration

package lockperjob

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"fencepost/core/store/cassandra/cassandratest"
)

// TestMain drops what the tests created and then looks for goroutines left.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := cassandratest.DropKeyspace(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}
