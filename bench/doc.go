// Package bench compares things with each other on a cluster that is already running.
//
// # Why arms in rounds
//
// On one machine with three database processes an absolute number says more
// about the machine and the minute than about what is measured: the just-in-time
// compiler makes everything three to five times faster during the first
// minutes, and a neighbour's build halves it. Run one after the other, two equal
// things differ by a factor of up to two. So every arm runs in every round, in
// random order, for about two seconds each; what is compared is an arm's rate by
// that of the bare lightweight transaction *in the same round*; and a copy of
// one arm runs beside it, whose ratio to its original shows what noise makes
// of two equal things. When that control's confidence interval lies away from 1,
// the whole result is invalid. No number is dropped, clamped or smoothed.
//
// # What is counted
//
// The loop is closed: a thread begins its next operation when the last has
// ended, so that the numbers are the most that so many threads get, and a latency
// says nothing of a load that does not wait. Operations that end within the window
// count; those still going on are left out of rates and latencies and are reported
// with their age, as under contention they are the slowest there are. Threads start
// together. What needs time to become steady is under load for a lead before its
// window, and what ended in the lead is not counted.
//
// # Several processes
//
// In one process clients share what a process has: one lock client queues its own threads,
// so that they hardly contend in the database. So an arm's threads may be spread over
// processes (Arm.Processes). Each of these agents is this executable once more (Serve): it
// makes the same suite from the same configuration, opens sessions of its own and runs the
// same Subject with its part of the threads. An agent takes orders on its standard input
// and answers on its standard output, a line of JSON each. All prepare, start at the same
// instant, and go on until no operation is under way anywhere; their samples are made into
// one. An agent that dies, hangs or answers nonsense makes the window an error, never a
// smaller sample. Audits are judged together in the end (Joint).
//
// # Suites
//
// What the arms are is a Suite's: bench/locks, bench/jobs. A suite also audits. A
// fast path that is unsafe fails; it does not win. Package stat holds the statistics.
package bench
