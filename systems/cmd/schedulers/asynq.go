package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"fencepost/systems/drive"
)

// asynqQueue is asynq, a queue in Redis. A process that runs a task has a lease of 30 s, which it renews every
// 5 s. Each process looks every minute for leases that ended 30 s ago or earlier, and has these tasks run
// again. None of these times is configurable. Keys have no prefix but the queue's name, which is the run's.
type asynqQueue struct {
	client *asynq.Client
	server *asynq.Server // nil: it only puts
	name   string
}

type asynqPayload struct {
	Lock string `json:"lock"`
	N    int64  `json:"n"`
}

const (
	asynqType = "step"
	// asynqKept is for how long a task that is completed is kept: one with its id conflicts until then.
	asynqKept = 24 * time.Hour
	// asynqStop is less than drive waits for Close. A task that runs longer is pushed back.
	asynqStop = 18 * time.Second
)

func openAsynq(_ context.Context, at drive.Place, slots int, run drive.Run) (drive.Queue, error) {
	redis := asynq.RedisClientOpt{Addr: at.Nodes[0]}
	q := &asynqQueue{client: asynq.NewClient(redis), name: at.Name}
	if slots == 0 {
		return q, nil
	}
	q.server = asynq.NewServer(redis, asynq.Config{
		Concurrency: slots, Queues: map[string]int{at.Name: 1}, LogLevel: asynq.WarnLevel, ShutdownTimeout: asynqStop,
		TaskCheckInterval: 20 * time.Millisecond, DelayedTaskCheckInterval: time.Second,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Second },
	})
	return q, errors.Join(q.server.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		var p asynqPayload
		if err := json.Unmarshal(t.Payload(), &p); err != nil {
			return err
		}
		retried, _ := asynq.GetRetryCount(ctx) // a task's context has it
		return run(ctx, drive.Job{Lock: p.Lock, N: p.N, Token: p.N*maxAttempts + int64(retried)})
	})))
}

// Put: a task whose id conflicts was put before.
func (q *asynqQueue) Put(ctx context.Context, j drive.Job) error {
	payload, err := json.Marshal(asynqPayload{j.Lock, j.N})
	if err != nil {
		return err
	}
	_, err = q.client.EnqueueContext(ctx, asynq.NewTask(asynqType, payload),
		asynq.Queue(q.name), asynq.TaskID(j.ID()), asynq.Retention(asynqKept), asynq.MaxRetry(maxAttempts-1))
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil
	}
	return err
}

func (q *asynqQueue) Close(context.Context) error {
	if q.server != nil {
		q.server.Shutdown()
	}
	return q.client.Close()
}
