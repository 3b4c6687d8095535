//go:build integration && growth

package postgres

import (
	"testing"

	"fencepost/core/sink/sinktest"
)

// TestGrowth: 100,000 effects on resources that nobody will use again leave no rows behind.
// The tables are as large as what was in them between two runs of autovacuum.
func TestGrowth(t *testing.T) {
	const effects = 100_000
	w := newWorld(t)
	sinktest.Grow(w.ctx(), t, w.near, effects)
	for table, want := range map[string]int{
		"fencepost_sink":        sinktest.GrowthLeft + 4, // floors
		"fencepost_sink_keys":   sinktest.GrowthLeft - 1,
		"fencepost_sink_ledger": sinktest.GrowthLeft,
	} {
		var rows int
		var size int64
		w.must(w.direct.QueryRow(w.ctx(), "SELECT count(*), pg_total_relation_size($1::text::regclass) FROM "+table, table).Scan(&rows, &size))
		t.Logf("of %d effects: %d rows of %s, %d kB", effects, rows, table, size>>10)
		if rows != want {
			t.Errorf("%s has %d rows, want %d", table, rows, want)
		}
	}
}
