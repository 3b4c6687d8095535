// Package late tells people of jobs and schedules that are late: in the log, and by a
// webhook.
//
// What it is told by the engine (engine.Options.Late and LateJob) it takes without
// waiting: each way out has a queue of a fixed length and a goroutine of its own, and
// what finds its queue full is dropped, counted and said. So neither a slow receiver
// nor one that is away ever delays a job, nor another way out.
//
// A process reports a job once, however many of its attempts are late, as long as
// it is among the last Remembered jobs that were. A process that takes its shard over may tell
// of it again.
//
// # The webhook
//
// A POST with a JSON body, one an event; see Event. 2xx is success. Other answers below
// 500, but 408 and 429, are final, everything else is tried again, Tries times in all, after
// waits that double. Events may come more than once, late, and in another order than
// they happened; what is left when the process stops has Timeout to be sent.
package late
