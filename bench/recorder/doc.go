// Package recorder measures what the harness itself costs the clients of a run: the record
// that a worker keeps, and the links through which it reaches the nodes.
//
// # The arms
//
//   - C, the ceiling: a bare conditional update, as in bench/locks.
//   - L: lock cycles as a user runs them, as in bench/locks.
//   - R: the same, recorded as a worker of a run records them: each call for a lock, each
//     request and each shape of statement, in a file on disk.
//   - P: the same as L, but every connection to the nodes passes a link (Toxiproxy), and a tap
//     reads what it says, as in a run.
//   - RP: both.
//   - L2: a copy of L, the A/A control.
//
// Each arm but C has a lock client and a session of its own. L is the baseline of R, P and RP.
// The links are in this process, as are the clients, so the processor time of both is the
// client's. In a run they are two processes.
//
// # The targets
//
// Both may cost 5 % of the processor time. On a shared machine that of a cycle differs by more from
// round to round, for all processes alike. The parts that clients and nodes have of it do not: so
// an arm is compared by the nodes' part (reports.ArmNumbers.DearerThan), who do the same in all of them.
//
// # The audit
//
// Rows and tokens are followed as in bench/locks. In the end the reader of histories must accept
// every file, and find as many calls and requests of each kind and outcome as the arm counted: a
// recorder that drops some is not fast.
package recorder
