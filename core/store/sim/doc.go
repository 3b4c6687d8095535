// Package sim is a store of lock rows and shards in memory whose network can lose requests
// and replies, delay them, and deliver a request long after its sender gave up, or twice.
//
// It exists to run the lock client through thousands of seeded faults in
// testing/synctest bubbles: all waiting is on Go timers, so virtual time works and
// hours pass in milliseconds. The rows themselves are perfect: each compare-and-set
// is one atomic step, and the store keeps the chain of all versions, the truth
// that an outcome reported by a client is judged by.
// Plain reads may hide the last changes, by their Level. Deleted rows stay in the way of scans until a range deletion covers them; with
// Store.MaxDead a scan that passes too many fails, as on a cluster.
//
// Every process has a Session with a random stream of its own, and every delay has
// a random part in nanoseconds: wake-ups at one instant run in an order that no
// seed determines, so none should coincide. Requests on shards draw their fate by
// their name and number instead of from the stream, since an engine sends several at
// one instant.
package sim
