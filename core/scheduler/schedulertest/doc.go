// Package schedulertest tests handlers, retries, schedules and sequences on a real
// scheduler, in milliseconds: the engine of core/engine over a store and a sink in
// memory, on a clock that moves only when the test says so.
//
//	func TestReminder(t *testing.T) {
//		schedulertest.Test(t, func(t *testing.T, h *schedulertest.Harness) {
//			schedulertest.Handle(h, Remind, func(ctx context.Context, task *scheduler.Task, r Reminder) error { … })
//			receipt, err := Remind.Enqueue(t.Context(), h.Scheduler(), Reminder{Customer: "acme"}, scheduler.Delay(24*time.Hour))
//			…
//			h.Advance(24 * time.Hour)
//			if got := h.Job(receipt.ID).State; got != job.Completed { … }
//		})
//	}
//
// # Time
//
// A test runs in a bubble of testing/synctest. So it is not only the scheduler's clock:
// time.Now, time.Sleep and timers in handlers go by it too. It begins at midnight UTC of
// 2000-01-01, and stands still while anything runs. Nothing in the bubble may wait for
// something outside of it, such as a network connection: then the clock, and the test,
// would stand still for ever. Advance is the test's own sleep; whatever is due meanwhile
// happens at its time.
//
// # What is the same each time
//
// One process, which owns the one shard of the queue "default", has one slot: jobs run one
// after the other. Ids, jitter and the time that the store takes come from fixed
// seeds, and what comes within a microsecond is taken up together. So a test that does the
// same sees the same, to the millisecond; jobs that are due in one millisecond run in the
// order of their ids. A change of the options may allow for more.
//
// # Crashes
//
// Crash ends the process as kill -9 would, and starts another one, which takes the shard
// over when the ttl of 6 s is over, and runs again what was running. A handler says
// return h.Crash() where it is to end. CrashAt crashes the process at a step of a job's
// life; this is how to see that a handler may run twice:
//
//	h.CrashAt(engine.StepFinish) // a handler has returned, and nobody knows yet
//	h.Advance(2 * time.Minute)
//
// A handler that is at work when its process crashes elsewhere cannot be stopped there:
// its context ends, and its effects are refused.
package schedulertest
