package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"github.com/google/uuid"

	"fencepost/core/engine"
	"fencepost/core/forward"
	"fencepost/core/scheduler"
	"fencepost/core/service/api"
	"fencepost/core/service/handlers"
	"fencepost/core/service/late"
	"fencepost/core/service/livepage"
	"fencepost/core/service/metrics"
	"fencepost/core/service/query"
	"fencepost/core/service/tracing"
	"fencepost/core/store/cassandra"
)

// lastAnswers is for how long requests may go on when all else has stopped.
const lastAnswers = 5 * time.Second

// serve runs the scheduler and its API until ctx ends and everything is handed over.
func serve(ctx context.Context, c *config, log *slog.Logger) error {
	if c.scheduler.Replicas == 1 {
		log.Warn("keyspace has one replica: losing its disk loses jobs; only for trials")
	}
	web, err := net.Listen("tcp", net.JoinHostPort(c.web.host, strconv.Itoa(c.web.port)))
	if err != nil {
		return fmt.Errorf("the API cannot be served: %w; see WORKER_HTTP_PORT", err)
	}
	var servers []*http.Server
	if c.web.pprof != "" {
		p, err := profiles(c.web.pprof, log)
		if err != nil {
			return errors.Join(err, web.Close())
		}
		servers = append(servers, p)
	}
	m := metrics.New(nil)
	traces, err := openTraces(ctx, c, log)
	if err != nil {
		return errors.Join(err, web.Close())
	}
	c.http.Client = handlers.NewClient(traces.Transport)
	kinds := handlers.New(&c.http, log)
	live := livepage.NewRecorder(c.scheduler.Name+"."+uuid.NewString()[:8], nil)
	c.late.Worker, c.late.Counter, c.late.Logger = c.scheduler.Name, m, log
	notifier := late.New(c.late)
	o := c.scheduler
	o.Beside, o.Handlers = live.Peer(), traces.Handlers(kinds.Handlers())
	o.Engine.Name, o.Engine.Observer, o.Engine.LateJob = live.Name(), traces.Observer(engine.Watch(m, live.Step)), notifier.Job
	o.Engine.Refused = m.Refused
	o.Engine.Late = func(l engine.Lateness) {
		m.Late(l)
		notifier.Schedule(l)
	}
	run, stop := context.WithCancel(ctx)
	defer stop()
	s, err := scheduler.Open(run, o)
	if err != nil {
		return errors.Join(c.explain(ctx, err), web.Close())
	}
	defer func() { _ = s.Close() }()
	live.CountBy(s.Depths)
	m.Queues(s.Queues)
	reader := query.New(query.Options{Shards: cassandra.NewShards(s.DB()), Runs: cassandra.NewRuns(s.DB()), Queues: s})
	page := livepage.New(livepage.Options{Recorder: live, Reader: reader, Secret: s.Secret(), Token: c.api.Token, Stop: ctx})
	c.api.Scheduler, c.api.Reader, c.api.Check, c.api.Why = traces.Scheduler(s), reader, kinds.Check, cassandra.Why
	c.api.Metrics, c.api.Observe, c.api.Logger = m.Handler(), m.Request, log
	c.api.Ready = func() error {
		if ctx.Err() != nil {
			return errors.New("shutting down")
		}
		return nil
	}
	server := forward.NewServer(traces.Requests(page.Before(api.Handler(c.api))))
	servers = append(servers, server)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(web) }()
	log.Info("it serves", "api", web.Addr().String(), "queues", c.jobs.queues, "keyspace", c.scheduler.Database.Keyspace)
	ended := make(chan error, 1)
	go func() { ended <- s.Wait() }()
	told := tell(notifier)
	select {
	case err = <-ended:
	case err = <-failed:
		stop()
		err = errors.Join(err, <-ended)
	}
	told()
	// The API answers until the shards are handed over; then what is on its way may end.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
	defer cancel()
	for _, server := range servers {
		if server.Shutdown(last) != nil {
			_ = server.Close()
		}
	}
	if e := traces.Close(last); e != nil {
		log.Warn("sending the last traces failed", "error", e)
	}
	log.Info("scheduler stopped", "error", err)
	return err
}

// tell sends what is late until the function that it returns is called, which waits for
// the last of it.
func tell(n *late.Notifier) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.Run(ctx)
	}()
	return func() { cancel(); <-ended }
}

// openTraces makes the tracer; nil, which makes no traces, without an endpoint.
func openTraces(ctx context.Context, c *config, log *slog.Logger) (*tracing.Tracer, error) {
	if c.traces.Endpoint == "" {
		return nil, nil
	}
	c.traces.Instance, c.traces.Logger = c.scheduler.Name, log
	t, err := tracing.Open(ctx, c.traces)
	if err == nil {
		log.Info("sending traces", "endpoint", c.traces.Endpoint)
	}
	return t, err
}

// profiles serves net/http/pprof, at an address of its own.
func profiles(addr string, log *slog.Logger) (*http.Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("profiles cannot be served: %w; see WORKER_PPROF_ADDR", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.Serve(l) }()
	log.Warn("serving profiles without authentication", "addr", l.Addr().String())
	return s, nil
}
