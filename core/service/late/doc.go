// Package late reports jobs and schedules that are late, in the log and by a webhook.
//
// It accepts events from the engine (engine.Options.Late and LateJob) without waiting.
// Each channel has a queue of fixed length and its own goroutine; an event that finds the
// queue full is dropped, counted and logged. So a slow or absent receiver never delays a
// job, nor the other channel.
//
// A process reports a job once, however many of its attempts are late, as long as
// it is among the last Remembered jobs that were. A process that takes its shard over may report
// it again.
//
// # The webhook
//
// One POST with a JSON body per event; see Event. 2xx is success. Other answers below 500,
// except 408 and 429, are final; everything else is tried again, Tries times in all, after
// waits that double. Events may arrive more than once, late and out of order. When the
// process stops, what is left has Timeout to be sent.
package late
