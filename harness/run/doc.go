// Package run carries out a plan (package scenario) on a cluster, in phases: warmup, before,
// fault, heal, recover, drain (of jobs), settle, seal. It leaves a run directory with the
// history; checking and reporting work from those files alone.
//
// The runner makes what every run has: the directory, the keyspace, links, the sink, the
// worker processes, the faults. What the work of a kind of scenario on a design of systems
// needs beyond that is its target's (target.go): what is made before, what shows that faults
// took effect in it, when it is over, and how it is sealed. A drill is a
// target without workers, which package paxos does step by step with the runner as client.
//
// To add a target: implement target in a file of its own, embedding workers or the target that
// it is most like, and give it a row in targets. TestTargets finds a pair of scenario and system
// that suit each other and have none.
package run
