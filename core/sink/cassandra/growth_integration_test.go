//go:build integration && growth

package cassandrasink_test

import (
	"testing"

	"fencepost/core/sink"
	cassandrasink "fencepost/core/sink/cassandra"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store/cassandra/cassandratest"
)

// TestGrowth: 100,000 effects on resources that nobody will use again leave no rows behind.
// Their tombstones go when gc_grace_seconds are over.
func TestGrowth(t *testing.T) {
	const effects = 100_000
	db := cassandratest.Open(t, cassandratest.Keyspace(t))
	sinktest.Grow(t.Context(), t, cassandrasink.New(db, cassandrasink.Options{Retires: true}), effects)
	rows, err := db.Query(t.Context(), false, "SELECT DISTINCT resource FROM sink")
	if err != nil {
		t.Fatal(err)
	}
	left, floors := 0, 0
	for _, r := range rows {
		if name, _ := r["resource"].(string); sink.IsFloor(name) {
			floors++
		} else {
			left++
		}
	}
	t.Logf("of %d effects: %d resources and %d floors are left", effects, left, floors)
	if left != sinktest.GrowthLeft || floors != 4 {
		t.Errorf("%d resources are left, want %d", left, sinktest.GrowthLeft)
	}
}
