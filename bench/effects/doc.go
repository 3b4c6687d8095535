// Package effects measures the fenced sink on PostgreSQL beside plain transactions.
//
// # The arms
//
//   - E: one fenced effect after the other (core/sink/postgres, Accept), each thread on a resource of
//     its own.
//   - E2: a copy of the first E, the A/A control.
//   - T: a plain transaction that writes what an effect writes: it updates a row, and inserts two, in
//     tables with the same columns and indexes. It reads nothing, so it decides nothing: no token is compared,
//     and a key that is there already is an error.
//
// So the ratio is what fencing and idempotency cost a program that keeps such rows anyway. Both take one
// round trip between BEGIN and COMMIT. Each arm has tables of its own.
//
// # The server
//
// It is the one that runs with SINK=postgres have (harness/env/postgres), started for the benchmark: each commit is on
// disk before it is answered, and its buffers are small (32 MB). Its processor time is that of its processes when
// all connections are open, of which each thread of each arm has one.
//
// # The audit
//
// In the end each thread's resource must have as many entries in its ledger, and each row of the plain
// transactions must have been counted up, as often as operations ended well; those of unknown outcome may
// have been done.
package effects
