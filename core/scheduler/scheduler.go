package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/forward"
	"fencepost/core/job"
	"fencepost/core/member"
	"fencepost/core/runlog"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/core/worker"
)

// Options configure a Scheduler. Shards, Handlers and the engine's Name and Queues
// are needed.
type Options struct {
	Shards store.Shards
	// Sink takes the handlers' effects; nil if none has any.
	Sink sink.Sink
	// Retire removes what jobs have left in the Sink, which it is or a way to it, when they
	// are forgotten (Engine.DedupeWindow): a job that is enqueued by the same id after that
	// has its effects again. nil: what they have left stays for ever.
	Retire sink.Retirer
	// Handlers by kind of job; Kind.Register adds typed ones.
	Handlers Handlers
	// Slots is how many runs may be at work at once; default 100.
	Slots int
	// Executor, if set, decorates what the engine hands its runs to, which is what the
	// slots and handlers make.
	Executor func(engine.Executor) engine.Executor
	// Listener is where other schedulers hand on what is enqueued for shards that
	// this one owns (core/forward), and the engine's Addr how they reach it; nil:
	// they use the inboxes. The scheduler closes it.
	Listener net.Listener
	// Secret is shown to other schedulers and asked of them (core/forward); all of them
	// need the same one, of at least 16 bytes. "": none is asked for.
	Secret string
	// Beside, if set, is served to other schedulers beside core/forward, at whatever
	// paths that does not use, to those that show the secret.
	Beside http.Handler
	// Runs takes a history of runs, for people (core/runlog); nil: none is kept.
	Runs store.Runs
	// Members tells who else is there, by whom the engine's Rank is made, and shards are given
	// away so that all have as many; nil: Rank is as the engine's options have it, and what a
	// process owns it keeps. The scheduler runs it.
	Members *member.Group
	// NewID makes what the ids of jobs without a key are made from (job.UniqueID); default: UUIDs that
	// begin with the time.
	NewID func() uuid.UUID
	// Engine is the rest; its Executor is the scheduler's own, and so is its Forward unless it has one.
	Engine engine.Options
}

// Scheduler runs jobs.
type Scheduler struct {
	engine *engine.Engine
	shards store.Shards
	pool   *worker.Pool
	client *forward.Client
	server *http.Server
	listen net.Listener
	secret string
	runs   *runlog.Log // nil: none
	group  *member.Group

	name   string // the engine's
	addr   string // likewise
	newID  func() uuid.UUID
	clock  clock.Clock
	logger *slog.Logger
	ttl    time.Duration
	pause  time.Duration // before what was not done, or is not known to be, is asked for again

	// Of one that was opened.
	db    *cassandra.DB
	stop  context.CancelFunc
	ended chan struct{}
	err   error // when it has ended
}

// Secret is what it shows to other schedulers and asks of them; "": none.
func (s *Scheduler) Secret() string { return s.secret }

// New makes a scheduler from its parts; Run starts it. Open makes the parts too.
func New(o Options) (*Scheduler, error) {
	pool := worker.New(worker.Options{Slots: o.Slots, Handlers: o.Handlers, Sink: o.Sink, Clock: o.Engine.Clock, Logger: o.Engine.Logger})
	if o.Secret != "" && len(o.Secret) < leastSecret {
		return nil, fmt.Errorf("scheduler: the secret has %d bytes: want at least %d, or none", len(o.Secret), leastSecret)
	}
	client := forward.NewClient(nil).WithSecret(o.Secret)
	o.Engine.Executor = pool
	if o.Engine.Forward == nil {
		o.Engine.Forward = client.Enqueue
	}
	if o.Executor != nil {
		o.Engine.Executor = o.Executor(pool)
	}
	if o.Retire != nil {
		o.Engine.Retire = worker.Retire(o.Retire)
	}
	var runs *runlog.Log
	if o.Runs != nil {
		runs = runlog.New(runlog.Options{Store: o.Runs, Worker: o.Engine.Name, Clock: o.Engine.Clock, Wall: o.Engine.Wall, Logger: o.Engine.Logger})
		o.Engine.Observer = engine.Watch(o.Engine.Observer, runs.Step)
	}
	if o.Members != nil {
		o.Engine.Rank = func(s store.ShardID) int { return o.Members.Rank(s.String()) }
	}
	e, err := engine.New(o.Shards, o.Engine)
	if err != nil {
		return nil, err
	}
	peers := http.NewServeMux()
	peers.Handle("/internal/v1/", forward.Handler(e))
	if o.Beside != nil {
		peers.Handle("/", o.Beside)
	}
	server := forward.NewServer(forward.Guard(o.Secret, peers))
	s := &Scheduler{engine: e, shards: o.Shards, pool: pool, client: client, server: server, listen: o.Listener, secret: o.Secret, runs: runs, group: o.Members,
		name: o.Engine.Name, addr: o.Engine.Addr, newID: o.NewID, clock: cmp.Or(o.Engine.Clock, clock.System()),
		logger: cmp.Or(o.Engine.Logger, slog.Default()), ttl: cmp.Or(o.Engine.TTL, engine.DefaultTTL)}
	s.pause = s.ttl / 100
	s.divide()
	if s.newID == nil {
		s.newID = NewUUID
	}
	return s, nil
}

