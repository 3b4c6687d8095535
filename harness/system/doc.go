// Package system lists the systems under test: the production core and its
// known-broken variants, with the scenario and the property by which each of
// these must turn red. The variants' code is in package broken and is compiled
// into bin/worker-broken only.
package system
