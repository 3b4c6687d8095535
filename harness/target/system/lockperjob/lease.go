package lockperjob

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fencepost/core/job"
	"fencepost/core/lock"
	"fencepost/core/store"
)

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
