package engine

import (
	"fmt"
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
	// which are being deleted; copied are these, in order.
	copying map[string]bool
	copied  []store.InboxRow
	size    pageSize
	parts   inboxParts
}

// inboxParts are the ranges of ids by which the inbox is read: 1, or 16 or 256 for an hour after
// it could not be read. Deleted rows stay for days, and no mark can rise over them.
type inboxParts struct {
	digits int
	since  time.Duration
}

// mostDigits: each makes 16 times as many.
const mostDigits = 2

// failed: a read was too much for the store, however few rows it asked for.
func (s *inboxParts) failed(now time.Duration) {
	s.digits, s.since = min(s.digits+1, mostDigits), now
}

// at returns the ranges that there are now.
func (s *inboxParts) at(now time.Duration) int {
	if now-s.since >= time.Hour {
		s.digits = 0
	}
	return 1 << (4 * s.digits)
}

// bounds are those of range n of a shard's ids, <shard>-<32 hex digits>.
func (s *inboxParts) bounds(shard, n int) (after, upTo string) {
	prefix := func(n int) string { return fmt.Sprintf("%d-%0*x", shard, s.digits, n) }
	if upTo = afterAll; n+1 < 1<<(4*s.digits) {
		upTo = prefix(n + 1)
	}
	if n > 0 {
		after = prefix(n)
	}
	return after, upTo
}

func newInboxState(now time.Duration, page int) inboxState {
	return inboxState{next: now, copying: map[string]bool{}, size: newPageSize(page)}
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
			o.scan(r, func(rows []store.Row, failed bool) { o.sweep(rows, failed, holds) })
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
			_ = o.e.o.Clock.Sleep(o.ctx, o.readPause(err))
		}
		o.post(func() {
			if err != nil {
				o.warn("rows of the shard cannot be read", err)
			}
			then(rows, err != nil)
		})
	})
}

// readPause is how long a read that failed is not tried again.
func (o *owner) readPause(err error) time.Duration {
	if store.IsPermanent(err) {
		return o.e.o.TTL
	}
	return o.e.o.TTL / 50
}

// lookIntoInbox reads the whole inbox, page by page, and takes what is new in it. What
// finds no room stays where it is: only the ids of all of it are kept.
func (o *owner) lookIntoInbox(wall int64) {
	o.inbox.loading = true
	size, parts := o.inbox.size, o.inbox.parts
	o.e.wg.Go(func() {
		holds := map[string]bool{}
		err := o.readInbox(&size, &parts, func(rows []store.InboxRow) {
			for _, row := range rows {
				holds[row.ID] = true
			}
		})
		o.post(func() {
			o.inbox.loading, o.inbox.size, o.inbox.parts = false, size, parts
			switch {
			case err != nil:
				o.warn("the inbox cannot be read", err)
			case len(holds) <= o.e.o.MaxPending:
				o.inbox.seen, o.inbox.holds = wall, holds
			}
		})
	})
}

// readInbox reads the inbox part by part. If one cannot be read, there are more of them by
// the next look.
func (o *owner) readInbox(size *pageSize, parts *inboxParts, seen func([]store.InboxRow)) error {
	for n := range parts.at(o.now()) {
		after, upTo := parts.bounds(o.id.Shard, n)
		if err := o.readPart(size, after, upTo, seen); err != nil {
			parts.failed(o.now())
			return err
		}
	}
	return nil
}

// readPart hands each page to the loop, and waits until that has taken it.
func (o *owner) readPart(size *pageSize, after, upTo string, seen func([]store.InboxRow)) error {
	for {
		ctx, stop := o.e.timeout(o.ctx, o.e.o.RequestTimeout)
		rows, err := o.e.store.InboxScan(ctx, o.id, after, upTo, size.now)
		stop()
		tooMuch := size.now > 1
		last := size.read(len(rows), err != nil)
		switch {
		case err != nil && !tooMuch:
			return err
		case err != nil:
			if o.e.o.Clock.Sleep(o.ctx, o.e.o.TTL/50) != nil {
				return err
			}
			continue
		}
		seen(rows)
		taken := make(chan struct{})
		if !o.post(func() {
			for _, row := range rows {
				_ = o.copyRow(row) // what cannot be copied now may be by the next look
			}
			close(taken)
		}) {
			return ErrNotOwner
		}
		select {
		case <-taken:
		case <-o.ctx.Done():
			return ErrNotOwner
		}
		if last {
			return nil
		}
		after = rows[len(rows)-1].ID
	}
}

// copyRow takes a job from the inbox, unless that is under way. What is no job of this
// shard goes to the dead letter queue: it was acknowledged.
func (o *owner) copyRow(row store.InboxRow) error {
	switch {
	case o.inbox.copying[row.ID]:
		return nil
	case o.stopping:
		return ErrStopping
	case o.full():
		return ErrBusy
	}
	o.inbox.copying[row.ID] = true
	j, err := o.decode(row)
	if err != nil {
		o.m.refuseRow(row, err)
		return nil
	}
	o.m.enqueue(j, row.Body, o.moment(), nil, &row)
	return nil
}

func (o *owner) decode(row store.InboxRow) (job.Job, error) {
	j, err := job.Decode(row.Body)
	switch {
	case err != nil:
		return j, err
	case string(j.ID) != row.ID:
		return j, &job.InvalidError{Field: "id", Reason: fmt.Sprintf("%q is in the row of %q", j.ID, row.ID)}
	case j.Queue != o.id.Queue:
		return j, &job.InvalidError{Field: "queue", Reason: fmt.Sprintf("%q is not %q", j.Queue, o.id.Queue)}
	}
	return j, j.Check(o.e.first(o.id.Queue))
}

// deleteCopied removes a row whose job is in the shard for certain, after those before
// it: deletions are conditional, on one partition, and at once they would keep each
// other from being done. If one fails the next look finds the row, and copying it
// again finds its job.
func (o *owner) deleteCopied(row store.InboxRow) {
	row.Body = nil
	o.inbox.copied = append(o.inbox.copied, row)
	if len(o.inbox.copied) == 1 {
		o.deleteNext()
	}
}

func (o *owner) deleteNext() {
	row := o.inbox.copied[0]
	o.e.wg.Go(func() {
		ctx, stop := o.e.timeout(o.ctx, o.e.o.RequestTimeout)
		_, _ = o.e.store.InboxDelete(ctx, o.id, row.ID, row.Nonce, 0)
		stop()
		o.post(func() {
			delete(o.inbox.copying, row.ID)
			if o.inbox.copied = o.inbox.copied[1:]; len(o.inbox.copied) > 0 {
				o.deleteNext()
			}
		})
	})
}
