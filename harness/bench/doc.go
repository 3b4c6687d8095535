// Package bench measures locks beside the bare driver on a cluster that is
// already running.
//
// # Why arms in rounds
//
// On one machine with three database processes an absolute number says more
// about the machine and the minute than about the lock: the just-in-time
// compiler makes everything three to five times faster during the first
// minutes, and a neighbour's build halves it. Run one after the other, two equal
// things differ by a factor of up to two. So every arm runs in every round, in
// random order, for about two seconds each; what is compared is an arm's rate by
// that of the bare lightweight transaction *in the same round*; and a copy of
// the lock arm runs beside it, whose ratio to its original shows what noise makes
// of two equal things. When that control's confidence interval lies away from 1,
// the whole result is invalid. No number is dropped, clamped or smoothed.
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
//
// A lock cycle changes its row twice, a bare update once, so ratios compare row
// changes a second. The number of conditional requests that an operation really
// took is counted (by the lock client's observer, and once more at the store; they
// must agree) and shown beside it.
//
// # What is counted
//
// The loop is closed: a thread begins its next operation when the last has
// ended, so that the numbers are the most that so many threads get, and a latency
// says nothing of a load that does not wait. Operations that end within the window count; those still going on are
// left out of rates and latencies and are reported with their age, as under
// contention they are the slowest there are. Threads start together on rows that
// exist. Each round uses rows of its own: which node leads a partition is drawn
// anew.
//
// # Fast is not enough
//
// Every token is looked at as it is handed out, and every row is read once more
// at the end: tokens must rise, no two leases may be valid at once, and each row
// must show as many changes as were acknowledged. A fast path that is unsafe
// fails; it does not win.
//
// Package stat holds the statistics.
package bench
