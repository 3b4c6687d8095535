package workload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/member"
	"fencepost/core/scheduler"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/core/worker"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
)

// DedupeWindow is for how long ids are remembered unless a workload says otherwise: longer than
// a run lasts, so that every job's end can be read when it is over.
const DedupeWindow = time.Hour

// jobs is the job workload: a scheduler with a recorder wired in, and clients that
// enqueue.
type jobs struct {
	*process
	scheduler jobScheduler
	api       *apiServer // of a scheduler that clients ask through it; nil: they call it
	lanes     *lanes
	enqueuer  *enqueuer
	recurring *recurrence // of a scheduler with schedules
	commander *commander
	beatDB    *cassandra.DB      // of a scheduler with heartbeats
	stopping  context.CancelFunc // of the enqueuer
	feed      context.Context
}

// jobScheduler is what the job workload runs.
type jobScheduler interface {
	Run(ctx context.Context) error
	submits
}

// submits takes what clients enqueue.
type submits interface {
	Submit(ctx context.Context, j job.Job) (engine.Receipt, error)
}

// asked is all that clients ask a scheduler for: a *scheduler.Scheduler, or an *apiClient of its API.
type asked interface {
	submits
	recurring
	Commander
}

// submitter is given other jobs than those that are asked for.
type submitter struct {
	submits
	change func(job.Job) job.Job
}

// Enqueue enqueues a job, as Engine.Submit does.
type Enqueue func(context.Context, job.Job) (engine.Receipt, error)

// Submit implements submits.
func (f Enqueue) Submit(ctx context.Context, j job.Job) (engine.Receipt, error) { return f(ctx, j) }

// Submit implements submits.
func (s submitter) Submit(ctx context.Context, j job.Job) (engine.Receipt, error) {
	return s.submits.Submit(ctx, s.change(j))
}

func newJobs(p *process) *jobs {
	return &jobs{process: p, lanes: newLanes(p.cfg.Life), commander: newCommander(p)}
}

// feedFrom makes what enqueues, when there is a scheduler.
func (w *jobs) feedFrom(ctx context.Context, issuer func(job.Job) (string, error), draw draw) load {
	to := submits(w.scheduler)
	if w.api != nil {
		to = w.api.client
	}
	if w.hooks.Enqueue != nil {
		to = w.hooks.Enqueue(to.Submit)
	}
	if w.hooks.Submit != nil {
		to = submitter{to, w.hooks.Submit}
	}
	w.enqueuer = newEnqueuer(w.process, to, issuer, draw)
	if s, ok := w.scheduler.(interface{ Queues() []store.Queue }); ok {
		w.enqueuer.sizes = s.Queues
	}
	w.enqueuer.acknowledged = w.commander.enqueued
	w.feed, w.stopping = context.WithCancel(ctx)
	return w
}

// loadJobs are jobs of the workload's own kind on the production scheduler.
func loadJobs(ctx context.Context, p *process) (load, error) {
	w := newJobs(p)
	handler := worker.Handler(w.handle)
	if p.hooks.Handler != nil {
		handler = p.hooks.Handler(p.cfg, p.lockDB, handler)
	}
	if err := w.shardScheduler(ctx, map[string]worker.Handler{JobKind: handler}); err != nil {
		return nil, err
	}
	return w.feedFrom(ctx, shardIssuer, drawEffects), nil
}

// loadOrders are orders on the production scheduler.
func loadOrders(ctx context.Context, p *process) (load, error) {
	w := newJobs(p)
	handlers, err := w.orderHandlers()
	if err == nil {
		err = w.shardScheduler(ctx, handlers)
	}
	if err != nil {
		return nil, err
	}
	return w.feedFrom(ctx, shardIssuer, p.cfg.Jobs.Orders.draw), nil
}

