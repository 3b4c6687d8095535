package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"fencepost/core/clock"
	"fencepost/core/job"
	"fencepost/core/store"
)

// Submit enqueues a job by the best way there is: in a tick of this process if it owns
// the job's shard, else by Options.Forward in a tick of the owner that the header last
// named, else, if it is certain that there is none or that nobody can reach it, into the shard's
// inbox, which takes an owner's look and a tick longer.
//
// What was forwarded and not answered does not go into the inbox: an owner with too much to
// do does not have less of it by that. The outcome is unknown then; to ask again with the same id
// is safe.
func (e *Engine) Submit(ctx context.Context, j job.Job) (Receipt, error) {
	j = j.WithDefaults()
	if _, err := e.Place(ctx, j.Queue, j.ID); err != nil {
		return Receipt{}, (&intent{kind: doEnqueue, e: &entry{job: j}}).notRead(err)
	}
	rec, err := e.Enqueue(ctx, j)
	if !elsewhere(err) {
		return rec, err
	}
	if rec, err = e.forward(ctx, j); !elsewhere(err) {
		return rec, err
	}
	return e.toInbox(ctx, j)
}

// elsewhere reports an enqueue that another process may take, as nothing was done by the one
// that was asked.
func elsewhere(err error) bool {
	if err == nil || store.OutcomeOf(err) != store.Fail {
		return false
	}
	return errors.Is(err, ErrNotOwner) || errors.Is(err, ErrStopping) || errors.Is(err, ErrUnreachable) || errors.As(err, new(*LostError))
}

// toInbox inserts a job into its shard's inbox when this process has no other insert
// there under way: they are conditional, on one partition, and would keep each other
// from being done. So only a few may wait for that.
func (e *Engine) toInbox(ctx context.Context, j job.Job) (Receipt, error) {
	s := e.shard(place(j.Queue, j.ID))
	defer s.inserts.Add(-1)
	if s.inserts.Add(1) > maxInserts {
		return Receipt{}, &EnqueueError{Job: j.ID, Outcome: store.Fail, Cause: &BusyError{Cause: ErrStalled, RetryAfter: e.o.TTL / 8}}
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return Receipt{}, &EnqueueError{Job: j.ID, Outcome: store.Fail, Cause: context.Cause(ctx)}
	}
	b := Inbox{Store: e.store, Timeout: e.o.RequestTimeout, Clock: e.o.Clock, NewID: e.o.NewID}
	rec, err := b.Enqueue(ctx, j, e.first(j.Queue))
	rec.Inbox = err == nil
	return rec, err
}

// maxInserts is how many may wait to insert into one inbox: an insert takes as long as a
// batch, so that who comes later would wait for seconds and keep others from their shards.
const maxInserts = 16

// errNowhere: no other process is known to own the shard.
var errNowhere = &store.Error{Op: "forward", Outcome: store.Fail, Cause: ErrNotOwner}

func (e *Engine) forward(ctx context.Context, j job.Job) (Receipt, error) {
	s := e.shard(place(j.Queue, j.ID))
	addr := s.addrOfOwner()
	if addr == "" || e.o.Forward == nil {
		return Receipt{}, errNowhere
	}
	// A deadline, which the owner is told: it may let the job wait, and then takes a batch.
	fctx, stop := context.WithTimeoutCause(ctx, e.o.MaxWait+e.o.RequestTimeout, errRequestTimeout)
	defer stop()
	rec, err := e.o.Forward(fctx, addr, j)
	for errors.Is(err, ErrNotOwner) && s.awaits(addr) && e.o.Clock.Sleep(fctx, e.o.TTL/100) == nil {
		rec, err = e.o.Forward(fctx, addr, j)
	}
	switch _, busy := RetryAfter(err); {
	case err == nil, busy, errors.As(err, new(*job.InvalidError)):
		return rec, err
	case errors.Is(err, ErrNotOwner):
		s.forgetAddr(addr)
		s.lookSoon()
	}
	s.notReached(addr, err)
	return rec, err
}

// notReached tells, once a ttl, that what belongs to the owner at addr did not get there.
func (s *shard) notReached(addr string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.e.o.Clock.Now(); s.told == 0 || now-s.told >= s.e.o.TTL {
		s.told = now
		s.e.o.Logger.Warn("an enqueue did not reach the shard's owner", "shard", s.id.String(), "addr", addr, "error", err)
	}
}

// OwnerAddr is where the shard's owner takes what is forwarded, as its header last
// showed; "" if that is this process, or not known.
func (e *Engine) OwnerAddr(id store.ShardID) string {
	s := e.shard(id)
	if s == nil {
		return ""
	}
	return s.addrOfOwner()
}

