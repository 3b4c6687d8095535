// Package storetest holds the conformance suites of store.Locks, store.Shards and store.Runs:
// what the protocols of the lock and of the engine rest on, checked against any
// implementation, in memory or real.
//
// It is used from tests and takes a T of its own, so that it can be run on a
// broken store to prove that it fails there.
package storetest
