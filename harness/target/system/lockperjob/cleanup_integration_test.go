//go:build integration

package lockperjob

import (
	"testing"

	"fencepost/core/store/cassandra/cassandratest"
)

func TestMain(m *testing.M) { cassandratest.Main(m) }
