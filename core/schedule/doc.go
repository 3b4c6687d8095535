// Package schedule decides when recurring jobs fire. It is pure: no I/O, no clock, no
// random numbers. The engine asks it and carries out what it says.
//
// A Definition is what a client puts: when it fires (once, at the times of a cron
// expression, at a fixed rate, with a fixed delay), what becomes of times that come
// too late (Misfire) or too early (Overlap), and the job, with those that follow it.
// New checks it. A State is what has become of it so far; Decide, Ended, Trigger and
// the other steps take one and return the next, with the occurrences to fire. State
// and jobs are to be written in one atomic step; then whatever crashes, each nominal
// time is fired, queued or passed over exactly once.
//
// # Nominal times
//
// A nominal time is when the schedule was to fire, in ms since 1970, whenever it does.
// It identifies the occurrence, and the id of its job is made from it. The nominal
// times of a schedule rise strictly, also if clocks are set back or its timing is
// changed. They never depend on when the one before was fired, but with a fixed delay,
// which is counted from its end.
//
// The decision for each nominal time that is not later than now, in their order:
//
//	late by more than Grace, and the policy skip             missed
//	late by more than Grace, and the policy once             missed, but the last one if no
//	                                                         later one is in time
//	late by more than Window, and the policy all             missed
//	else, if an occurrence has not ended, and overlaps are
//	  allowed                                                fired
//	  skipped                                                skipped
//	  queued                                                 queued, but skipped if the queue is full
//	else                                                     fired
//
// So Grace is how late is still normal: it is longer than a takeover takes, and a
// crash of the process that fires makes no misfire. A limit on how many are fired at
// once leaves the others as they are, to be decided a moment later.
//
// # Cron
//
// Expressions are parsed by github.com/robfig/cron/v3, which is asked for the sets of
// bits alone; what they mean on a zone's clocks is decided here, as that library fires
// nothing for a time in a gap and twice for one that occurs twice. Five fields, or six
// with seconds in front; no L, W or #; Sunday is 0 or sun. Zones come from the
// machine's database, or from the one that is built in. Two processes with different
// editions of it may not agree on times in a country that has just changed its rules;
// that does not fire anything twice.
//
// # When clocks are changed
//
// Expressions are of two sorts, by their hours. One with * (or ?) there (*/2 too), or with
// all 24 of them, speaks of spacing: every five minutes, every hour, every second one.
// It fires whenever the zone's clocks show a time that it names: throughout an hour
// that occurs twice, and not in one that does not occur.
//
// Any other names times of day, or a window of the day such as "*/30 2 * * *", and people
// count on those once a day (docs/decisions/0014): each time fires when the
// zone's clocks show that time, or a later one, for the first time. So
//
//   - a time that occurs twice fires the first time;
//   - a time in a gap fires at the gap's end: 02:30, when clocks go from 02:00 to 03:00,
//     at 03:00. Several times in one gap, or one at its end, are one nominal time then;
//   - the same holds for whole days, as when a country crosses the date line.
//
// The alternatives: to fire nothing in a gap loses a daily job once a year, to fire
// both times runs it twice, and to fire at 03:30 can come after a job that names 03:00
// and was meant to be later. A fixed rate and a fixed delay know no clocks on walls.
package schedule
