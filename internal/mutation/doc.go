// Package mutation measures how many small mistakes in a package its tests notice. A mutant is
// the package with one edit: a comparison negated or moved by its boundary, && for ||, another
// arithmetic operator, constant, bound or unit of time, a statement that never runs, an error
// that is not returned. It is compiled with go test -overlay, so the work tree does not change.
//
//	make mutation PKG=core/lock SAMPLE=300 SEED=1
//
// The sample is drawn from the seed, from all mutants of the package. The tests that judge it
// are a fast subset (Subsets): own tests and some seeds of the simulation. Each is first run
// alone on the package as it is, with coverage; a mutant is judged by those that reach it, the
// cheapest first. A mutant that does not compile does not count. One that fails a test is killed,
// and so is one with which tests use more than five times their CPU time and five seconds, or do
// nothing for half a minute; for the latter it looks into /proc, so it needs Linux.
// The rest survives: a test is missing, or the mutant behaves as the original does. Those are
// listed in equivalent.txt with the reason, and count neither way. The score is a sample's, so it
// is printed with its 95 % Wilson interval.
//
// Calls that log are left out: what a log line says is no behaviour that tests should fix.
//
// gremlins v0.6.0 was not used: it cannot draw a sample or choose tests, limits them by the wall
// clock, and removes neither statements nor errors.
package mutation
