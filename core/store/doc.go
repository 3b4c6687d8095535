// Package store is the narrow interface between the scheduler core and its
// database: a lock row that is changed only by compare-and-set, and the three
// outcomes that any request can have.
//
// The outcome is the heart of it. A request to a distributed store that ends in
// an error may have happened, and may yet happen: the request can sit in a
// stalled link or coordinator long after its caller gave up. So every error is
// Unknown unless it is on the allow-list of what certainly did not happen, and
// code that sees an error it does not know treats it as Unknown. Nothing above
// this package looks at a driver's error.
//
// Implementations: store/cassandra (lightweight transactions) and store/sim (in
// memory, with losable requests and replies, for simulation). store/storetest
// holds the conformance suite that both must pass.
package store
