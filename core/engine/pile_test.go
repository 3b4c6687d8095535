package engine

import (
	"slices"
	"testing"

	"fencepost/core/store"
)

// TestTheReadMarkRisesForAPile: rows are moved up to the read mark only. It rises when half of
// a pile lies above it, as it keeps rows from being moved then, and stays for less.
func TestTheReadMarkRisesForAPile(t *testing.T) {
	t.Parallel()
	const pile = 10
	for above, rises := range map[int]bool{0: false, pile/2 - 1: false, pile / 2: true, pile: true} {
		r := newRig(t, func(c *machineConfig) { c.trimEvery = pile / 5 })
		r.m.page(r.now)
		r.m.loaded(nil, false, r.now)
		read := r.m.window.read
		dead := slices.Concat(slices.Repeat([]int64{read}, pile-above), slices.Repeat([]int64{read + 1}, above))
		r.m.piles[store.KindPending].dead = dead
		if rg, ok := r.m.page(r.now); ok != rises || ok && (rg.AfterAt != read || rg.UpTo != read+1) {
			t.Errorf("with %d of %d above the mark at %d the page %+v is read: %v", above, pile, read, rg, ok)
		}
	}
}

// TestRangesBetweenDeadLetters: what has left the queue between two dead letters that stay is
// deleted as a range if that is worth it. What lay at the place of the second one, or behind
// it, would not go with the range and does not count.
func TestRangesBetweenDeadLetters(t *testing.T) {
	t.Parallel()
	const first, second = 100, 200 // they stay
	for name, c := range map[string]struct {
		left []int64
		goes bool
	}{
		"enough":                 {[]int64{110, 120, 130, second - 1}, true},
		"one at the same place":  {[]int64{110, 120, 130, second}, false},
		"one behind":             {[]int64{110, 120, 130, second + 1}, false},
		"all at the same place":  {[]int64{second, second, second, second}, false},
		"enough, and one behind": {[]int64{110, 120, 130, second - 1, second + 1}, true},
	} {
		r := newRig(t, func(c *machineConfig) { c.trimEvery = 3 })
		r.m.piles[store.KindDLQ].dead = c.left
		for n, from := range []int64{-1, c.left[0]} {
			if rg, ok := r.m.deadRange(r.now); !ok || rg.AfterAt != from {
				t.Fatalf("%s: read %d is of %+v, %v", name, n, rg, ok)
			}
			r.m.deadRead([]store.Row{{Key: store.Key{Kind: store.KindDLQ, At: []int64{first, second}[n]}}}, false)
		}
		p := r.m.next(tickInput{now: r.now, beat: true, nonce: "x"})
		if !c.goes && len(p.trims) != 0 {
			t.Errorf("%s: deleted %v", name, p.trims)
		}
		if c.goes && (len(p.trims) != 1 || p.trims[0].Kind != store.DeleteWithin || p.trims[0].Row.At != c.left[0] || p.trims[0].Below != second) {
			t.Errorf("%s: deleted %v, want the range between %d and %d", name, p.trims, c.left[0], second)
		}
	}
}
