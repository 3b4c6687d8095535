package checker

import (
	"context"

	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// SoFar judges the history of a run that still goes on, consistent as
// [history.Tail] gives it, by what can be said before the end (soFar in the properties'
// rows), as far as the system promises it. It returns the properties with findings. None
// is a property that holds, and most findings can be made at the end only; but those made
// now are the end's too.
//
// These are the checks of the verdict, over the same past. Only the sink's ledger,
// which is read at the end, is replaced by the part of it that the sink's own answers
// show.
func SoFar(ctx context.Context, h *history.History, o Options) []Property {
	o = o.withDefaults()
	return property.New(h, true, o.Dir, o.Search).SoFar(ctx)
}
