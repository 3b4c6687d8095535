// Package locks measures locks beside the bare driver.
//
// # The arms
//
//   - C, the ceiling: the lock row's own conditional update through the same
//     session and the same statement as the lock client's, but with no lock client
//     above it. Rejected, a thread tries again at once with the row that came back.
//     Its latency is that of the whole update, retries included.
//   - W: a plain write at QUORUM of the same columns.
//   - L: acquire and release with core/lock, all threads of the process through one
//     client, nothing held in between. Once for each ttl.
//   - L2: a copy of L, the A/A control.
//   - LR: L with the first ttl, where each lease is renewed once by hand before it is released.
//
// C and L also in several processes (Spread), each with one lock client: "L/16x4/6s" is 16
// processes with 4 threads each.
//
// A lock cycle changes its row twice (with a renewal three times), a bare update once, so ratios compare row
// changes a second. The number of conditional requests that an operation really
// took is counted (by the lock client's observer, and once more at the store; they
// must agree) and shown beside it.
//
// Threads start on rows that exist. Each round uses rows of its own: which node leads
// a partition is drawn again.
//
// # The audit
//
// Every token is looked at as it is handed out, and every row is read once more
// at the end: tokens must rise, no two leases may be valid at once, and each row
// must show as many changes as were acknowledged. Processes note for each lease its token,
// when they knew of the grant and when they were last certain to have it, by the machine's
// clock, and are judged together: no token was handed out twice, nobody was certain of a
// lock after a later token was known elsewhere, and a row shows as many changes as all of
// them together were acknowledged.
//
// # Variants
//
// A Variant plants a slow-down, to see that a comparison of two results finds it: the power of
// the benchmark, as the known-broken variants of package system are that of the checks.
package locks
