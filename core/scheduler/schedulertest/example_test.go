package schedulertest_test

import (
	"context"
	"fmt"
	"time"

	"fencepost/core/engine"
	"fencepost/core/scheduler"
	"fencepost/core/scheduler/schedulertest"
)

// What happens to a handler that is not idempotent when its process dies after it has
// returned and before anybody knows: it runs again, a ttl later.
func ExampleHarness_CrashAt() {
	const Charge scheduler.Kind[struct{ Cents int }] = "charge"
	schedulertest.Example(func(h *schedulertest.Harness) {
		charged := 0
		schedulertest.Handle(h, Charge, func(_ context.Context, _ *scheduler.Task, a struct{ Cents int }) error {
			charged += a.Cents
			return nil
		})
		h.CrashAt(engine.StepFinish)
		receipt, err := Charge.Enqueue(context.Background(), h.Scheduler(), struct{ Cents int }{1999})
		fmt.Println(err)
		h.Advance(time.Second)
		fmt.Println(h.Job(receipt.ID).State, charged)
		h.Advance(time.Minute)
		fmt.Println(h.Job(receipt.ID).State, charged)
	})
	// Output:
	// <nil>
	// running 1999
	// completed 3998
}
