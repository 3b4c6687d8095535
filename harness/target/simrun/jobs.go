package simrun

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
	"fencepost/harness/target/seal"
	"fencepost/harness/target/workload"
)

// queues are those of the run.
func (r *run) queues() []string { return []string{"q", "q.2", "q.3"}[:max(r.Queues, 1)] }

// shardIDs are the shards of all queues.
func (r *run) shardIDs() (out []store.ShardID) {
	for _, q := range r.queues() {
		for n := range r.Shards {
			out = append(out, store.ShardID{Queue: q, Shard: n})
		}
	}
	return out
}

// drainBound is how long after the last enqueue all jobs must have ended.
const drainBound = time.Minute

// DrawJobs is a run of jobs.
func DrawJobs(seed uint64) Config {
	c := Draw(seed)
	c.Shards, c.Locks, c.TTL, c.Length = c.Locks, 0, time.Second, 40*time.Second
	c.Faults.LateBy = 2 * c.TTL
	return c
}

// DrawCommands is a run of jobs of many kinds on which commands are given all the time.
func DrawCommands(seed uint64) Config {
	c := DrawJobs(seed)
	c.Commands = &workload.Commands{Cancel: 0.4, Redrive: 0.3, RedriveMany: 0.05, Hasten: 0.4, Pause: 0.2}
	c.Mixture = &workload.Mixture{AtMostOnce: 0.2, Overrun: 0.05, OddKeys: 0.3, OtherBody: 0.1, Priorities: 3}
	return c
}

// DrawOptions is a run of jobs whose retries follow lists of delays, each with a jitter of its own,
// and of which some have no key.
func DrawOptions(seed uint64) Config {
	c := DrawJobs(seed)
	c.Mixture = &workload.Mixture{Delays: 1, NoKey: 0.3}
	return c
}

// DrawQueues is a run of several queues with the same keys, in which jobs of several priorities
// become due at once, more than there are slots, and whole queues are paused.
func DrawQueues(seed uint64) Config {
	c := DrawJobs(seed)
	c.Queues, c.Shards, c.Storm, c.Slots = 3, 2, 5*time.Second, 1
	c.Commands = &workload.Commands{Pause: 0.05, PauseQueue: 0.1}
	c.Mixture = &workload.Mixture{Priorities: 4}
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
	cfg.Jobs = &workload.Jobs{Queue: r.queues()[0], Queues: r.queues(), Shards: r.Shards, Workers: r.Workers, Rate: 0.7, Steps: 2, Length: r.TTL / 8,
		Flaky: 0.2, Poison: 0.05, MaxAttempts: 3, RetryBase: r.TTL / 8, Slots: cmp.Or(r.Slots, 4), Storm: r.Storm, Schedules: r.Recurring, Begin: r.begun.UnixMilli(),
		Commands: r.Commands, Mixture: r.Mixture, Sequence: r.Sequence}
	if r.Storm == 0 {
		cfg.Jobs.Ahead = r.TTL
	}
	shards, hooks := store.Shards(l.rows), workload.Hooks{}
	if r.PlantJobs != nil {
		shards, hooks = r.PlantJobs(shards, r.TTL)
	}
	hooks = r.standing(l, hooks)
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
	for _, id := range r.shardIDs() {
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

// sealShards seals each shard, notes its rows, and seals what the sink has of its jobs.
func (r *run) sealShards(s *seal.Sealer) {
	ctx, rows := r.t.Context(), r.store.Connect("seal", r.Seed)
	for _, id := range r.shardIDs() {
		fence, err := s.Shard(ctx, rows, id)
		s.Trouble("shards", err)
		claimed, err := s.Rows(ctx, rows, id)
		s.Trouble("shards", err)
		for _, j := range claimed {
			s.Resource(ctx, r.sink, worker.Resource(job.Job{Queue: id.Queue, ID: j}), engine.Issuer(id), int64(job.FirstRunID(fence+1)))
		}
	}
}

// network carries what a worker asks of the sink. It sends once: who is not answered does
// not know.
type network struct {
	sink.Sink
	session *sim.Session
	timeout time.Duration
}

func (n *network) call(ctx context.Context, name string, f func() (sink.Answer, error)) (sink.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	// Not the results: a late request writes them after the return.
	var a sink.Answer
	var err error
	if lost := n.session.Call(ctx, name, func() { a, err = f() }); lost != nil {
		return sink.Answer{}, lost
	}
	return a, err
}

func (n *network) Raise(ctx context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	return n.call(ctx, "raise "+resource, func() (sink.Answer, error) {
		return n.Sink.Raise(context.Background(), resource, issuer, token)
	})
}

func (n *network) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	return n.call(ctx, "accept "+e.Key, func() (sink.Answer, error) {
		return n.Sink.Accept(context.Background(), resource, issuer, token, e)
	})
}

func (n *network) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	var st sink.State
	_, err := n.call(ctx, "read "+resource, func() (_ sink.Answer, err error) {
		st, err = n.Sink.Read(context.Background(), resource, keys...)
		return sink.Answer{}, err
	})
	if err != nil {
		return sink.State{}, err
	}
	return st, nil
}

// sealing seals what the run leaves. What cannot be sealed is an error of the test.
func (r *run) sealing(host *recorder) *seal.Sealer {
	return &seal.Sealer{Rec: host, Problem: r.t.Errorf}
}

// sealLocks seals all locks, each with its resource of the sink.
func (r *run) sealLocks(s *seal.Sealer) {
	ctx, rows := r.t.Context(), r.store.Connect("seal", r.Seed)
	for n := range r.Locks {
		name := lockName(n)
		fence, err := s.Lock(ctx, rows, name, func(from *store.Version) store.Version {
			to := store.Version{Fence: 1, Attempt: "5ea1ed00-0000-4000-8000-000000000000"}
			if from != nil {
				to.Fence = from.Fence + 1
			}
			return to
		})
		s.Trouble("locks", err)
		s.Resource(ctx, r.sink, workload.Resource(name), name, fence)
	}
}
