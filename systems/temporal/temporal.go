package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/durationpb"

	"fencepost/systems/drive"
)

const (
	// taskQueue is in the run's namespace, which is its own.
	taskQueue = "jobs"
	// retention is the shortest that the server takes.
	retention = 24 * time.Hour
	// maxAttempts is above what an activity of a run is tried.
	maxAttempts = 1000
	// chainJobs is how many jobs a workflow has before the next goes on with its chain: Temporal wants short histories.
	chainJobs = 500
	// stopTimeout is less than drive waits for Close. An activity that runs longer is given up.
	stopTimeout = 18 * time.Second
)

// queue is Temporal: a chain of jobs is a workflow, and a job is an activity of it.
type queue struct {
	client client.Client
	worker worker.Worker // nil: it only puts
}

func options(at drive.Place) client.Options {
	return client.Options{
		HostPort: at.Nodes[0], Namespace: at.Name,
		Logger: log.NewStructuredLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))),
	}
}

func setUp(ctx context.Context, at drive.Place) error {
	c, err := client.NewNamespaceClient(options(at))
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Register(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: at.Name, WorkflowExecutionRetentionPeriod: durationpb.New(retention),
	})
}

func open(ctx context.Context, at drive.Place, slots int, run drive.Run) (drive.Queue, error) {
	c, err := client.DialContext(ctx, options(at))
	if err != nil {
		return nil, err
	}
	q := &queue{client: c}
	if slots == 0 {
		return q, nil
	}
	q.worker = worker.New(c, taskQueue, worker.Options{
		MaxConcurrentActivityExecutionSize: slots, WorkerStopTimeout: stopTimeout,
		MaxHeartbeatThrottleInterval: at.TTL / 3, // else heartbeats leave at 80 % of their timeout, which is late on a busy machine
	})
	q.worker.RegisterWorkflowWithOptions(chain(at.TTL), workflow.RegisterOptions{Name: "chain"})
	q.worker.RegisterActivityWithOptions(step(at.TTL, run), activity.RegisterOptions{Name: "step"})
	if err := q.worker.Start(); err != nil {
		c.Close()
		return nil, err
	}
	return q, nil
}

// chain is the workflow: an activity for each job, one after the other. A heartbeat is missed after the run's ttl.
// What has no heartbeat would be found by StartToCloseTimeout, which has no default. All else is as by default: an
// activity is tried until it succeeds, the first time after a second.
func chain(ttl time.Duration) any {
	return func(ctx workflow.Context, lock string, n int64) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * ttl, HeartbeatTimeout: ttl})
		for range chainJobs {
			if err := workflow.ExecuteActivity(ctx, "step", lock, n).Get(ctx, nil); err != nil {
				return err
			}
			n++
		}
		return workflow.NewContinueAsNewError(ctx, "chain", lock, n)
	}
}

// step is the activity. Attempts rise from run to run of a job.
func step(ttl time.Duration, run drive.Run) any {
	return func(ctx context.Context, lock string, n int64) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		go heartbeats(ctx, ttl/6)
		return run(ctx, drive.Job{Lock: lock, N: n, Token: n*maxAttempts + int64(activity.GetInfo(ctx).Attempt)})
	}
}

// heartbeats tells the server that the activity is alive. The answer that it is over cancels the activity's context.
func heartbeats(ctx context.Context, every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}

// Put starts the workflow of a chain, unless it was started before. The next job the workflow runs by itself.
func (q *queue) Put(ctx context.Context, j drive.Job) error {
	if j.N > 1 {
		return nil
	}
	_, err := q.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: j.Lock, TaskQueue: taskQueue, WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	}, "chain", j.Lock, j.N)
	return err
}

func (q *queue) Close(context.Context) error {
	if q.worker != nil {
		q.worker.Stop()
	}
	q.client.Close()
	return nil
}
