package sinktest

import (
	"testing"
)

// TestGrowth: effects on resources that nobody will use again leave nothing behind.
func TestGrowth(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	Grow(t.Context(), t, m, growth)
	entries, keys := 0, 0
	for _, r := range m.resources {
		entries += len(r.ledger)
		keys += len(r.keys)
	}
	t.Logf("of %d effects: %d resources with %d keys and %d entries, %d floors", growth, len(m.resources), keys, entries, len(m.floors))
	if len(m.resources) != GrowthLeft || keys != chunk || entries != GrowthLeft || len(m.floors) != 4 {
		t.Errorf("more is left than what the last %d effects need", chunk)
	}
}
