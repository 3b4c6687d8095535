// Package runlog keeps a history of runs for people: of every run that has ended its
// job, attempt, run id, worker, start, end, outcome and error.
//
// It is advice. Nothing rests on it, so it must cost nothing else: what ends is noted
// in memory by the engine's steps, gathered for a moment, and written in the
// background, plainly, one request for many rows of one partition (measured: written
// one by one they would halve the throughput of everything). When the store does not
// keep up, rows are dropped, counted and warned of; what waits in memory is bounded.
// A process that is killed takes along what it had not written.
//
// A row is written when the tick that says what became of the run is settled. If the
// shard is lost before, the outcome is Lost: the next owner decides, and rescues the
// run if it was not settled. That owner writes the outcome alone, as it knows no more;
// if both write, the row has what the worker knew and the outcome that came last.
//
// A row's partition is its shard and the day on which the run ended, by the writer's
// wall clock: a million runs a day and shard are about 150 MB. A rescue that is
// written on another day than the run's end makes a second row.
package runlog
