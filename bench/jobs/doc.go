// Package jobs measures the job scheduler beside the bare driver and beside a scheduler
// that takes a lock for every job.
//
// # The arms
//
//   - J: the production scheduler (core/scheduler) in one process, with so many shards,
//     at saturation: a job is enqueued when another is completed, so that always as many
//     are in flight, enough to fill every batch. Its handler does nothing.
//   - J2: a copy of the first J, the A/A control.
//   - JS: J with one fenced effect a job in the Cassandra sink.
//   - P, PS: harness/target/system/lockperjob without and with an effect, which its sink does
//     not fence.
//   - J/4x2: J with 4 shards in 2 processes (agents of package bench), with as many jobs in
//     flight in all. The schedulers share the shards by heartbeats (core/member), and the
//     window begins when every one has its owner. Each process enqueues jobs of its own
//     shards: so it hears of their end, and none is forwarded.
//   - C: bare conditional updates, the ceiling (bench/locks).
//   - J1: one job at a time, beside C with one thread: how many round trips a job is.
//
// Every window has a process and a queue of its own, so that an arm that is not measured
// does nothing, and which nodes lead its shards is drawn again. An arm is under load for
// a lead before its window, as a pipeline of batches needs some round trips to fill.
//
// # What is counted
//
// A job counts when its completion is settled. Conditional requests are counted where
// they leave for the store and by the engine's own account, which must agree; the
// sink's by its session, always from the first job to the last.
//
// # Loads over time
//
// Rates of two seconds do not show what wears out: tombstones, partitions that grow. So
// there are loads that go on for minutes, at a rate and at saturation. The load at a
// rate is open: jobs are asked for when they are meant to be, whatever became of those
// before, and how late a run begins is counted from then. A client that waited for
// answers would ask for nothing while the scheduler stands still, and find nothing late.
//
// # The audit
//
// A book has an entry for each job: what its enqueue was answered, how often it ran and
// was completed. In the end all rows are read: each job that was acknowledged must be
// completed once by what was reported and by its rows, or wait where an owner finds it,
// and there must be nothing else; each effect must be in the sink's ledger once. The books
// of several processes are looked at together, so that a job which two of them did is found. What the
// rival does wrong is no violation, but a reason not to compare with it.
package jobs
