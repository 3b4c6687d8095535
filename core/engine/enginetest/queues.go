package enginetest

import (
	"context"
	"fmt"
	"slices"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/mistake"
	"fencepost/core/store"
)

// queues are those of every process. Those of a run of days have all schedules in the first.
func (w *World) queues() (out []engine.Queue) {
	for n := range max(w.cfg.queues, 1) {
		out = append(out, engine.Queue{Name: []string{"q", "q.2", "q.3"}[n], Shards: w.cfg.shards})
	}
	return out
}

// shardIDs are the shards of all queues, also those that they have only from some time on.
func (w *World) shardIDs() (out []store.ShardID) {
	for _, q := range w.queues() {
		for n := range max(q.Shards, w.cfg.raised) {
			out = append(out, store.ShardID{Queue: q.Name, Shard: n})
		}
	}
	return out
}

// place is the queue and the key of the job of that number: each queue has the same keys.
func (w *World) place(n int) (queue, key string) {
	all := w.queues()
	queue, n = all[n%len(all)].Name, n/len(all)
	if w.cfg.oddKeys && n < len(oddKeys) {
		return queue, oddKeys[n]
	}
	if w.cfg.raised > 0 && n%3 == 2 {
		return queue, ""
	}
	return queue, fmt.Sprint("job", n)
}

// shardOf is the shard of a client's job.
func (w *World) shardOf(id job.ID) store.ShardID { return shardIn(w.byID[id].job.Queue, id) }

func shardIn(queue string, id job.ID) store.ShardID {
	n, _ := id.Shard()
	return store.ShardID{Queue: queue, Shard: n}
}

// queueMutants take shards of one number for one shard.
var queueMutants = []Mutant{
	{Name: "inboxes by the number of the shard", Rules: []string{"place"}, Under: "queues",
		Plant: func(_ *World, s store.Shards, _ *engine.Options) store.Shards { return oneInbox{s} }},
	{Name: "a pause of a queue's shard stops the other queues' too", Rules: []string{"paused"}, Under: "queues",
		Plant: func(w *World, s store.Shards, _ *engine.Options) store.Shards {
			return mistake.Shards{Shards: s, OnLook: func(_ context.Context, id store.ShardID, h *store.Header) {
				for _, other := range w.shardIDs() {
					if head, _ := w.store.ShardRows(other); other.Shard == id.Shard && head.Pause.On {
						h.Pause = head.Pause
					}
				}
			}}
		}},
	{Name: "states of schedules by their keys alone", Rules: []string{"schedule"}, Under: "queues", Plant: byKeys},
}

// byKeys shows the states of the first queue's schedules for those of all queues with the same keys.
func byKeys(w *World, s store.Shards, _ *engine.Options) store.Shards {
	return mistake.Shards{Shards: s, OnRows: func(_ store.ShardID, rows []store.Row) []store.Row {
		for n, r := range rows {
			for _, s := range w.schedules {
				id := job.ScheduleID("q", s.key, w.cfg.shards)
				_, first := w.store.ShardRows(shardIn("q", id))
				at := slices.IndexFunc(first, func(f store.Row) bool { return f.Key == scheduleKey(string(id), engine.AtState) })
				if r.Key == scheduleKey(string(w.scheduleID(s)), engine.AtState) && at >= 0 {
					rows[n].Body = first[at].Body
				}
			}
		}
		return rows
	}}
}

// oneInbox puts into the inbox of the first queue's shard what is for another queue's.
type oneInbox struct{ store.Shards }

func (o oneInbox) InboxPut(ctx context.Context, s store.ShardID, r store.InboxRow, n int) (bool, string, error) {
	s.Queue = "q"
	return o.Shards.InboxPut(ctx, s, r, n)
}
