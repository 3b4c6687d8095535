package simrun

import (
	"context"
	"log/slog"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/worker"
	"fencepost/harness/record/history"
	"fencepost/harness/target/workload"
)

const queue = "q"

// drainBound is how long after the last enqueue all jobs must have ended.
const drainBound = time.Minute

// DrawJobs is a run of jobs.
func DrawJobs(seed uint64) Config {
	c := Draw(seed)
	c.Shards, c.Locks, c.TTL, c.Length = c.Locks, 0, time.Second, 40*time.Second
	c.Faults.LateBy = 2 * c.TTL
	return c
}

// dedupe is for how long ids are remembered.
func (r *run) dedupe() time.Duration {
	if r.Shards == 0 {
		return 0
	}
	return time.Hour
}

// workJobs is what a life does that runs jobs.
func (r *run) workJobs(ctx context.Context, l *life, cfg workload.Config, effects *network, log *slog.Logger) {
	cfg.Jobs = &workload.Jobs{Queue: queue, Shards: r.Shards, Workers: r.Workers, Rate: 0.7, Steps: 2, Length: r.TTL / 8,
		Flaky: 0.2, Poison: 0.05, Ahead: r.TTL, MaxAttempts: 3, RetryBase: r.TTL / 8, Slots: 4}
	shards, hooks := store.Shards(l.rows), workload.Hooks{}
	if r.PlantJobs != nil {
		shards, hooks = r.PlantJobs(shards, r.TTL)
	}
	if err := workload.Schedule(ctx, r.feed, cfg, l.rec, clock.Go(), shards, effects, hooks, log); err != nil && r.PlantJobs == nil {
		r.t.Error(err)
	}
}

// drain ends the enqueuing and waits until no job may run any more.
func (r *run) drain() {
	r.full()
	for end := time.Now().Add(drainBound); time.Now().Before(end) && r.open(); {
		time.Sleep(r.TTL)
	}
	time.Sleep(12 * r.TTL) // enqueues that were under way
}

func (r *run) open() bool {
	for n := range r.Shards {
		id := store.ShardID{Queue: queue, Shard: n}
		_, rows := r.store.ShardRows(id)
		for _, row := range rows {
			if row.Kind == store.KindPending || row.Kind == store.KindRunning {
				return true
			}
		}
		if len(r.store.InboxRows(id)) > 0 {
			return true
		}
	}
	return false
}

// sealShards seals each shard as locks are, notes its rows, and reads what the sink has of
// its jobs.
func (r *run) sealShards(host *recorder) {
	ctx, rows := r.t.Context(), r.store.Connect("seal", r.Seed)
	for n := range r.Shards {
		id := store.ShardID{Queue: queue, Shard: n}
		issuer := engine.Issuer(id)
		head, all := r.store.ShardRows(id)
		look := func(h store.Header) {
			host.ask(history.Event{Op: history.OpRead, Key: issuer}, func(end *history.Event) { end.Row = workload.Stamp(h.Stamp) })
		}
		look(head)
		to := head
		to.Fence, to.Tick, to.Nonce, to.Owner, to.Addr = head.Fence+1, head.Tick+1, "5ea1ed00-0000-4000-8000-000000000000", "", ""
		host.ask(history.Event{Op: history.OpSeal, Key: issuer, From: workload.Stamp(head.Stamp), To: workload.Stamp(to.Stamp)},
			func(end *history.Event) {
				end.Sends = []int64{host.Now()}
				if res, err := rows.Commit(ctx, id, store.Batch{From: head.Stamp, To: to}, 0); err != nil || !res.Applied {
					r.t.Errorf("%s is not sealed: %+v, %v", id, res, err)
				}
			})
		look(to)
		note := func(key string, x *history.JobRow) {
			host.note(history.Event{Op: history.NoteRow, Key: key, Issuer: issuer, Details: &history.Details{JobRow: x}})
		}
		for _, row := range all {
			note(row.ID, workload.JobRow(row))
		}
		for _, row := range r.store.InboxRows(id) {
			note(row.ID, &history.JobRow{Kind: history.RowInbox})
		}
		host.note(history.Event{Op: history.NoteRowsEnd, Issuer: issuer})
		for _, row := range all {
			if row.Kind == store.KindJob && row.Run > 0 {
				r.sealResource(host, worker.Resource(job.Job{Queue: queue, ID: job.ID(row.ID)}), issuer, int64(job.FirstRunID(to.Fence+1)))
			}
		}
	}
}
