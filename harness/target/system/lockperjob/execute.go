package lockperjob

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/lock"
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

// lease is a job's lock as its holder believes to have it.
type lease struct {
	s    *Scheduler
	name string
	run  job.RunID     // the token
	at   store.Version // the row as last known; its keeper's while it is kept
}

// tokenName is the counter of fencing tokens, of all queues.
const tokenName = "lock_seq"

// claim locks a job: nil if somebody else has it, or it could not be found out. The
// token is taken first, before the lock. A request without an answer counts as
// refused: if it was done, the lock has to expire.
func (s *Scheduler) claim(w *slot, p Pending) *lease {
	ctx, cancel := context.WithTimeout(s.writes, s.o.TTL)
	defer cancel()
	token, err := s.ids.Next(ctx, tokenName)
	if err != nil {
		w.log.Warn("taking a token failed", "job", p.ID, "error", err)
		return nil
	}
	l := &lease{s: s, name: LockName(s.o.Queue, p.ID), run: job.RunID(token)}
	l.at = Version(w.holder, token, s.expiry(), s.o.TTL)
	res, err := s.cas(lock.Op{Kind: lock.Acquire, Resource: l.name, Holder: w.holder, To: l.at})
	if err == nil && !res.Applied && res.Row != nil && s.free(ctx, w, p, res.Row) {
		l.at = Version(w.holder, token, s.expiry(), s.o.TTL)
		res, err = s.cas(lock.Op{Kind: lock.Acquire, Resource: l.name, Holder: w.holder, From: res.Row, To: l.at, Takeover: res.Row.Holder != ""})
	}
	switch {
	case err != nil:
		w.log.Warn("locking job failed", "job", p.ID, "error", err)
		return nil
	case !res.Applied:
		return nil
	}
	return l
}

// expiry is when a lock that is taken now expires, by the own wall clock.
func (s *Scheduler) expiry() time.Time { return s.o.Wall().Add(s.o.TTL) }

// free reports whether a lock that exists may be taken: it has expired by the own wall
// clock, or was released and its job is to run again. Jobs that are over leave their
// pending row only if it came late; it is removed without their lock.
func (s *Scheduler) free(ctx context.Context, w *slot, p Pending, row *store.Version) bool {
	if row.Holder != "" {
		if s.o.Wall().UnixMilli() < row.Beat {
			s.hand.leave(p, row.Beat)
			return false
		}
		w.log.Info("lock expired", "job", p.ID, "holder", row.Holder, "token", row.Fence)
		return true
	}
	r, err := s.rows.job(ctx, p.ID)
	if err != nil {
		w.log.Warn("reading job failed", "job", p.ID, "error", err)
		return false
	}
	if r == nil || r.State.Ended() {
		if err := s.rows.removePending(ctx, p); err != nil {
			w.log.Warn("removing row of ended job failed", "job", p.ID, "error", err)
		}
		return false
	}
	return true
}

// cas makes one conditional request; its time limit begins after the observer let it go.
func (s *Scheduler) cas(op lock.Op) (store.CASResult, error) {
	span := s.o.Observer.Begin(op)
	span.Sending(0)
	ctx, cancel := context.WithTimeout(s.writes, s.o.RequestTimeout)
	defer cancel()
	res, err := s.locks.CAS(ctx, op.Resource, op.From, op.To, 0)
	end := lock.Result{Outcome: store.OutcomeOf(err), Row: res.Row, Err: err, ServerTimeout: store.IsServerTimeout(err)}
	if err == nil && !res.Applied {
		end.Outcome = store.Fail
	}
	span.End(end)
	return res, err
}

// keep renews the lock until stop is called, which waits for a renewal that is on its
// way. What fails is logged, and that is all: the run goes on.
func (l *lease) keep(w *slot) (stop func()) {
	ctx, cancel := context.WithCancel(l.s.writes)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for l.s.o.Clock.Sleep(ctx, l.s.o.TTL/3) == nil {
			if err := l.renew(); err != nil {
				w.log.Warn("renewing lock failed", "lock", l.name, "error", err)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (l *lease) renew() error {
	return l.change(lock.Renew, func(v *store.Version) { v.Beat = l.s.expiry().UnixMilli() })
}

// release frees the lock; if that fails it has to expire.
func (l *lease) release() error {
	return l.change(lock.Release, func(v *store.Version) { v.Holder = "" })
}

var errNotHeld = errors.New("lockperjob: the lock has another holder")

// change writes the row as its holder. A renewal whose answer was lost may have moved
// the expiry: then the rejection shows the row as its own, and it is tried once more.
func (l *lease) change(kind lock.OpKind, set func(*store.Version)) error {
	const tries = 2
	for n := 1; ; n++ {
		to := l.at
		set(&to)
		from := l.at
		res, err := l.s.cas(lock.Op{Kind: kind, Resource: l.name, Holder: l.at.Holder, From: &from, To: to})
		switch {
		case err != nil:
			return err
		case res.Applied:
			l.at.Beat = to.Beat
			return nil
		case res.Row == nil || res.Row.Holder != l.at.Holder || res.Row.Fence != l.at.Fence || n == tries:
			return fmt.Errorf("%w: %s", errNotHeld, res.Row)
		}
		l.at = *res.Row
	}
}
