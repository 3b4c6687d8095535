// Package scheduler is a whole scheduler process without its network face: an
// engine that owns shards (core/engine), the pool that runs its jobs (core/worker),
// and the fenced sink of their effects (core/sink). Whatever hosts it, a daemon or a
// process under test, brings the stores, the handlers and the clock.
package scheduler

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"fencepost/core/engine"
	"fencepost/core/forward"
	"fencepost/core/job"
	"fencepost/core/member"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/worker"
)

// Options configure a Scheduler. Shards, Handlers and the engine's Name and Queues
// are needed.
type Options struct {
	Shards store.Shards
	// Sink takes the handlers' effects; nil if none has any.
	Sink sink.Sink
	// Handlers by kind of job.
	Handlers map[string]worker.Handler
	// Slots is how many runs may be at work at once; default 100.
	Slots int
	// Listener is where other schedulers hand on what is enqueued for shards that
	// this one owns (core/forward), and the engine's Addr how they reach it; nil:
	// they use the inboxes. The scheduler closes it.
	Listener net.Listener
	// Members tells who else is there, by whom the engine's Rank is made; nil: Rank
	// is as the engine's options have it. The scheduler runs it.
	Members *member.Group
	// Engine is the rest; its Executor and Forward are the scheduler's own.
	Engine engine.Options
}

// Scheduler runs jobs.
type Scheduler struct {
	engine *engine.Engine
	pool   *worker.Pool
	client *forward.Client
	server *http.Server
	listen net.Listener
	group  *member.Group
}

// New makes a scheduler; Run starts it.
func New(o Options) (*Scheduler, error) {
	pool := worker.New(worker.Options{Slots: o.Slots, Handlers: o.Handlers, Sink: o.Sink, Clock: o.Engine.Clock, Logger: o.Engine.Logger})
	client := forward.NewClient(nil)
	o.Engine.Executor, o.Engine.Forward = pool, client.Enqueue
	if o.Members != nil {
		o.Engine.Rank = func(s store.ShardID) int { return o.Members.Rank(s.String()) }
	}
	e, err := engine.New(o.Shards, o.Engine)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: forward.Handler(e), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout}
	return &Scheduler{engine: e, pool: pool, client: client, server: server, listen: o.Listener, group: o.Members}, nil
}

// Limits of the server for other schedulers.
const (
	headerTimeout   = 10 * time.Second
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 5 * time.Second
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
	left := make(chan struct{})
	go func() {
		defer close(left)
		if s.group != nil {
			// It leaves when the stop begins: what is handed over then is preferred
			// by others at once.
			s.group.Run(ctx)
		}
	}()
	err := s.engine.Run(ctx)
	<-left
	s.pool.Wait()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err = errors.Join(err, s.server.Shutdown(stop))
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	s.client.Close()
	return err
}

// Submit enqueues a job; see engine.Engine.Submit.
func (s *Scheduler) Submit(ctx context.Context, j job.Job) (engine.Receipt, error) {
	return s.engine.Submit(ctx, j)
}

// Owns reports whether this process owns the shard and trusts that; see
// engine.Engine.Owns.
func (s *Scheduler) Owns(id store.ShardID) bool { return s.engine.Owns(id) }
