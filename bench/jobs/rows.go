package jobs

import (
	"context"
	"fmt"
	"math"
	"sync"

	"fencepost/bench"
	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/worker"
)

// pageRows are read at once.
const pageRows = 1000

// verifyRows reads all rows of the queue when its owner has stopped: each completed job
// has its row and its place among the ended ones, what is not completed can be found by
// a later owner, and there is nothing else.
func (b *book) verifyRows(ctx context.Context, s store.Shards, f *findings) error {
	var mu sync.Mutex
	doubts := b.doubts()
	err := bench.Each(b.shards, func(i int) error {
		id := store.ShardID{Queue: b.queue, Shard: i}
		rows, err := readShard(ctx, s, id)
		if err != nil {
			return fmt.Errorf("read shard %s at the end: %w", id, err)
		}
		mu.Lock()
		defer mu.Unlock()
		b.shard(i, rows, doubts, f)
		return nil
	})
	if err == nil {
		b.unseen(f) // what was not read is not gone
	}
	return err
}

// shardRows are a shard's rows at the end.
type shardRows struct {
	header *store.Header
	counts map[store.Kind]int
	jobs   []jobRow
	inbox  []store.InboxRow
}

// jobRow is what is kept of a job's row; there may be a million of them.
type jobRow struct {
	id      job.ID
	state   job.State
	attempt int
}

func readShard(ctx context.Context, s store.Shards, id store.ShardID) (out shardRows, err error) {
	out.counts = map[store.Kind]int{}
	if out.header, err = bench.Read(ctx, func(ctx context.Context) (*store.Header, error) { return s.Look(ctx, id, true) }); err != nil || out.header == nil {
		return out, err
	}
	for kind := store.KindPending; kind <= store.KindDLQ; kind++ {
		err := scan(ctx, s, id, kind, lowMark(out.header, kind), func(r store.Row) {
			out.counts[kind] += len(r.Each())
			if kind == store.KindJob {
				out.jobs = append(out.jobs, jobRow{job.ID(r.ID), job.State(r.State), r.Attempt})
			}
		})
		if err != nil {
			return out, err
		}
	}
	out.inbox, err = bench.Read(ctx, func(ctx context.Context) ([]store.InboxRow, error) {
		return s.InboxScan(ctx, id, "", store.AboveAll, pageRows)
	})
	return out, err
}

// shard compares a shard with what was reported.
func (b *book) shard(number int, r shardRows, doubts int, f *findings) {
	if r.header == nil {
		f.add("shard %d has no header", number)
		return
	}
	if r.header.Owner != "" && b.lost == 0 {
		f.add("shard %d is still owned by %s, which has stopped", number, r.header.Owner)
	}
	before, unread := b.unfinished, 0
	for _, row := range r.jobs {
		b.row(row, f)
	}
	for _, row := range r.inbox {
		// One that the shard has is a copy whose deletion was lost: a duplicate.
		if e := b.entry(job.ID(row.ID)); e == nil || !e.seen {
			unread++
			b.row(jobRow{id: job.ID(row.ID), state: job.Pending}, f)
		}
	}
	c := r.counts
	open := c[store.KindPending] + c[store.KindRunning] + c[store.KindDLQ]
	found, must := open+unread, b.unfinished-before
	if found < must || found > must+doubts {
		f.add("shard %d has %d pending, %d running, %d dead and %d unread jobs: there must be %d, and %d more at most", number,
			c[store.KindPending], c[store.KindRunning], c[store.KindDLQ], unread, must, doubts)
	}
	if c[store.KindJob] != c[store.KindEnded]+open {
		f.add("shard %d has %d jobs: %d ended ones and %d others", number, c[store.KindJob], c[store.KindEnded], open)
	}
}

// doubts counts the jobs of which nobody knows whether they were enqueued.
func (b *book) doubts() (n int) {
	for _, of := range b.all() {
		for _, e := range of.entries {
			if e.reply == none && e.ends == 0 {
				n++
			}
		}
	}
	return n
}

// row compares a job's row with what was reported.
func (b *book) row(r jobRow, f *findings) {
	e := b.entry(r.id)
	if e == nil {
		f.add("there is a row of job %s, which nobody enqueued", r.id)
		return
	}
	e.seen = true
	waits := r.state == job.Pending || r.state == job.Running
	switch {
	case e.ends == 0 && e.reply == none:
	case e.ends == 0 && e.reply == acked && waits:
		b.unfinished++
	case e.ends == 0 && r.state == job.Completed && b.lost > 0:
		// The answer to the tick that completed it never came.
	case r.state != job.Completed || e.ends == 0:
		f.add("the row of job %s says %q, and it was reported completed %d times", r.id, r.state, e.ends)
	case r.attempt != int(e.runs) && b.lost == 0:
		f.add("the row of job %s counts %d attempts, and it ran %d times", r.id, r.attempt, e.runs)
	}
}

// unseen reports jobs that must have a row and have none.
func (b *book) unseen(f *findings) {
	for _, of := range b.all() {
		for n, e := range of.entries {
			if !e.seen && (e.ends > 0 || e.reply == acked) {
				f.add("job %s was acknowledged, and completed %d times, and its row is gone", of.id(n), e.ends)
			}
		}
	}
}

// lowMark is where a later owner would begin to read: what lies before it are the
// tombstones of all jobs that there ever were.
func lowMark(h *store.Header, kind store.Kind) int64 {
	switch kind {
	case store.KindPending:
		return h.LowPending
	case store.KindRunning:
		return h.LowRunning
	case store.KindEnded:
		return h.LowEnded
	}
	return -1
}

// afterAll is above any job's id.
const afterAll = "\x7f"

// scan reads all rows of a kind above a mark.
func scan(ctx context.Context, s store.Shards, id store.ShardID, kind store.Kind, above int64, f func(store.Row)) error {
	r := store.Range{Kind: kind, AfterAt: above, AfterID: afterAll, UpTo: math.MaxInt64, Limit: pageRows}
	for {
		rows, err := bench.Read(ctx, func(ctx context.Context) ([]store.Row, error) { return s.Scan(ctx, id, r) })
		if err != nil {
			return err
		}
		for _, row := range rows {
			f(row)
		}
		if len(rows) < pageRows {
			return nil
		}
		last := rows[len(rows)-1]
		r.AfterAt, r.AfterID = last.At, last.ID
	}
}

// verifyEffects reads the ledger of every completed job: its effect was accepted once.
func (b *book) verifyEffects(ctx context.Context, s sink.Sink, issuer func(job.ID) string, f *findings) error {
	var mu sync.Mutex
	for _, of := range b.all() {
		err := bench.Each(len(of.entries), func(n int) error {
			if of.entries[n].ends == 0 {
				return nil
			}
			id := of.id(n)
			resource := worker.Resource(job.Job{ID: id, Queue: b.queue})
			ledger, err := bench.Read(ctx, func(ctx context.Context) ([]sink.Entry, error) { return s.Ledger(ctx, resource) })
			if err != nil {
				return fmt.Errorf("read the ledger of job %s: %w", id, err)
			}
			accepted := 0
			for _, e := range ledger {
				if e.Kind == sink.KindAccept {
					accepted++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case accepted != 1:
				f.add("the effect of job %s was accepted %d times", id, accepted)
			case ledger[0].Issuer != issuer(id):
				f.add("the effect of job %s was accepted by a token of %s", id, ledger[0].Issuer)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
