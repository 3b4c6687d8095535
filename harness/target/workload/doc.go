// Package workload is what a worker process does: clients that compete for
// fenced locks and write fenced side effects, recording every operation.
//
// A client's cycle: acquire a lock; raise the sink's highest token and wait for
// it; read the resource's value n; hold for a while; write n+1 under the token
// with an idempotency key of this grant's own; release. A key shared by several
// grants would let deduplication hide a double execution: with a fresh key two
// holders at once lose an update visibly, as applied effects and the final value
// disagree.
//
// The clients use the production lock client and sink through small interfaces
// (Locker, Lease, sink.Sink), which is where known-broken variants decorate them.
//
// To add a workload: implement load in a file of its own, and give it a row in rows (config.go)
// with what it demands of its Config. Its settings are a field of Config. Orders are an
// example: what is the shop's is in package target/orders.
package workload
