// Package cassandra stores the scheduler core in Apache Cassandra by lightweight
// transactions. It is the only package that knows the driver (gocql v1.7.0).
//
// # What deviates from the driver's defaults, and why
//
//   - No retry policy, nothing idempotent: this driver re-executes conditional
//     statements under a retry policy, and a conditional statement executed twice
//     answers "not applied" to the write that it made itself. Resends belong to
//     the caller, who knows what they mean.
//   - ReconnectInterval 1 s (60 s): after a partition between client and node no
//     event tells that the node is back.
//   - WriteCoalesceWaitTime 0 (200 µs): coalescing costs about a millisecond a
//     sequential request.
//   - Node status events off: a node that others cannot reach may well be
//     reachable from here, and the reverse. The state of the own connections
//     decides. Schema events off: nothing here changes its schema while it runs.
//   - Every connection passes through one dialer that is keyed by the node's IP.
//   - Client timestamps off: no wall clock of a client gets into the data.
//   - Time limits are those of each request's context; the session's own limit is
//     set generously above and only bounds what has none.
//   - The wait for schema agreement is this package's own and counts live nodes only.
//   - Protocol version 4 is set: negotiation costs connections and can fail.
//
// # What the database must be set to
//
// A replica must not forget what it has acknowledged, or a conditional write that a
// quorum took is gone: commitlog_sync batch or group. The database's own default,
// periodic, answers first; a node that is killed then forgets up to
// commitlog_sync_marker_period (100 ms), and one that loses power up to
// commitlog_sync_period (10 s). No linearizable Paxos variant helps against that.
//
// # Outcomes
//
// Every error is a *store.Error; classify holds the allow-list of what certainly
// did not happen, and of that what will never happen as things are (Permanent). An answer to a conditional statement that lacks [applied], for
// which the driver panics, is an unknown outcome.
//
// # Shards
//
// A shard is a partition of the table shards, a batch on it one conditional UNLOGGED
// batch. The header's UPDATE comes first and names fence, tick and nonce in its
// condition; rows follow, without conditions but for IF NOT EXISTS where a row must
// be new. A batch that is rejected returns the header's stamp, and the whole of each
// such row that exists; rows that nobody asked for, or a rejection although every
// condition held, is an unknown outcome. So is a header or row that lacks a column.
//
// What Cassandra would refuse by an unknown outcome (a batch over store.MaxBytes) or
// take and lose (a key deleted and inserted in one batch: both get one timestamp, and
// the deletion wins) is refused here.
//
// Scans are plain QUORUM reads: the next conditional batch of a partition, applied or
// rejected, first brings to a quorum what was decided before it, and a batch is
// answered after a quorum has it. Deleted rows are read over until gc_grace_seconds
// (10 days) have passed, so scans of the table shards begin behind a mark. The inbox
// has none, as its ids are in no order of time: about 100,000 rows deleted from one
// shard's inbox within that time make Cassandra refuse to scan it
// (tombstone_failure_threshold). It is for when owners cannot be reached, not for
// every job.
//
// # Runs
//
// The table runs is for people, and the only one that is written plainly: no condition
// ever touches it, as a plain write does not see what a conditional one decides, nor
// the reverse. Its rows expire by the table's own time to live of two weeks, and are compacted by
// days, so that whole files are dropped.
//
// # One agreement
//
// LOCAL_SERIAL is decided by the coordinator's data centre: in two of them these are two
// agreements, and both would grant a lock. So Prepare and Migrate write into the table
// settings by which quorum the keyspace's processes agree, once, by a SERIAL conditional
// write that all data centres decide. Each session compares itself with it before its first
// conditional request. The row is looked for near by first; only if it is not there all
// data centres are asked, so that a session does not need the others once it has come.
// A keyspace of an older program has no such row: sessions by SERIAL use it, and look again
// every 10 s; sessions by LOCAL_SERIAL are refused until somebody prepares it.
//
// # Coordinators
//
// With Config.LocalDC only nodes of that data centre are ever asked, whatever fails.
// First copies for one partition go through one node, its first replica that is
// up; copy n goes through the n-th. Among the nodes, those that lately left a
// request without an answer come last. See coordinators.
package cassandra
