// Package sinktest is the conformance suite of sink.Sink, run on every
// implementation, and Memory, a sink in memory that passes it.
//
// The suite takes a T of its own, so that it can be run on broken sinks to prove
// that it fails there.
package sinktest
