// Package linear asks Porcupine whether the operations on a row or a resource have an order in
// which each sees what those before it left. It judges no property.
//
// A [Partition] is one object's operations, as steps of a model: a lock's row or a shard's header
// ([OfRow], rows.go), or a resource of the sink ([OfSink], sinks.go). What the chain or the ledger
// has settled is no longer unknown. It is cut into segments at places where the object's state is
// known, so that a search stays small (docs/decisions/0012-segments.md).
//
// [Search] runs within a [Budget] of CPU time and memory: how busy the machine is does not change
// a result. One that was not finished is Unknown, with the reason. [Shrink] makes what was
// refuted small, and a [Drawing] shows it as Porcupine's own page.
package linear
