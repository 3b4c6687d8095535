// Package boltsink is the fenced sink in one file of the local disk: what makes a service
// of one process durable (core/cmd/httpsinkd). A decision is one transaction of bbolt,
// which is on the disk before it is acknowledged, so that a process that is killed, or a
// machine that loses power, forgets nothing that it acknowledged. Transactions that come
// together share one write to the disk.
//
// A decision is dated as it is made, by the host's monotonic clock, so that it can be compared
// with when it was asked for and when it was answered.
//
// A resource is a bucket with its header (whose tokens, highest token seen, number of ledger
// entries, value), a bucket of accepted keys, and the ledger. A floor is a header alone.
package boltsink
