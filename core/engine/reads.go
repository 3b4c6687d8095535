package engine

import (
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
)

// inboxState is what the owner knows of its shard's inbox.
type inboxState struct {
	next    time.Duration // when to look again
	loading bool
	// seen is the wall time, in ms, at which the last complete look began;
	// holds are the jobs that it showed. 0: there was none yet.
	seen  int64
	holds map[string]bool
	// copying are the rows whose jobs are on their way into the shard, or
	// which are being deleted.
	copying map[string]bool
}

// reads starts the reads that are wanted now.
func (o *owner) reads() {
	now := o.moment()
	if r, ok := o.m.runs(); ok {
		o.scan(r, func(rows []store.Row, failed bool) { o.m.ranBefore(rows, failed, o.moment()) })
	}
	if r, ok := o.m.page(now); ok {
		o.scan(r, func(rows []store.Row, failed bool) { o.m.loaded(rows, failed, o.moment()) })
	}
	if at := o.now(); at >= o.inbox.next && !o.inbox.loading {
		o.inbox.next = at + o.e.o.InboxPoll
		o.lookIntoInbox(now.wall)
	}
	if o.inbox.seen > 0 {
		if r, ok := o.m.sweepRange(o.inbox.seen); ok {
			holds := o.inbox.holds
			o.scan(r, func(rows []store.Row, failed bool) { o.m.sweep(rows, failed, holds) })
		}
	}
}

// scan reads a page and posts it. A page that cannot be read is asked for again
// by the next round, after a pause.
func (o *owner) scan(r store.Range, then func(rows []store.Row, failed bool)) {
	o.e.wg.Go(func() {
		ctx, stop := o.e.timeout(o.ctx, o.e.o.RequestTimeout)
		defer stop()
		rows, err := o.e.store.Scan(ctx, o.id, r)
		if err != nil {
			_ = o.e.o.Clock.Sleep(o.ctx, o.e.o.TTL/50)
		}
		o.post(func() { then(rows, err != nil) })
	})
}

// lookIntoInbox reads the whole inbox and takes what is new in it.
func (o *owner) lookIntoInbox(wall int64) {
	o.inbox.loading = true
	o.e.wg.Go(func() {
		var all []store.InboxRow
		var err error
		for after := ""; ; {
			var rows []store.InboxRow
			ctx, stop := o.e.timeout(o.ctx, o.e.o.RequestTimeout)
			rows, err = o.e.store.InboxScan(ctx, o.id, after, o.e.o.PageSize)
			stop()
			all = append(all, rows...)
			if err != nil || len(rows) < o.e.o.PageSize {
				break
			}
			after = rows[len(rows)-1].ID
		}
		o.post(func() { o.takeInbox(all, err == nil, wall) })
	})
}

func (o *owner) takeInbox(rows []store.InboxRow, complete bool, wall int64) {
	o.inbox.loading = false
	if complete {
		o.inbox.seen, o.inbox.holds = wall, map[string]bool{}
	}
	for _, row := range rows {
		if complete {
			o.inbox.holds[row.ID] = true
		}
		if o.inbox.copying[row.ID] || o.stopping || o.full() {
			continue
		}
		j, err := job.Decode(row.Body)
		if err != nil || string(j.ID) != row.ID {
			o.e.o.Logger.Error("a row in the inbox is not a job", "shard", o.id.String(), "job", row.ID, "error", err)
			continue
		}
		o.inbox.copying[row.ID] = true
		o.m.enqueue(j, row.Body, o.moment(), nil, &row)
	}
}

// deleteCopied removes a row whose job is in the shard for certain. If that fails
// the next look finds the row, and copying it again finds its job.
func (o *owner) deleteCopied(row store.InboxRow) {
	o.e.wg.Go(func() {
		ctx, stop := o.e.timeout(o.ctx, o.e.o.RequestTimeout)
		_, _ = o.e.store.InboxDelete(ctx, o.id, row.ID, row.Nonce, 0)
		stop()
		o.post(func() { delete(o.inbox.copying, row.ID) })
	})
}
