//go:build integration

package cassandra_test

import (
	"testing"

	"fencepost/core/store/cassandra"
	"fencepost/core/store/cassandra/cassandratest"
	"fencepost/core/store/storetest"
)

func TestRunsConformance(t *testing.T) {
	t.Parallel()
	runs := cassandra.NewRuns(cassandratest.Open(t, cassandratest.Keyspace(t)))
	t.Run("cases", func(t *testing.T) {
		storetest.RunRuns(t, runs, "conformance", func(name string, f func(storetest.T)) {
			t.Run(name, func(t *testing.T) { t.Parallel(); f(t) })
		})
	})
}

// TestRunsExpire: rows have a time to live though no statement gives them one, and the
// table is compacted by days.
func TestRunsExpire(t *testing.T) {
	t.Parallel()
	db := cassandratest.Open(t, cassandratest.Keyspace(t))
	rows, err := db.Query(t.Context(), false, "SELECT default_time_to_live, compaction FROM system_schema.tables WHERE keyspace_name = ? AND table_name = 'runs'", db.Keyspace())
	if err != nil || len(rows) != 1 {
		t.Fatalf("%v, %v", rows, err)
	}
	if ttl, _ := rows[0]["default_time_to_live"].(int); ttl != 14*24*60*60 {
		t.Errorf("rows live for %d s", ttl)
	}
	if c, _ := rows[0]["compaction"].(map[string]string); c["compaction_window_unit"] != "DAYS" {
		t.Errorf("compaction %v", c)
	}
}