const (
	// shutdownTimeout bounds the wait for requests of other schedulers. All of them have been
	// answered by then.
	shutdownTimeout = 2 * time.Second
	// leastSecret is in bytes.
	leastSecret = 16
)

// Run works until ctx ends, then lets runs end, hands its shards over and returns
// when no handler is at work any more.
func (s *Scheduler) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() {
		if s.listen == nil {
			served <- nil
			return
		}
		served <- s.server.Serve(s.listen)
	}()
	logged := s.startLog()
	var left sync.WaitGroup
	if s.group != nil {
		// It leaves when the stop begins: what is handed over then is preferred
		// by others at once.
		left.Go(func() { s.group.Run(ctx) })
		left.Go(func() { s.keepEven(ctx) })
	}
	err := s.engine.Run(ctx)
	left.Wait()
	s.pool.Wait()
	logged()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if s.server.Shutdown(stop) != nil {
		// Somebody has connected and asks for nothing: that would be waited for.
		err = errors.Join(err, s.server.Close())
	}
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	s.client.Close()
	return err
}

// startLog writes the history of runs until the function that it returns is called,
// which waits for the last of it.
func (s *Scheduler) startLog() (stop func()) {
	if s.runs == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.runs.Run(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}

// RunStats counts the rows of the history of runs; zeros without one.
func (s *Scheduler) RunStats() runlog.Stats {
	if s.runs == nil {
		return runlog.Stats{}
	}
	return s.runs.Stats()
}

// Submit enqueues a job that has its id and queue; see engine.Engine.Submit, and Enqueue.
func (s *Scheduler) Submit(ctx context.Context, j job.Job) (engine.Receipt, error) {
	return s.engine.Submit(ctx, j)
}

// Schedule carries a command on a schedule out, here or by the process that owns the
// schedule's shard; see engine.Engine.Schedule. While none is known to, it waits, for 3 s
// at most.
func (s *Scheduler) Schedule(ctx context.Context, c engine.ScheduleCommand) (engine.Receipt, error) {
	return s.byOwner(ctx, func() string { return s.engine.OwnerOfSchedule(c) },
		func() (engine.Receipt, error) { return s.engine.Schedule(ctx, c) },
		func(addr string) (engine.Receipt, error) { return s.client.Schedule(ctx, addr, c) })
}

// Cancel ends a job as cancelled, here or by the process that owns its shard; see
// engine.CancelJob. It waits as Schedule does.
func (s *Scheduler) Cancel(ctx context.Context, queue string, id job.ID) error {
	_, err := s.command(ctx, engine.CancelJob, queue, id)
	return err
}

// Redrive makes a job in the dead letter queue pending again, here or by the process
// that owns its shard; see engine.RedriveJob. It waits as Schedule does.
func (s *Scheduler) Redrive(ctx context.Context, queue string, id job.ID) error {
	_, err := s.command(ctx, engine.RedriveJob, queue, id)
	return err
}

// Hasten makes a pending job due at once, here or by the process that owns its shard;
// see engine.HastenJob. It waits as Schedule does.
func (s *Scheduler) Hasten(ctx context.Context, queue string, id job.ID) (engine.Receipt, error) {
	return s.command(ctx, engine.HastenJob, queue, id)
}

func (s *Scheduler) command(ctx context.Context, c engine.Command, queue string, id job.ID) (engine.Receipt, error) {
	return s.byOwner(ctx, func() string { return s.ownerOf(queue, id) },
		func() (engine.Receipt, error) { return s.engine.Command(ctx, c, queue, id) },
		func(addr string) (engine.Receipt, error) { return s.client.Command(ctx, addr, c, queue, id) })
}

// ownerWait is for how long a command waits until its shard has an owner that this process
// knows: owners are seen by looks, which come some time after a start or a takeover.
const ownerWait = 3 * time.Second

// byOwner has a command carried out here, or else there, by the owner at an address.
func (s *Scheduler) byOwner(ctx context.Context, owner func() string, here func() (engine.Receipt, error), there func(addr string) (engine.Receipt, error)) (engine.Receipt, error) {
	until := s.clock.Now() + ownerWait
	for {
		rec, err := here()
		if errors.Is(err, engine.ErrNotOwner) {
			if addr := owner(); addr != "" {
				rec, err = there(addr)
			}
		}
		nobody := errors.Is(err, engine.ErrNotOwner) && store.OutcomeOf(err) == store.Fail
		if !nobody || s.clock.Now() >= until || s.clock.Sleep(ctx, s.pause) != nil {
			return rec, err
		}
	}
}

func (s *Scheduler) ownerOf(queue string, id job.ID) string {
	n, err := id.Shard()
	if err != nil {
		return ""
	}
	return s.engine.OwnerAddr(store.ShardID{Queue: queue, Shard: n})
}

// Owns reports whether this process owns the shard and trusts that; see
// engine.Engine.Owns.
func (s *Scheduler) Owns(id store.ShardID) bool { return s.engine.Owns(id) }

// Depths counts the jobs of the shards that this process owns; see engine.Engine.Depths.
func (s *Scheduler) Depths() []engine.Depth { return s.engine.Depths() }

// PartlyError says that some shards of a queue may not be as was asked for: their owners
// could not be reached, or did not answer in time. Asking again is safe.
type PartlyError struct {
	Queue  string
	Shards []int // in order
	// Cause is the first one's.
	Cause error
}

func (e *PartlyError) Error() string {
	return fmt.Sprintf("scheduler: shards %v of queue %s: %v", e.Shards, e.Queue, e.Cause)
}

// Unwrap returns the cause.
func (e *PartlyError) Unwrap() error { return e.Cause }

// SetPaused pauses a queue, or resumes it, through the owners of its shards; see
// engine.Engine.SetPaused. duplicate: all of them were so already. The error is a
// *PartlyError, or a *job.InvalidError of the queue.
func (s *Scheduler) SetPaused(ctx context.Context, queue string, on bool) (duplicate bool, err error) {
	duplicate = true
	for done := 0; ; {
		n, err := s.shardsNow(ctx, queue)
		if err != nil {
			return false, err
		}
		if n == done {
			return duplicate, nil
		}
		had, err := s.setPaused(ctx, queue, done, n, on)
		if err != nil {
			return false, err
		}
		duplicate, done = duplicate && had, n // there may be more by now
	}
}

// setPaused is SetPaused of the shards from one on, and before another.
func (s *Scheduler) setPaused(ctx context.Context, queue string, from, to int, on bool) (duplicate bool, err error) {
	errs, had := make([]error, to), slices.Repeat([]bool{true}, to)
	slots := make(chan struct{}, pausesAtOnce)
	var wg sync.WaitGroup
	for i := from; i < to; i++ {
		slots <- struct{}{}
		wg.Go(func() {
			had[i], errs[i] = s.SetShardPaused(ctx, store.ShardID{Queue: queue, Shard: i}, on)
			<-slots
		})
	}
	wg.Wait()
	var partly *PartlyError
	for i, err := range errs {
		switch {
		case err == nil:
			continue
		case partly == nil:
			partly = &PartlyError{Queue: queue, Cause: err}
		}
		partly.Shards = append(partly.Shards, i)
	}
	if partly != nil {
		return false, partly
	}
	return !slices.Contains(had, false), nil
}

// pausesAtOnce bounds the requests of one call.
const pausesAtOnce = 8

// SetShardPaused pauses one shard, or resumes it, here or by the process that owns it; see
// engine.Engine.SetPaused. duplicate: it was so already. It waits as Schedule does.
func (s *Scheduler) SetShardPaused(ctx context.Context, id store.ShardID, on bool) (duplicate bool, err error) {
	rec, err := s.byOwner(ctx, func() string { return s.engine.OwnerAddr(id) },
		func() (engine.Receipt, error) {
			duplicate, err := s.engine.SetPaused(ctx, id, on)
			return engine.Receipt{Duplicate: duplicate}, err
		},
		func(addr string) (engine.Receipt, error) {
			duplicate, err := s.client.SetPaused(ctx, addr, id, on)
			return engine.Receipt{Duplicate: duplicate}, err
		})
	return rec.Duplicate, err
}
