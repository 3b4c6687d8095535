package scheduler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/worker"
)

// Task is a run as its handler sees it.
type Task = worker.Task

// Handlers are the handlers of a process, by kind of job.
type Handlers map[string]worker.Handler

// Kind names a sort of jobs whose payload is an Args in JSON.
type Kind[Args any] string

// Register makes f the handler of the jobs of this kind. It fails if they have one.
//
// A payload that is no Args, or is empty, ends its job in the dead letter queue without
// another attempt. One with fields that Args does not have was probably enqueued by
// a newer program: nothing of it is left out silently, but the attempt fails, and the job is
// tried again as its policy says, perhaps by a process that knows them. Args whose
// UnmarshalJSON takes them are given them.
func (k Kind[Args]) Register(h Handlers, f func(ctx context.Context, t *Task, args Args) error) error {
	if h[string(k)] != nil {
		return fmt.Errorf("scheduler: jobs of kind %q have a handler already", string(k))
	}
	h[string(k)] = func(ctx context.Context, t *Task) error {
		args, err := k.decode(t.Run.Job.Payload)
		if err != nil {
			return err
		}
		return f(ctx, t, args)
	}
	return nil
}

func (k Kind[Args]) decode(payload []byte) (args Args, err error) {
	strict := json.NewDecoder(bytes.NewReader(payload))
	strict.DisallowUnknownFields()
	unknown := strict.Decode(&args)
	// The other way round what follows the value would not be seen.
	var lax Args
	if err := json.Unmarshal(payload, &lax); err != nil {
		return args, job.Permanent(fmt.Errorf("the payload of a job of kind %q is no %s: %w", string(k), reflect.TypeFor[Args](), err))
	}
	if unknown != nil {
		return args, fmt.Errorf("the payload of a job of kind %q has more than %s: %w", string(k), reflect.TypeFor[Args](), unknown)
	}
	return args, nil
}

// Job makes a job of this kind: a template without an id, unless an option gives more.
func (k Kind[Args]) Job(args Args, options ...Option) (job.Job, error) {
	payload, err := json.Marshal(args)
	if err != nil {
		return job.Job{}, &job.InvalidError{Field: "payload", Reason: fmt.Sprintf("of kind %q cannot be encoded: %v", string(k), err)}
	}
	j := job.Job{Kind: string(k), Payload: payload}
	for _, o := range options {
		if err := o(&j); err != nil {
			return job.Job{}, err
		}
	}
	return j, nil
}

// Enqueue enqueues a job of this kind; see Scheduler.Enqueue.
func (k Kind[Args]) Enqueue(ctx context.Context, s *Scheduler, args Args, options ...Option) (engine.Receipt, error) {
	j, err := k.Job(args, options...)
	if err != nil {
		return engine.Receipt{}, err
	}
	return s.Enqueue(ctx, j)
}

// Schedule puts a schedule of jobs of this kind; see Scheduler.PutSchedule. d.Job is
// made here; d.Queue is that of the option Queue, if there is one.
func (k Kind[Args]) Schedule(ctx context.Context, s *Scheduler, d schedule.Definition, args Args, options ...Option) (engine.Receipt, error) {
	j, err := k.Job(args, options...)
	if err != nil {
		return engine.Receipt{}, err
	}
	if j.Queue != "" {
		d.Queue, j.Queue = j.Queue, ""
	}
	d.Job = j
	return s.PutSchedule(ctx, d)
}
