//go:build integration

package cassandra_test

import (
	"testing"

	"fencepost/core/store/cassandra"
	"fencepost/core/store/cassandra/cassandratest"
)

// TestHintsAreSeen: what DropKeyspace waits for can be read.
func TestHintsAreSeen(t *testing.T) {
	t.Parallel()
	db := cassandratest.Open(t, cassandratest.Keyspace(t))
	if _, err := db.Query(t.Context(), false, cassandra.SelectHints); err != nil {
		t.Error(err)
	}
}
