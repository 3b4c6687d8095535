// Package lockperjob is a job scheduler of the plain design that core/engine is to be
// compared with: a lock for each job, in Cassandra, by lightweight transactions. It is
// complete and meant to be good at what it does; what the design gets wrong it gets
// wrong here too.
//
// # The design
//
// A job is a row found by its id (body, state, attempts, last error), and while it
// waits a row in one of a fixed number of buckets, in the order in which jobs are due.
// Every process polls every bucket up to a LIMIT and tries to lock what is due:
//
//  1. take a fencing token from a block of ids that the process got before (Hi/Lo, one
//     conditional statement for many tokens);
//  2. INSERT the job's lock row IF NOT EXISTS, with holder, token and the wall clock's
//     time at which it expires; or take it over if it was released, or expired by the
//     own wall clock;
//  3. delete the job's pending row, write down that it runs, and run it, renewing the
//     lock every third of the ttl;
//  4. write down how it ended, with a new pending row if it is to be tried again, and
//     release the lock.
//
// A job without trouble costs 2 conditional statements and 7 plain writes (2 to
// enqueue it), a share in a block of tokens, and a renewal for each third of the ttl
// that it takes. Lock rows are written by conditional statements only, all others by
// plain ones only, so no row mixes the two. A released lock row stays, without a
// holder. The conditions name the whole lock row, expiry included: what they decide is
// the same as with holder and token, and the chain of versions can be told from a
// record of them.
//
// # Its known holes
//
//   - Tokens come from blocks: they are unique, but they do not rise. Who locks a
//     job after somebody else may have the lower token.
//   - A renewal that fails is logged, and that is all: the run goes on, even if
//     somebody else has the lock by then.
//   - The pending row is deleted before the run. If the process dies, nothing brings
//     the job back: nobody looks for jobs that run for nobody.
//   - The token is written down with each effect and compared with nothing (see Sink).
//   - A lock expires by the wall clocks of those who write and read it.
//
// Two more follow from its plain writes: the last one wins, with the lock or without; and
// an enqueue that is cut between its two writes leaves a job that never runs unless it
// is enqueued again.
//
// What a careful engineer adds to such a design is here: a job is read under its lock
// and not run again when it has ended, an enqueue of a job that is there is a
// duplicate, the row of a retry is inserted before the state says so, writes under a
// lock are repeated until they are acknowledged, locks that others hold are left alone
// until they expire, and processes look at buckets and rows in random order.
package lockperjob
