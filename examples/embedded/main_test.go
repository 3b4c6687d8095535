package main

import (
	"testing"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/scheduler"
	"fencepost/core/scheduler/schedulertest"
	"fencepost/core/sink"
)

// TestWelcome: the process dies when its handler has returned; the job runs again, and
// the credit is given once.
func TestWelcome(t *testing.T) {
	t.Parallel()
	kinds, err := handlers()
	if err != nil {
		t.Fatal(err)
	}
	schedulertest.Test(t, func(t *testing.T, h *schedulertest.Harness) {
		h.CrashAt(engine.StepFinish)
		receipt, err := Welcome.Enqueue(t.Context(), h.Scheduler(), Signup{"ann@example.com"}, scheduler.Key("ann@example.com"))
		if err != nil {
			t.Fatal(err)
		}
		h.Advance(3 * time.Minute)
		if j := h.Job(receipt.ID); j.State != job.Completed || j.Attempts != 2 {
			t.Errorf("%+v", j)
		}
		credits := 0
		entries, err := h.Sink.Ledger(t.Context(), "job/"+schedulertest.DefaultQueue+"/"+string(receipt.ID))
		for _, e := range entries {
			if e.Kind == sink.KindAccept {
				credits++
			}
		}
		if credits != 1 || err != nil {
			t.Errorf("%d credits, %v", credits, err)
		}
	}, func(o *scheduler.Options) { o.Handlers = kinds })
}
