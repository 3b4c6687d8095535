// Package store is the narrow interface between the scheduler core and its
// database: a lock row that is changed only by compare-and-set (Locks), a shard's
// partition that is changed only by conditional batches (Shards), a history of runs that
// is written plainly as nothing rests on it (Runs), and the three outcomes that any
// request can have.
//
// The outcome is the heart of it. A request to a distributed store that ends in
// an error may have happened, and may yet happen: the request can sit in a
// stalled link or coordinator long after its caller gave up. So every error is
// Unknown unless it is on the allow-list of what certainly did not happen, and
// code that sees an error it does not know treats it as Unknown. Nothing above
// this package looks at a driver's error.
//
// A shard is one partition: a header row, and rows of jobs and schedules ordered by (kind, at,
// id). A batch names the header's stamp (fence, tick and the nonce of the batch that
// set it) in its condition and sets a new one, so that each batch is applied at most
// once however often it is sent, and a rejection tells what has become of it. Only
// the stamp and the keys of existing PutNew rows are part of a rejection, since a
// conditional batch returns only what it named.
//
// Implementations: store/cassandra (lightweight transactions) and store/sim (in
// memory, with losable requests and replies, for simulation). store/storetest
// holds the conformance suite that both must pass.
package store
