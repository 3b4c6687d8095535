package broken

import (
	"context"
	"testing"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/harness/target/workload"
)

// refusing refuses every cancel, and tells when it was asked.
type refusing struct {
	workload.Commander
	asked chan job.ID
}

func (r refusing) Cancel(_ context.Context, _ string, id job.ID) error {
	r.asked <- id
	return &engine.StateError{Job: id, State: job.Completed}
}

// TestCancelTold: a cancel is asked for, and told as done although it was refused.
func TestCancelTold(t *testing.T) {
	t.Parallel()
	r := refusing{asked: make(chan job.ID)}
	ctx, cancel := context.WithCancel(t.Context())
	if err := cancelTold(workload.Config{}, r).Cancel(ctx, "q", "0-a"); err != nil {
		t.Errorf("told %v before anybody was asked", err)
	}
	cancel()
	select {
	case id := <-r.asked:
		if id != "0-a" {
			t.Errorf("asked for %s", id)
		}
	case <-time.After(10 * time.Second):
		t.Error("nobody was asked")
	}
}
