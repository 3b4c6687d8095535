package lockperjob

import (
	"context"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
)

// Submit enqueues a job by two plain writes, its row and then its pending row. A job
// that is there is a duplicate; if it waits its pending row is written again, as the
// enqueue before may have been cut between the two. store.OutcomeOf tells of an error
// whether the job certainly was not enqueued.
func (s *Scheduler) Submit(ctx context.Context, j job.Job) (engine.Receipt, error) {
	j = j.WithDefaults()
	fail := func(outcome store.Outcome, err error) (engine.Receipt, error) {
		return engine.Receipt{}, &store.Error{Op: "enqueue " + string(j.ID), Outcome: outcome, Cause: err}
	}
	if err := j.Check(s.o.Buckets); err != nil {
		return fail(store.Fail, err)
	}
	body, err := j.Encode()
	if err != nil {
		return fail(store.Fail, err)
	}
	try := func(f func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
		defer cancel()
		return f(ctx)
	}
	bucket, _ := j.ID.Shard() // Check has read it
	r := Row{ID: j.ID, Body: body, State: job.Pending, Due: s.o.Wall().UnixMilli()}
	if !j.Due.IsZero() {
		r.Due = j.Due.UnixMilli()
	}
	var old *Row
	if err := try(func(ctx context.Context) (err error) {
		old, err = s.rows.job(ctx, j.ID)
		return err
	}); err != nil {
		return fail(store.Fail, err)
	}
	switch {
	case old == nil:
		s.o.Observer.Step(Step{Kind: StepEnqueue, Lock: LockName(s.o.Queue, j.ID), Job: j.ID})
		if err := try(func(ctx context.Context) error { return s.rows.insert(ctx, r) }); err != nil {
			return fail(store.OutcomeOf(err), err)
		}
	case old.State != job.Pending:
		return engine.Receipt{ID: j.ID, Duplicate: true}, nil
	default:
		r.Due = old.Due
	}
	if err := try(func(ctx context.Context) error {
		return s.rows.addPending(ctx, Pending{Bucket: bucket, Due: r.Due, ID: j.ID})
	}); err != nil {
		return fail(store.Unknown, err) // the job's row is there
	}
	if old == nil {
		s.o.Observer.Step(Step{Kind: StepEnqueued, Lock: LockName(s.o.Queue, j.ID), Job: j.ID})
	}
	return engine.Receipt{ID: j.ID, Duplicate: old != nil}, nil
}
