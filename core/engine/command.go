package engine

import (
	"context"
	"fmt"

	"fencepost/core/job"
	"fencepost/core/store"
)

// Command is what is asked for about a job.
type Command string

// The commands. This process must own the job's shard, else the cause is ErrNotOwner. The
// error is a *CommandError, or a *job.InvalidError.
const (
	// CancelJob ends a job as cancelled. A pending job is in one tick. The run of a running
	// one is told to end (the cause of its context's end is job.ErrCancelled), and its job
	// is cancelled when it has ended, whatever it returned; but if it succeeded the job is
	// completed, and the error a *StateError that says so. It returns when that is
	// settled. Cancelling again after an unknown outcome is safe.
	//
	// A job that waits in the inbox is taken from there first. If the shard is lost before
	// the run has ended, the job is rescued as if nobody had cancelled it, and the error
	// says that.
	CancelJob Command = "cancel"
	// RedriveJob makes a job in the dead letter queue pending again, at once, in one tick.
	// Its attempts are counted from 0, while its run ids go on to rise. A *StateError says
	// that the job is elsewhere, a *job.InvalidError that its row was not kept: the store
	// or this program could not take it.
	RedriveJob Command = "redrive"
	// HastenJob makes a pending job due at once, in one tick: it need not wait any more for a
	// scheduled time, or for its next attempt. Attempts count on. The receipt is a
	// Duplicate if the job was due already: nothing was done. A *StateError says that the
	// job is elsewhere. Hastening again after an unknown outcome is safe.
	//
	// A job that waits in the inbox is taken from there first.
	HastenJob Command = "hasten"
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

// Command carries a command out. Only HastenJob has Duplicates.
func (e *Engine) Command(ctx context.Context, c Command, queue string, id job.ID) (Receipt, error) {
	for kind, does := range commands {
		if does.name != c {
			continue
		}
		at, err := e.Place(ctx, queue, id)
		i := &intent{kind: kind, e: &entry{job: job.Job{ID: id}}, about: id, note: does.note, wait: newWaiter()}
		if err != nil {
			return Receipt{}, i.notRead(err)
		}
		a, err := e.ask(ctx, e.shard(at), i)
		if err != nil {
			return Receipt{}, err
		}
		return Receipt{ID: id, Duplicate: a.duplicate}, nil
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

// SetPaused pauses a shard, or resumes it, in one tick. While a shard is paused no run
// of it is claimed; what runs goes on, jobs are taken and wait, schedules fire. It stays
// so for its next owner. duplicate: it was so already. Repeating is safe.
//
// This process must own the shard, else the cause is ErrNotOwner. The error is a
// *CommandError, or a *job.InvalidError.
func (e *Engine) SetPaused(ctx context.Context, id store.ShardID, on bool) (duplicate bool, err error) {
	i := &intent{kind: doPause, pause: on, shard: id, wait: newWaiter()}
	s, err := e.find(ctx, id)
	switch {
	case err != nil:
		return false, i.notRead(err)
	case s == nil:
		return false, &job.InvalidError{Field: "queue", Reason: fmt.Sprintf("%q is not one of this engine's", id)}
	}
	a, err := e.ask(ctx, s, i)
	return a.duplicate, err
}

// PauseName is what the command is called.
func PauseName(on bool) string {
	if on {
		return "pause"
	}
	return "resume"
}

// takePause plans the first pause or resumption that waits, before all else: it holds
// for the claims of its own batch.
func (m *machine) takePause(p *plan, now moment) {
	taken := false
	m.queue.commands.keep(func(i *intent) bool {
		switch {
		case i.kind != doPause || taken:
			return true
		case i.pause == m.head.Pause.On:
			m.acknowledge(i, true)
		case i.wait.rides():
			taken = true
			m.add(p, i, now)
		}
		return false
	})
}

// after is what a header's pause is then.
func (i *intent) after(was store.Pause, now moment) store.Pause {
	if i.pause {
		return store.Pause{On: true, Since: now.wall}
	}
	return store.Pause{Since: was.Since, Lasted: max(now.wall-was.Since, 0)}
}

// paused takes the consequences of a pause: what waits is left in the store, however
// much more comes, and read again when it may run. Nothing is kept until then.
func (m *machine) paused() {
	if !m.head.Pause.On {
		m.window.behind = true
		return
	}
	for _, h := range m.waiting.all() {
		for _, e := range h.list {
			m.forget(e.job.ID)
		}
	}
	watched := m.waiting.watched
	m.waiting = newWaiting()
	m.waiting.watched = watched
	m.window.rewind(m.head.LowPending)
}

// rewind begins to read pending rows again, from a low mark on.
func (w *window) rewind(low int64) {
	w.cursor = store.Key{Kind: store.KindPending, At: low, ID: afterAll}
	w.complete, w.void, w.left = false, w.loading, noneLeft
}

// held is for how much of the time since a job was due its shard was paused, in ms, as
// far as the last pause goes.
func held(p store.Pause, due int64) int64 {
	return max(p.Since+p.Lasted-max(p.Since, due), 0)
}
