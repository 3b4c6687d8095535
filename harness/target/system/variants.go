package system

import "slices"

const broken = "broken/"

// variants are the known-broken ones, in the order in which they are listed. What one
// plants is the hook of its name in package broken.
var variants = slices.Concat(lockVariants, sinkVariants, jobVariants, shopVariants, harnessVariants)

// Chapters of docs/known-broken.md.
const (
	inLocks     = "locks"
	inSinks     = "sinks"
	inJobs      = "jobs"
	inOrders    = "orders"
	inProcesses = "processes"
	inHarness   = "harness"
)