// Schedule is the job workload of one worker likewise, without links to other workers, so that
// only a shard's owner takes commands, on its jobs and schedules: it enqueues until feed ends and
// runs jobs until ctx does. Of hooks it has Engine, Executor and Commander.
func Schedule(ctx, feed context.Context, cfg Config, rec Recorder, base clock.Clock, shards store.Shards, effects sink.Sink,
	hooks Hooks, log *slog.Logger) error {
	p := simple(cfg, rec, base, effects, hooks, log)
	w := newJobs(p)
	o := w.engineOptions(ctx)
	pool := worker.New(worker.Options{
		Slots: cfg.Jobs.Slots, Handlers: map[string]worker.Handler{JobKind: w.handle}, Sink: &laneSink{Sink: p.sink, process: p},
		Clock: p.leases, Logger: log,
	})
	o.Executor = pool
	if hooks.Executor != nil {
		o.Executor = hooks.Executor(cfg, pool)
	}
	e, err := engine.New(shards, o)
	if err != nil {
		return err
	}
	w.scheduler, w.recurring = e, newRecurrence(p, e)
	w.commander.to = engineCommander{e, cfg.Jobs.Shards}
	if hooks.Commander != nil {
		w.commander.to = hooks.Commander(cfg, w.commander.to)
	}
	l := w.feedFrom(ctx, shardIssuer, drawEffects)
	defer context.AfterFunc(feed, l.drain)()
	err = l.run(ctx, ready)
	pool.Wait()
	return err
}

// shardIssuer is who issues the tokens of a job's runs: its shard.
func shardIssuer(j job.Job) (string, error) {
	n, err := j.ID.Shard()
	return engine.Issuer(store.ShardID{Queue: j.Queue, Shard: n}), err
}

// engineOptions are those of an engine that records what it does.
func (w *jobs) engineOptions(ctx context.Context) engine.Options {
	p, j := w.process, w.cfg.Jobs
	o := engine.Options{
		Name: p.cfg.Life, Addr: j.Advertise, Queues: j.engineQueues(),
		Ownership: engine.Ownership{TTL: p.cfg.TTL, DriftBound: p.cfg.DriftBound, MarginBase: p.cfg.MarginBase, DrainTimeout: drainTimeout / 2},
		World:     engine.World{Clock: p.leases, Wall: p.clock.Wall, Rand: Rand(p.cfg.Seed, p.cfg.Life+"/engine")},
		Retention: engine.Retention{DedupeWindow: p.cfg.dedupe()},
		Reports:   engine.Reports{Observer: &shardObserver{ctx: ctx, process: p, lanes: w.lanes, dead: w.commander.died}, Logger: p.log},
	}
	if p.hooks.Engine != nil {
		p.hooks.Engine(p.cfg, &o)
	}
	return o
}

// shardScheduler makes the production scheduler.
func (w *jobs) shardScheduler(ctx context.Context, handlers map[string]worker.Handler) error {
	p, j := w.process, w.cfg.Jobs
	shards := store.Shards(watchedShards{cassandra.NewShards(p.lockDB), &shardObserver{ctx: ctx, process: p}})
	if p.hooks.Shards != nil {
		shards = p.hooks.Shards(p.cfg, p.lockDB, shards)
	}
	o := w.engineOptions(ctx)
	tasks := sink.Sink(&laneSink{Sink: p.sink, process: p})
	if p.hooks.Tasks != nil {
		tasks = p.hooks.Tasks(p.cfg, tasks)
	}
	var executor func(engine.Executor) engine.Executor
	if p.hooks.Executor != nil {
		executor = func(inner engine.Executor) engine.Executor { return p.hooks.Executor(p.cfg, inner) }
	}
	listener, err := net.Listen("tcp", j.Listen)
	if err != nil {
		return fmt.Errorf("listen for other workers: %w", err)
	}
	if w.beatDB, err = open(ctx, p.cfg, p.cfg.BeatNodes, p.rec, p.clock); err != nil {
		return fmt.Errorf("heartbeats: %w", err)
	}
	members, err := p.newMembers(w.beatDB)
	if err != nil {
		return err
	}
	s, err := scheduler.New(scheduler.Options{
		Listener: listener, Members: members,
		Shards: shards, Slots: j.Slots, Executor: executor, Engine: o, Sink: tasks, Runs: cassandra.NewRuns(p.lockDB),
		Handlers: handlers,
	})
	if err != nil {
		return err
	}
	w.scheduler = s
	to := asked(s)
	if j.API {
		if w.api, err = p.serveAPI(s); err != nil {
			return err
		}
		to, w.commander.redriver = w.api.client, w.api.client
	}
	w.recurring, w.commander.to = newRecurrence(p, to), to
	if p.hooks.Commander != nil {
		w.commander.to = p.hooks.Commander(p.cfg, to)
	}
	return nil
}

