// Package enginetest is a simulated world for the job engine: processes that crash, pause
// and stop, machines that are suspended, clocks that are wrong, a network that loses and
// delays, all on the simulated store (package sim) with the time of a bubble (testing/synctest). A run is drawn from a
// seed, and the same seed makes the same run to the nanosecond.
//
//	cfg := enginetest.Draw(seed)
//	r := enginetest.Run(t, cfg)
//	if len(r.Violations) > 0 {
//		t.Error(r.Violations, enginetest.Shrink(t, cfg, rule, 100))
//	}
//
// A run has two halves. First clients enqueue jobs into up to three queues, operators cancel,
// redrive, hasten and pause, and planners put schedules, while faults strike (world.go, client.go,
// queues.go, commands.go, halts.go, sequences.go, again.go, schedule.go). Then all is healed, and
// every job must finish.
//
// Afterwards the run is judged by what the store and the sink have recorded, batch by batch
// (replay.go): each rule compares that with what the engine has told its clients and its
// Observer. A rule knows nothing of the engine's insides. Some rules are checked while the
// run goes on: that no two processes are entitled to one job, for one.
//
// Mutants are schedulers with one mistake, to prove that the rules find them. Those that
// real runs plant too are in package mistake; those that need the engine's own parts
// changed are in the engine's tests.
package enginetest
