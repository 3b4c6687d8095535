// Package scenario is the format of scenario files: what they may say, and the defaults of
// what they leave out. A Spec is what a person writes (YAML, data only). Package plan makes
// every choice that is left open in it; package run carries that out. What differs between
// locks, jobs, orders and drills is asked of the scenario's Kind.
//
// Faults start at an instant of their phase or, so that a directed scenario does
// its work in every run, at an event: a client standing at a named point of its
// life (see package control). Every fault must prove that it took effect; what it demands
// of the run (cycles, proven faults, successes, reach points) is written into the
// history as one expect note, and a run that misses any of it is INVALID.
//
// To add a kind of scenario: give it a row in kinds (kind.go), a row in targets of package
// run, and a row in rows of package workload if its workers are fencepost's own. Tests find
// a pair of kind and system that nothing runs, and a kind that docs/scenarios.md leaves out.
// To add a key to the file: a field of Spec with its default and check (spec.go, validate.go).
package scenario
