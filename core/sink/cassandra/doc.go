// Package cassandrasink is the fenced sink on Cassandra: one partition a resource,
// every decision one lightweight transaction on it.
//
// The partition has a header row (whose tokens, highest token seen, number of
// ledger entries, value), a row for each accepted key, and the ledger. A decision
// that changes something is one conditional batch: the header as it was seen is
// named in the condition and gets the next sequence number, the key's row must not
// exist, the ledger entry is inserted. So of two decisions made on the same header
// one is rejected, and its answer shows the header and the key's row as they are.
//
// Decisions that change nothing (stale, duplicate, conflict, a token that is already
// the highest) are answered from a rejected batch or a SERIAL read, never from a
// plain read or what is remembered: another process may have raised the token since.
//
// After a lost answer the identical batch is sent again through another node. When
// it is rejected, the header has moved past the condition, so that no copy can be
// applied any more; whether one was, shows the attempt id in the key's row. Then
// the decision is made again on the rows that came back.
//
// What was retired leaves a floor, a header in a partition of its own (Retire). With
// Options.Retires a decision on a resource that is not there reads it, after it has seen that.
//
// A Sink remembers the headers that it saw last, which saves the read before a
// batch: a Raise and an Accept after it cost one lightweight transaction each. A
// stale header costs one rejection more.
package cassandrasink
