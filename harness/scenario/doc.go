// Package scenario turns a scenario file and a seed into a run.
//
// A Spec is what a person writes (YAML, data only). A Plan is the Spec with
// every choice made: what was random is drawn from the seed, so that a plan
// repeats. Run carries a plan out in phases (warmup, before, fault, heal,
// recover, settle, seal) and leaves a run directory with the history; checking
// and reporting work from those files alone.
//
// Faults start at an instant of their phase or, so that a directed scenario does
// its work in every run, at an event: a client standing at a named point of its
// life (see package control). Every fault must prove that it bit; what it demands
// of the run (cycles, proven faults, successes, reach points) is written into the
// history as one expect note, and a run that misses any of it is INVALID.
//
// A scenario with a drill has none of this: package paxos does it step by step,
// with the runner as the only client (drill.go).
package scenario
