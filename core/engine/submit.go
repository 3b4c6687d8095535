package engine

import (
	"context"
	"errors"

	"fencepost/core/job"
	"fencepost/core/store"
)

// Submit enqueues a job by the best way there is: in a tick of this process if it owns
// the job's shard, else by Options.Forward in a tick of the owner that the header last
// named, else into the shard's inbox, which takes an owner's look and a tick longer.
//
// A forwarded enqueue whose outcome is unknown is followed by the inbox as well. That
// is safe because both carry the same job id, and a job row is inserted only if there
// is none: whichever comes second finds it and is a duplicate. A copy of the forwarded
// one that is still on its way may come much later, but not after the dedupe window,
// for which the job row outlives its job. But such a Submit has failed only if both
// ways have, so that an unknown forward and a failed inbox are unknown together.
func (e *Engine) Submit(ctx context.Context, j job.Job) (Receipt, error) {
	j = j.WithDefaults()
	rec, err := e.Enqueue(ctx, j)
	var lost *LostError
	elsewhere := errors.Is(err, ErrNotOwner) || errors.Is(err, ErrStopping) || errors.As(err, &lost)
	if !elsewhere || store.OutcomeOf(err) != store.Fail {
		return rec, err
	}
	rec, err = e.forward(ctx, j)
	var invalid *job.InvalidError
	if err == nil || errors.As(err, &invalid) || errors.Is(err, ErrBusy) {
		return rec, err
	}
	unsure := store.OutcomeOf(err) != store.Fail
	rec, err = e.toInbox(ctx, j)
	var ee *EnqueueError
	if unsure && errors.As(err, &ee) {
		ee.Outcome = store.Unknown
	}
	return rec, err
}

// toInbox inserts a job into its shard's inbox when this process has no other insert
// there under way: they are conditional, on one partition, and would keep each other
// from being done. So only a few may wait for that.
func (e *Engine) toInbox(ctx context.Context, j job.Job) (Receipt, error) {
	s := e.shardOf(j.Queue, j.ID)
	defer s.inserts.Add(-1)
	if s.inserts.Add(1) > maxInserts {
		return Receipt{}, &EnqueueError{Job: j.ID, Outcome: store.Fail, Cause: ErrBusy}
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return Receipt{}, &EnqueueError{Job: j.ID, Outcome: store.Fail, Cause: context.Cause(ctx)}
	}
	b := Inbox{Store: e.store, Timeout: e.o.RequestTimeout, Clock: e.o.Clock, NewID: e.o.NewID}
	rec, err := b.Enqueue(ctx, j, e.queues[j.Queue])
	rec.Inbox = err == nil
	return rec, err
}

// maxInserts is how many may wait to insert into one inbox: an insert takes as long as a
// batch, so that who comes later would wait for seconds and keep others from their shards.
const maxInserts = 16

// errNowhere: no other process is known to own the shard.
var errNowhere = &store.Error{Op: "forward", Outcome: store.Fail, Cause: ErrNotOwner}

func (e *Engine) forward(ctx context.Context, j job.Job) (Receipt, error) {
	s := e.shardOf(j.Queue, j.ID)
	addr := s.addrOfOwner()
	if addr == "" || e.o.Forward == nil {
		return Receipt{}, errNowhere
	}
	fctx, stop := e.timeout(ctx, e.o.RequestTimeout)
	defer stop()
	rec, err := e.o.Forward(fctx, addr, j)
	if err != nil && !errors.Is(err, ErrBusy) {
		s.forgetAddr(addr)
		e.o.Logger.Warn("forwarding an enqueue to the shard's owner failed", "shard", s.id.String(), "addr", addr, "error", err)
	}
	return rec, err
}

// OwnerAddr is where the shard's owner takes what is forwarded, as its header last
// showed; "" if that is this process, or not known.
func (e *Engine) OwnerAddr(id store.ShardID) string {
	s := e.shards[id]
	if s == nil {
		return ""
	}
	return s.addrOfOwner()
}

// OwnerOfSchedule is OwnerAddr of the shard of a command's schedule; "" too if the
// command is not a valid one.
func (e *Engine) OwnerOfSchedule(c ScheduleCommand) string {
	checked, err := e.check(c)
	if err != nil {
		return ""
	}
	return e.shardOf(checked.Queue, checked.id).addrOfOwner()
}

// saw remembers where another process that owns the shard can be reached.
func (s *shard) saw(h store.Header) {
	addr := h.Addr
	if h.Owner == "" || h.Owner == s.e.o.Name || addr == s.e.o.Addr {
		addr = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addr = addr
}

func (s *shard) addrOfOwner() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// forgetAddr: nobody who owns the shard is there. A header whose stamp has moved
// brings the address back, as its owner lives.
func (s *shard) forgetAddr(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.addr == addr {
		s.addr = ""
	}
}
