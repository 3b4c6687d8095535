// Package system lists the systems under test: the production core, the scheduler that
// it is compared with, and known-broken variants of the core, with the scenarios and
// the properties by which what is wrong with them must turn red. The variants' code is
// in package broken and is compiled into bin/worker-broken only.
package system
