package lockperjob

import (
	"context"
	"errors"
	"fmt"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
)

// execute runs a locked job and writes down how it ended. What it does after the
// pending row is gone, nobody does if it dies.
func (s *Scheduler) execute(w *slot, p Pending, l *lease) {
	var r *Row
	if err := s.insist(func(ctx context.Context) (err error) {
		r, err = s.rows.job(ctx, p.ID)
		return err
	}); err != nil {
		return
	}
	u := Update{Lock: l.name, Holder: w.holder, Job: p.ID, Run: l.run}
	if r != nil && !r.State.Ended() {
		s.o.Observer.Step(Step{Kind: StepClaimed, Lock: l.name, Holder: w.holder, Job: p.ID, Run: u.Run})
	}
	if err := s.insist(func(ctx context.Context) error { return s.rows.removePending(ctx, p) }); err != nil {
		return
	}
	if r == nil || r.State.Ended() {
		return // a row that came late
	}
	j, err := job.Decode(r.Body)
	if err == nil && r.Attempt >= j.MaxAttempts {
		err = errors.New("its last run was cut short")
	}
	if err != nil {
		u.Run, u.Attempt = r.Run, r.Attempt
		s.end(w, *r, u, j, err)
		return
	}
	r.State, r.Run, r.Attempt = job.Running, u.Run, r.Attempt+1
	u.Attempt = r.Attempt
	if s.update(u, DoClaim, func(ctx context.Context) error { return s.rows.save(ctx, *r) },
		func(ctx context.Context) error {
			return s.rows.began(ctx, run{job: p.ID, id: u.Run, attempt: u.Attempt, holder: w.holder, started: s.o.Wall().UnixMilli()})
		}) != nil {
		return
	}
	s.end(w, *r, u, j, s.run(w, p, u, j))
}

// run calls the handler. The lock is believed to be held: nothing asks again.
func (s *Scheduler) run(w *slot, p Pending, u Update, j job.Job) error {
	step := Step{Lock: u.Lock, Holder: w.holder, Job: p.ID, Run: u.Run, Attempt: u.Attempt, Due: p.Due}
	over := make(chan error, 1)
	s.pool.Reserve(1) // there are as many slots as in the pool
	s.pool.Start(s.runs, engine.Execution{
		Run: job.Run{Job: j, ID: u.Run, Attempt: u.Attempt, Due: p.Due, First: u.Attempt == 1}, Issuer: u.Lock,
		Begin: func() error {
			step.Kind = StepStart
			s.o.Observer.Step(step)
			return nil
		},
		Valid: func() bool { return true },
	}, func(err error) { over <- err })
	err := <-over
	step.Kind, step.Err = StepFinish, err
	s.o.Observer.Step(step)
	return err
}

// end writes down what becomes of a job whose run ended so. A job that is to be tried
// again gets its pending row before its state says so: if the process dies between
// the two, it runs again.
func (s *Scheduler) end(w *slot, r Row, u Update, j job.Job, err error) {
	now := s.o.Wall().UnixMilli()
	r.Error = ""
	if err != nil {
		r.Error = err.Error()
	}
	do, again := DoComplete, Pending{}
	switch {
	case err == nil:
		r.State, r.Ended = job.Completed, now
	case job.IsCancel(err):
		do, r.State, r.Ended = DoCancel, job.Cancelled, now
	case r.Attempt < j.MaxAttempts && !job.IsPermanent(err):
		do, r.State, r.Due = DoRetry, job.Pending, now
		if !errors.Is(err, job.ErrInterrupted) {
			r.Due += j.Retry.Delay(r.Attempt, w.rng.Float64()).Milliseconds()
		}
		bucket, _ := r.ID.Shard() // it came from one
		again = Pending{Bucket: bucket, Due: r.Due, ID: r.ID}
	default:
		do, r.State, r.Ended = DoDLQ, job.DLQ, now
	}
	u.Due = again.Due
	writes := []func(context.Context) error{
		func(ctx context.Context) error { return s.rows.save(ctx, r) },
		func(ctx context.Context) error {
			return s.rows.ended(ctx, run{job: r.ID, id: u.Run, ended: now, err: r.Error})
		},
	}
	if do == DoRetry {
		writes = append([]func(context.Context) error{func(ctx context.Context) error { return s.rows.addPending(ctx, again) }}, writes...)
	}
	if err := s.update(u, do, writes...); err != nil {
		w.log.Error("outcome of job unknown", "job", r.ID, "run", u.Run, "state", r.State, "error", err)
	}
}

// update makes the writes of one change, one after the other. With some of them made
// nobody can say that it was not done.
func (s *Scheduler) update(u Update, do Do, writes ...func(context.Context) error) error {
	u.Do = do
	over := s.o.Observer.Update(u)
	var err error
	for i, write := range writes {
		if err = s.insist(write); err == nil {
			continue
		}
		if i > 0 {
			err = &store.Error{Op: fmt.Sprintf("%s %s", do, u.Job), Outcome: store.Unknown, Cause: err}
		}
		break
	}
	over(err)
	return err
}
