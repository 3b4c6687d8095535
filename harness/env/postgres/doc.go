// Package postgres runs PostgreSQL as a process of the harness, for the sink of a run:
// real, throw-away, and reached by links like everything else.
//
// # The program
//
// [Find] takes the server from PATH, from where Debian keeps it, or from the cache,
// where scripts/fetch-postgres puts one that Maven brings.
//
// # Whose process it is
//
// PostgreSQL refuses to run as root, and every process in the harness's sandbox is root
// there. So each server has a user namespace in which the harness's own user appears
// as nobody: on disk all stays the harness's, and no further user is needed. It also
// has a PID namespace, of which the postmaster is the first process: with the
// postmaster dies every process of the server, which else live in sessions of their
// own; and an IPC namespace, so that shared memory goes with it.
//
// # Its data
//
// An initialized database is kept as a template in the cache, one for each version of
// the server, and copied for each run. It is on disk with fsync on, so an acknowledged
// commit survives what faults do to the process. Who connects needs the password of a
// file that only the harness's user can read.
//
// # With a standby
//
// [LayPrimary] and [LayStandby] make two servers of which one follows the other by streaming
// replication. A server that was the primary has written what the other never got, so it cannot
// just follow that one: [Files.Follow] gives it a base copy first, by the server's own functions
// for backups. So pg_basebackup and pg_rewind are not needed, which not every package has.
package postgres
