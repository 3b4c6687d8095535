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
	"fencepost/core/member"
	"fencepost/core/scheduler"
	"fencepost/core/service/api"
	"fencepost/core/service/handlers"
	"fencepost/core/service/late"
	"fencepost/core/service/livepage"
	"fencepost/core/service/metrics"
	"fencepost/core/service/query"
	"fencepost/core/service/tracing"
	"fencepost/core/store/cassandra"
	"fencepost/core/worker"
)

// lastAnswers is for how long requests may go on when all else has stopped.
const lastAnswers = 5 * time.Second

// serve runs the scheduler and its API until ctx ends and everything is handed over.
func serve(ctx context.Context, c checked, log *slog.Logger) error {
	cfg, agreed, err := prepare(ctx, c, log)
	if err != nil {
		return err
	}
	if c.replicas == 1 {
		log.Warn("a keyspace with one replica loses jobs with that replica's disk: for trying out only")
	}
	db, err := cassandra.Open(ctx, cfg)
	if err != nil {
		return c.explain(ctx, cfg, err)
	}
	defer db.Close()
	if err := mayWrite(ctx, db, c); err != nil {
		return c.explain(ctx, cfg, err)
	}
	web, err := net.Listen("tcp", net.JoinHostPort(c.httpHost, strconv.Itoa(c.httpPort)))
	if err != nil {
		return fmt.Errorf("the API cannot be served: %w; see WORKER_HTTP_PORT", err)
	}
	m := metrics.New(nil)
	traces, err := openTraces(ctx, c, log)
	if err != nil {
		return errors.Join(err, web.Close())
	}
	shards := 0
	for _, q := range c.queueList {
		shards += q.Shards
	}
	m.Shards(shards)
	kinds := handlers.New(&handlers.HTTP{Target: c.target, Hosts: c.hosts, Client: handlers.NewClient(traces.Transport)}, log)
	live := livepage.NewRecorder(c.name+"."+uuid.NewString()[:8], nil)
	notifier := late.New(late.Options{Worker: c.name, Webhook: c.lateWebhook, Timeout: ms(c.lateTimeout), Counter: m, Logger: log})
	s, err := newScheduler(c, cfg, db, agreed.PeerSecret, traces.Observer(engine.Watch(m, live.Step)), live, m, notifier, traces.Handlers(kinds.Handlers()), log)
	if err != nil {
		return errors.Join(err, web.Close())
	}
	live.CountBy(s.Depths)
	reader := query.New(query.Options{Shards: cassandra.NewShards(db), Runs: cassandra.NewRuns(db), Queues: c.queueList})
	page := livepage.New(livepage.Options{Recorder: live, Reader: livepage.Stored(reader), Secret: agreed.PeerSecret, Token: c.token, Stop: ctx})
	server := forward.NewServer(traces.Requests(page.Before(api.Handler(api.Options{
		Scheduler: traces.Scheduler(s), Reader: reader, Check: kinds.Check, MaxAttempts: c.maxAttempts, Retry: c.retry, Token: c.token,
		Rate: c.rate, Burst: c.burst, MaxBody: c.maxBody, Metrics: m.Handler(), Observe: m.Request, Why: cassandra.Why, Logger: log,
		Ready: func() error {
			if ctx.Err() != nil {
				return errors.New("this process stops")
			}
			return nil
		},
	}))))
	servers := []*http.Server{server}
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(web) }()
	if c.pprofAddr != "" {
		p, err := profiles(c.pprofAddr, log)
		if err != nil {
			return errors.Join(err, server.Close())
		}
		servers = append(servers, p)
	}
	log.Info("it serves", "api", web.Addr().String(), "queues", c.queues, "keyspace", c.keyspace)
	run, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(run) }()
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
		log.Warn("the last traces could not be sent", "error", e)
	}
	log.Info("it has stopped", "error", err)
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
func openTraces(ctx context.Context, c checked, log *slog.Logger) (*tracing.Tracer, error) {
	if c.otlpEndpoint == "" {
		return nil, nil
	}
	t, err := tracing.Open(ctx, tracing.Options{Endpoint: c.otlpEndpoint, Instance: c.name, Logger: log})
	if err == nil {
		log.Info("traces are sent", "endpoint", c.otlpEndpoint)
	}
	return t, err
}

// newScheduler wires the engine to the cluster.
func newScheduler(c checked, cfg cassandra.Config, db *cassandra.DB, secret string, o engine.Observer, live *livepage.Recorder, m *metrics.Metrics, notifier *late.Notifier, by map[string]worker.Handler, log *slog.Logger) (*scheduler.Scheduler, error) {
	group, err := member.New(member.Options{Store: cassandra.NewMembers(db), Cell: "schedulers", Name: c.name, TTL: ms(c.ttl), Logger: log})
	if err != nil {
		return nil, err
	}
	var peers net.Listener
	addr := ""
	if c.peerPort > 0 {
		if peers, err = net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(c.peerPort))); err != nil {
			return nil, fmt.Errorf("other schedulers cannot be served: %w; see WORKER_PEER_PORT", err)
		}
		if addr = c.advertise; addr == "" {
			addr = net.JoinHostPort(ownAddress(cfg), strconv.Itoa(c.peerPort))
		}
		log.Info("others reach it", "at", addr)
	}
	s, err := scheduler.New(scheduler.Options{
		Shards: cassandra.NewShards(db), Runs: cassandra.NewRuns(db), Members: group, Listener: peers, Secret: secret, Beside: live.Peer(),
		Handlers: by, Slots: c.maxInProgress,
		Engine: engine.Options{
			Name: live.Name(), Addr: addr, Queues: c.queueList, TTL: ms(c.ttl), DrainTimeout: ms(c.drain),
			DedupeWindow: ms(c.dedupe), InboxPoll: ms(c.poll), MaxRunning: c.maxInProgress, Observer: o, Logger: log,
			LateAfter: ms(c.lateAfter), LateJob: notifier.Job,
			Late: func(l engine.Lateness) {
				m.Late(l)
				notifier.Schedule(l)
			},
		},
	})
	if err != nil && peers != nil {
		_ = peers.Close()
	}
	return s, err
}

// ownAddress is the address by which this machine reaches Cassandra: others that reach
// it too are likely to reach this machine there. Nothing is sent.
func ownAddress(cfg cassandra.Config) string {
	conn, err := net.Dial("udp", net.JoinHostPort(cfg.ContactPoints[0], strconv.Itoa(cfg.Port)))
	if err != nil {
		return "127.0.0.1"
	}
	defer func() { _ = conn.Close() }()
	host, _, _ := net.SplitHostPort(conn.LocalAddr().String())
	return host
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
	log.Warn("profiles are served to whoever reaches this address", "addr", l.Addr().String())
	return s, nil
}