// OwnerOfSchedule is OwnerAddr of the shard of a command's schedule; "" too if the
// command is not a valid one.
func (e *Engine) OwnerOfSchedule(c ScheduleCommand) string {
	checked, err := e.check(c, func(name string) (store.Queue, error) {
		q, ok := e.known(name)
		if !ok {
			return q, ErrNotOwner
		}
		return q, nil
	})
	if err != nil {
		return ""
	}
	return e.OwnerAddr(place(checked.Queue, checked.id))
}

// saw remembers which other process owns the shard, and where that can be reached, or who was
// handed the shard and is to own it soon.
func (s *shard) saw(h store.Header) {
	addr := h.Addr
	if h.Owner == s.e.o.Name || addr == s.e.o.Addr {
		addr = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holder, s.addr, s.next = h.Owner, addr, h.Owner == "" && addr != ""
	if s.next {
		s.awaited = s.e.o.Clock.Now() + s.e.o.TTL/4
	}
}

func (s *shard) addrOfOwner() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// forgetAddr: who is there does not own the shard. A header whose stamp has moved
// brings the address back, as its owner lives.
func (s *shard) forgetAddr(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.addr == addr {
		s.addr = ""
	}
}

// Inbox enqueues jobs without their shard's owner, for when that cannot be reached:
// one conditional insert, which the owner copies into the shard. The zero value of
// each field but Store is usable.
type Inbox struct {
	Store store.Shards
	// Timeout bounds the wait for the answer to one copy; default 2 s.
	Timeout time.Duration
	// Clock defaults to clock.System(), NewID to random UUIDs.
	Clock clock.Clock
	NewID func() string
}

// Enqueue inserts a job of a queue that had so many shards first. It sends copies until an
// answer settles the insert or ctx ends. The error is an *EnqueueError, or a
// *job.InvalidError.
func (b Inbox) Enqueue(ctx context.Context, j job.Job, shards int) (Receipt, error) {
	b.Timeout = cmp.Or(b.Timeout, 2*time.Second)
	b.Clock = cmp.Or(b.Clock, clock.System())
	if b.NewID == nil {
		b.NewID = uuid.NewString
	}
	j = j.WithDefaults()
	body, err := encode(j, shards, store.MaxBytes)
	if err != nil {
		return Receipt{}, err
	}
	n, _ := j.ID.Shard()
	id, row := store.ShardID{Queue: j.Queue, Shard: n}, store.InboxRow{ID: string(j.ID), Nonce: b.NewID(), Body: body}
	unsure, refused := 0, 0
	for copyNo := 0; ; copyNo++ {
		rctx, stop := clock.WithTimeout(ctx, b.Clock, b.Timeout, errRequestTimeout)
		applied, existing, err := b.Store.InboxPut(rctx, id, row, copyNo)
		stop()
		switch {
		case err == nil:
			// A row that carries this nonce was inserted by an earlier copy.
			return Receipt{ID: j.ID, Duplicate: !applied && existing != row.Nonce}, nil
		case store.OutcomeOf(err) == store.Fail:
			refused++
		default:
			unsure++
		}
		if ctx.Err() != nil || refused >= refusalsToSplit {
			outcome := store.Fail
			if unsure > 0 {
				outcome = store.Unknown
			}
			return Receipt{}, &EnqueueError{Job: j.ID, Outcome: outcome, Cause: err}
		}
		// An answer that came at once would come again at once.
		_ = b.Clock.Sleep(ctx, b.Timeout/20)
	}
}

// encode checks a job and returns its row's body. A job must fit into a batch of so
// many bytes whatever becomes of it, so that no tick is ever too large for it.
func encode(j job.Job, shards, most int) ([]byte, error) {
	if err := j.Check(shards); err != nil {
		return nil, err
	}
	if !j.Occurrence.IsZero() || j.After != "" {
		return nil, &job.InvalidError{Field: "occurrence", Reason: "and after are set by the scheduler: leave them out"}
	}
	body, err := j.Encode()
	if err != nil {
		return nil, &job.InvalidError{Field: "body", Reason: err.Error()}
	}
	if size := room(j, len(body), mostNote); size > most {
		return nil, &job.InvalidError{Field: "payload", Reason: fmt.Sprintf(
			"of %d bytes makes the job too large: changes of up to %d bytes, at most %d fit into a batch; put what is large elsewhere and enqueue its name", len(j.Payload), size, most)}
	}
	return body, nil
}

// errRequestTimeout is the cause of the end of a request that was not answered.
var errRequestTimeout = errors.New("engine: no answer in time")
