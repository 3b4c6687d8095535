// Package broken holds the known-broken variants of the system under test: each
// plants one mistake that real systems have made, by decorating a part that the
// workload uses through an interface. The core itself has no switch for them.
//
// They exist to turn checks red: a property that no variant can violate is a
// property that nobody has tested. Package system says for each the scenario and
// the property by which it must be found. The package is linked into
// bin/worker-broken only (build tag broken).
//
// Mistakes of schedulers that the simulated world can plant too are rows of package mistake
// (core/mistake); they are planted here from its table.
//
// To add a mistake: write its row in variants*.go of package system, with the scenario and
// the property that must find it. Plant it by the same name: as a row of mistake.All, or by
// a hook in init of the file here that holds it. docs/lock-safety.md names it beside the
// step that it refutes; then make docs.
package broken
