//go:build integration

package cassandra_test

import (
	"testing"

	"fencepost/core/store/cassandra"
	"fencepost/core/store/cassandra/cassandratest"
	"fencepost/core/store/storetest"
)

func TestShardsConformance(t *testing.T) {
	t.Parallel()
	shards := cassandra.NewShards(cassandratest.Open(t, cassandratest.Keyspace(t)))
	t.Run("cases", func(t *testing.T) {
		storetest.RunShards(t, shards, "conformance", func(name string, f func(storetest.T)) {
			t.Run(name, func(t *testing.T) { t.Parallel(); f(t) })
		})
	})
}