// newMembers takes part in the heartbeats of the run's workers.
func (p *process) newMembers(db *cassandra.DB) (*member.Group, error) {
	heartbeats := store.Members(cassandra.NewMembers(db))
	if p.hooks.Members != nil {
		heartbeats = p.hooks.Members(p.cfg, heartbeats)
	}
	var expected []string
	for i := range p.cfg.Jobs.Workers {
		expected = append(expected, fmt.Sprintf("w%d", i+1))
	}
	return member.New(member.Options{
		Store: heartbeats, Cell: p.cfg.Jobs.Queue, Name: p.cfg.Worker, Expected: expected,
		TTL: p.cfg.TTL, Clock: p.leases, Logger: p.log,
		Changed: func(came, went []string) {
			point := func(point string, names []string) {
				for _, name := range names {
					p.rec.Record(history.Event{
						Proc: p.cfg.Life, Type: history.Note, Op: history.NotePoint, Details: &history.Details{Point: point}, Key: name,
					})
				}
			}
			point(history.PointMemberCame, came)
			point(history.PointMemberGone, went)
		},
	})
}

func (w *jobs) drain() { w.stopping() }

func (w *jobs) offer(to control.Load) { w.enqueuer.offer(to) }

func (w *jobs) run(ctx context.Context, ready func() error) error {
	if w.beatDB != nil {
		defer w.beatDB.Close()
	}
	if err := ready(); err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() { w.enqueuer.run(w.feed) })
	if w.recurring != nil {
		wg.Go(func() { w.recurring.run(ctx, w.feed) })
	}
	wg.Go(func() { w.commander.run(ctx, w.feed) })
	err := w.scheduler.Run(ctx)
	w.stopping()
	if w.api != nil { // it answers until the shards are handed over
		w.api.close(ctx)
	}
	wg.Wait()
	return err
}

// errOnPurpose is how a job fails that is meant to.
var errOnPurpose = errors.New("fails on purpose")

// handle is a job's run: open its effects, which shows what earlier runs did, take
// its time, and do what is left of its steps.
func (w *jobs) handle(ctx context.Context, t *worker.Task) error {
	ctx, l, err := w.lanes.in(ctx, t)
	if err != nil {
		return err
	}
	p, err := decodePayload(t.Run.Job.Payload)
	if err != nil {
		return job.Cancel(err)
	}
	opening, cancel := context.WithTimeout(ctx, sinkTimeout)
	defer cancel()
	st, err := t.Open(opening, p.Steps...)
	if err != nil {
		w.count(err)
		return err
	}
	hold, hit := w.gate.Reach(ctx, control.Holding, l.proc, string(t.Run.Job.ID))
	if !hit || hold == 0 {
		hold = p.Length
	}
	if p.Overrun && t.Run.Attempt == 1 {
		hold = overrunLength
	}
	if err := w.clock.Sleep(ctx, hold); err != nil {
		return err
	}
	value := st.Value
	for _, key := range p.Steps {
		if _, done := st.Applied[key]; done {
			continue
		}
		value++
		if err := w.step(ctx, t, l, key, value); err != nil {
			w.count(err)
			return err
		}
		if t.Run.Attempt <= p.Fail {
			return errOnPurpose // in the middle, if there is more than one step
		}
	}
	if t.Run.Attempt <= p.Fail {
		return errOnPurpose
	}
	w.gate.Reach(ctx, control.EffectDone, l.proc, string(t.Run.Job.ID))
	return nil
}

func (w *jobs) count(err error) {
	switch {
	case errors.Is(err, worker.ErrStale):
		w.counts.stale.Add(1)
	case store.OutcomeOf(err) == store.Unknown:
		w.counts.unknown.Add(1)
	}
}

// step makes one effect. An unknown outcome is settled by the same effect again,
// as nothing else may be done under the token before.
func (w *jobs) step(ctx context.Context, t *worker.Task, l *lane, key string, value int64) error {
	for {
		l.decided = w.rec.Now() // before Valid: never later than the check
		if !t.Valid() || ctx.Err() != nil {
			return fmt.Errorf("workload: the run ended before its step %s: %w", key, context.Cause(ctx))
		}
		_, err := t.Apply(ctx, sink.Effect{Key: key, Intent: key, Value: value})
		if err == nil || store.OutcomeOf(err) != store.Unknown {
			return err
		}
		if w.clock.Sleep(ctx, w.cfg.TTL/100) != nil {
			return err
		}
	}
}
