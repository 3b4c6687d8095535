// Package storetest is the conformance suite of store.Locks: what the lock
// protocol rests on, checked against any implementation, in memory or real.
//
// It is used from tests and takes a T of its own, so that it can be run on a
// broken store to prove that it fails there.
package storetest
