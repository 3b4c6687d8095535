//go:build integration

package cassandrasink_test

import (
	"testing"

	"fencepost/core/store/cassandra/cassandratest"
)

func TestMain(m *testing.M) { cassandratest.Main(m) }
