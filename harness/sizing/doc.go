// Package sizing measures what one job costs on a real cluster (TestMeasure): requests, bytes,
// processor time, disk. What is measured is kept in results/cost; docs/core.md has the numbers
// and what follows from them for larger loads.
package sizing
