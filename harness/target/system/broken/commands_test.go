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

func (r refusing) Redrive(context.Context, string, job.ID) error {
	return &engine.StateError{Job: "0-a", State: job.Completed}
}

// TestToldCommands: a redrive that was refused is told as done, and so is what nobody was asked for.
func TestToldCommands(t *testing.T) {
	t.Parallel()
	if err := redriveTold(workload.Config{}, refusing{}).Redrive(t.Context(), "q", "0-a"); err != nil {
		t.Errorf("a redrive is told %v", err)
	}
	if r, err := hastenTold(workload.Config{}, nil).Hasten(t.Context(), "q", "0-a"); err != nil || r.Duplicate {
		t.Errorf("told %+v, %v", r, err)
	}
	if j := neverEnded(job.Job{MaxDuration: time.Second}); j.MaxDuration < time.Minute {
		t.Errorf("a run may take %s", j.MaxDuration)
	}
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

// TestOneQueueForCommands: a command waits for the enqueues that came before it, and for no others.
func TestOneQueueForCommands(t *testing.T) {
	t.Parallel()
	h := oneQueueForCommands()
	r := refusing{asked: make(chan job.ID, 1)}
	c := h.Commander(workload.Config{}, r)
	taken, let, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	enqueue := h.Enqueue(func(context.Context, job.Job) (engine.Receipt, error) {
		close(taken)
		<-let
		return engine.Receipt{}, nil
	})
	go func() { _, _ = enqueue(t.Context(), job.Job{}) }()
	<-taken
	go func() { done <- c.Cancel(t.Context(), "q", "0-a") }()
	select {
	case <-r.asked:
		close(let)
		t.Fatal("a command overtook an enqueue that came before it")
	case <-time.After(50 * time.Millisecond):
	}
	close(let)
	if id := <-r.asked; id != "0-a" {
		t.Errorf("asked for %s", id)
	}
	<-done
	if err := c.Redrive(t.Context(), "q", "0-a"); err == nil {
		t.Error("told as done")
	}
}
