package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"fencepost/systems/drive"
)

const ttl = 6 * time.Second

// TestChain: jobs come one after the other, a job whose run fails is run again with a higher token, and a long chain
// goes on in another workflow.
func TestChain(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	var runs []drive.Job
	env.RegisterActivityWithOptions(step(ttl, func(_ context.Context, j drive.Job) error {
		runs = append(runs, j)
		if j.N == 8 && len(runs) == 2 {
			return errors.New("once more")
		}
		return nil
	}), activity.RegisterOptions{Name: "step"})
	env.RegisterWorkflowWithOptions(chain(ttl), workflow.RegisterOptions{Name: "chain"})
	env.ExecuteWorkflow("chain", "lock", int64(7))
	var next *workflow.ContinueAsNewError
	if err := env.GetWorkflowError(); !errors.As(err, &next) {
		t.Fatalf("it ends with %v", err)
	}
	if len(runs) != chainJobs+1 || runs[1].ID() != "lock#8" || runs[2].ID() != "lock#8" || runs[chainJobs].N != 7+chainJobs-1 {
		t.Errorf("%d runs: %+v", len(runs), runs)
	}
	for i, j := range runs[1:] {
		if j.Token <= runs[i].Token {
			t.Errorf("%+v after %+v", j, runs[i])
		}
	}
}

// TestHeartbeats: a run that lasts is heard of.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	heard := make(chan struct{}, 100)
	env.SetOnActivityHeartbeatListener(func(*activity.Info, converter.EncodedValues) { heard <- struct{}{} })
	f := step(600*time.Millisecond, func(context.Context, drive.Job) error {
		select {
		case <-heard:
			return nil
		case <-time.After(10 * time.Second):
			return errors.New("nothing is heard of it")
		}
	})
	env.RegisterActivity(f)
	if _, err := env.ExecuteActivity(f, "lock", int64(1)); err != nil {
		t.Error(err)
	}
}
