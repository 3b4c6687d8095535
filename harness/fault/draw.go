package fault

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"fencepost/harness/target/control"
)

// Draw is how a swarm draws a kind of fault. All kinds of a lane come equally often.
type Draw struct {
	// Place is its own among those of the same TargetKind: what a seed draws depends on it.
	Place int
	// Params completes the spec; nil: nothing to draw.
	Params func(*rand.Rand, *Spec)
	// Points are those of locks at which it may come; nil: at an instant.
	Points []control.Point
	// All: it is aimed at all workers at once.
	All bool
	// Restart: healing takes as long as a node needs to start.
	Restart bool
}

// Drawn are the kinds that swarms draw for targets of one kind, in the order of their places.
func Drawn(on TargetKind) []Kind {
	others := func(k Kind) bool { return k.On != on || k.Swarm == nil }
	return slices.SortedFunc(slices.Values(slices.DeleteFunc(slices.Collect(maps.Values(kinds)), others)),
		func(a, b Kind) int { return cmp.Compare(a.Swarm.Place, b.Swarm.Place) })
}

func drawMode(rng *rand.Rand, s *Spec) { s.Mode = []string{"stall", "drop"}[rng.IntN(2)] }
