package engine

import (
	"context"
	"fmt"

	"fencepost/core/job"
	"fencepost/core/store"
)

// Command is what is asked for about a job.
type Command string

// The commands; Cancel, Redrive and Hasten tell what they do.
const (
	CancelJob  Command = "cancel"
	RedriveJob Command = "redrive"
	HastenJob  Command = "hasten"
)

// commands are what they leave in their jobs' rows, and the state in which they find them.
var commands = map[intentKind]struct {
	name  Command
	note  string
	finds job.State
}{
	doCancel:  {name: CancelJob, note: "cancelled while it was pending", finds: job.Pending},
	doRedrive: {name: RedriveJob, note: "redriven", finds: job.DLQ},
	doHasten:  {name: HastenJob, note: "brought forward", finds: job.Pending},
}

// Cancel ends a job as cancelled. A pending job is in one tick. The run of a running
// one is told to end (the cause of its context's end is job.ErrCancelled), and its job
// is cancelled when it has ended, whatever it returned; but if it succeeded the job is
// completed, and the error a *StateError that says so. It returns when that is
// settled. Cancelling again after an unknown outcome is safe.
//
// A job that waits in the inbox is taken from there first.
//
// This process must own the job's shard, else the cause is ErrNotOwner. The error is a
// *CommandError, or a *job.InvalidError. If the shard is lost before the run has
// ended, the job is rescued as if nobody had cancelled it, and the error says that.
func (e *Engine) Cancel(ctx context.Context, queue string, id job.ID) error {
	_, err := e.Command(ctx, CancelJob, queue, id)
	return err
}

// Redrive makes a job in the dead letter queue pending again, at once, in one tick.
// Its attempts are counted from 0, while its run ids go on to rise. A *StateError says
// that the job is elsewhere, a *job.InvalidError that its row was not kept: the store
// or this program could not take it.
//
// This process must own the job's shard, else the cause is ErrNotOwner. The error is a
// *CommandError, or a *job.InvalidError.
func (e *Engine) Redrive(ctx context.Context, queue string, id job.ID) error {
	_, err := e.Command(ctx, RedriveJob, queue, id)
	return err
}

// Hasten makes a pending job due at once, in one tick: it need not wait any more for a
// scheduled time, or for its next attempt. Attempts count on. The receipt is a
// Duplicate if the job was due already: nothing was done. A *StateError says that the
// job is elsewhere. Hastening again after an unknown outcome is safe.
//
// A job that waits in the inbox is taken from there first.
//
// This process must own the job's shard, else the cause is ErrNotOwner. The error is a
// *CommandError, or a *job.InvalidError.
func (e *Engine) Hasten(ctx context.Context, queue string, id job.ID) (Receipt, error) {
	return e.Command(ctx, HastenJob, queue, id)
}

// Command carries a command out: see the method of its name. Only HastenJob has Duplicates.
func (e *Engine) Command(ctx context.Context, c Command, queue string, id job.ID) (Receipt, error) {
	shards, ok := e.queues[queue]
	if !ok {
		return Receipt{}, &job.InvalidError{Field: "queue", Reason: fmt.Sprintf("%q is not one of this engine's", queue)}
	}
	if err := id.Check(shards); err != nil {
		return Receipt{}, err
	}
	for kind, does := range commands {
		if does.name == c {
			a, err := e.ask(ctx, e.shardOf(queue, id), &intent{kind: kind, e: &entry{job: job.Job{ID: id}}, note: does.note, wait: newWaiter()})
			if err != nil {
				return Receipt{}, err
			}
			return Receipt{ID: id, Duplicate: a.duplicate}, nil
		}
	}
	return Receipt{}, &job.InvalidError{Field: "command", Reason: fmt.Sprintf("%q is none", c)}
}

// ask has a command carried out by the shard's owner, if that is this process.
func (e *Engine) ask(ctx context.Context, s *shard, i *intent) (ack, error) {
	if ctx.Err() != nil {
		return ack{}, i.failed(store.Fail, context.Cause(ctx))
	}
	o := s.current()
	if o == nil || !o.valid() {
		return ack{}, i.failed(store.Fail, ErrNotOwner)
	}
	if err := o.ask(i, func() { o.m.push(i) }); err != nil {
		return ack{}, i.failed(store.Fail, err)
	}
	a := o.await(ctx, i)
	return a, a.err
}

// lookup reads the rows of a job that is not in memory: its state, and its row in the
// dead letter queue, or its pending row; or, if there is none, its row in the inbox.
func (o *owner) lookup(id job.ID, l *lookup) {
	o.e.wg.Go(func() {
		got, err := o.rowsOf(id)
		for refused := store.Refusals(0); store.IsPermanent(err) && !refused.Final(err); {
			got, err = o.rowsOf(id) // of another node
		}
		if err != nil || inconclusive(got.state, got.row) {
			_ = o.e.o.Clock.Sleep(o.ctx, o.e.o.TTL/50)
		}
		o.post(func() {
			if store.IsPermanent(err) {
				o.refuseCallers(id, err)
			}
			o.m.found(id, l, &got, err != nil)
		})
	})
}

func (o *owner) rowsOf(id job.ID) (got lookup, err error) {
	read := func(k store.Key) (*store.Row, error) {
		ctx, stop := o.e.timeout(o.ctx, o.e.o.RequestTimeout)
		defer stop()
		return o.e.store.Row(ctx, o.id, k)
	}
	if got.state, err = read(jobKey(id)); err != nil {
		return got, err
	}
	if got.state == nil {
		// Its copy would be settled by this owner, which voids what was read: so if
		// the inbox does not have it now, it had not before.
		ctx, stop := o.e.timeout(o.ctx, o.e.o.RequestTimeout)
		defer stop()
		got.inbox, err = o.e.store.InboxRow(ctx, o.id, string(id))
		return got, err
	}
	switch job.State(got.state.State) {
	case job.Pending:
		got.row, err = read(store.Key{Kind: store.KindPending, At: got.state.Place, ID: string(id)})
	case job.DLQ:
		got.row, err = read(store.Key{Kind: store.KindDLQ, At: got.state.Place, ID: string(id)})
	}
	return got, err
}
