// Package measure turns a history into numbers: latencies by operation and
// phase, rates over time, who held which lock when, and takeovers.
//
// Who held what is what [past.Past] says, which the checker judges by. Its right to act is drawn
// from when the acquire returned until it ended, at the latest with its process.
//
// The package judges nothing; that is the checker's work. Three choices matter to a
// reader of the numbers. Percentiles are over operations that ended ok, since an
// operation that failed fast or never ended has no latency worth ranking; the
// other outcomes are counted beside them. An operation belongs to the phase in
// which it was invoked, but what was under way when the fault phase began belongs
// to the fault phase: the fault struck it. And nothing is interpolated: a
// percentile is a latency that was measured, to three digits.
package measure
