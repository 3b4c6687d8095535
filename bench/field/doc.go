// Package field measures the locks of the field's table (docs/field.md) side by side: what it costs to
// take a lock and to give it back, alone and with eight clients that want the same one, on servers that
// all run during the whole benchmark, in interleaved rounds.
//
// Each lock is driven by its program (systems/cmd/locks), in a process of its own that takes and gives
// back locks as it is told, a line each. The harness tells and measures: latencies are from when it asks
// until it is answered, and two clients that have one lock at once are its finding, not the program's.
// The processor time of the program and of its store's servers is the kernel's account of them. The arm
// "none" is a lock in the program's own memory: what the harness itself takes, and part of every other.
//
// The core's lock runs in the benchmark's process, as it does in a user's, on three Cassandra nodes.
package field
