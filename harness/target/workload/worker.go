package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/lock"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/core/worker"
	"fencepost/harness/env/login"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/orders"
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system/unfenced"
)

// Hooks are where a known-broken variant takes hold; a nil hook changes
// nothing. Each decorates a part that the workload uses through an interface.
type Hooks struct {
	// Clock is called first; what it returns is the lock client's clock.
	Clock    func(Config, *Clock) clock.Clock
	Locks    func(Config, *cassandra.DB, store.Locks) store.Locks
	Locker   func(Config, *cassandra.DB, Locker) Locker
	Observer func(Config, lock.Observer) lock.Observer
	Sink     func(Config, unfenced.Writer, sink.Sink) sink.Sink
	Recorder func(Config, Recorder) Recorder
	// The rest is the job workload's. Tasks decorates what runs hand their effects
	// to, where they are not recorded yet; Sink does so where they are.
	Shards func(Config, *cassandra.DB, store.Shards) store.Shards
	Engine func(Config, *engine.Options)
	// Members decorates the heartbeats.
	Members func(Config, store.Members) store.Members
	// Executor decorates what runs the jobs.
	Executor func(Config, engine.Executor) engine.Executor
	Handler  func(Config, *cassandra.DB, worker.Handler) worker.Handler
	// Commander decorates what commands on jobs and shards are given to.
	Commander func(Config, Commander) Commander
	// API decorates the handler of the HTTP API, of a run whose clients ask it.
	API   func(Config, http.Handler) http.Handler
	Tasks func(Config, sink.Sink) sink.Sink
	// Submit changes what the scheduler is given of a job that a client enqueues.
	Submit func(job.Job) job.Job
	// Enqueue decorates how it is given that.
	Enqueue func(Enqueue) Enqueue
	// Shop decorates what the runs of orders hand their effects to, where they are not
	// recorded yet.
	Shop func(Config, orders.Tables) orders.Sink
}

// drainTimeout bounds the end of a worker: finishing cycles and settling what
// the lock client has in the background.
const drainTimeout = 10 * time.Second

// process is what every workload is made of.
type process struct {
	cfg    Config
	hooks  Hooks
	rec    Recorder
	clock  *Clock
	leases clock.Clock
	lockDB *cassandra.DB
	sink   sink.Sink
	// effects is the sink as it is, which sink may be a variant of.
	effects sinks.Client
	gate    *control.Gate
	counts  *counters
	// goesOn tells that the process was stopped (SIGSTOP) and goes on; nil where it is none.
	goesOn chan os.Signal
	log    *slog.Logger
}

// load is a workload. It works until ctx ends, then settles what it can and
// returns; ready is called when it is about to begin. drain ends what brings new
// work in; offer changes it, where that is jobs.
type load interface {
	run(ctx context.Context, ready func() error) error
	drain()
	offer(control.Load)
}

// Run is the whole life of a worker process: connect, report ready, work until
// ctx ends, drain, report stopped. A worker that cannot record stops at once.
func Run(ctx context.Context, cfg Config, conn *control.Conn, hooks Hooks, log *slog.Logger) (err error) {
	if cfg.AwaitLogin {
		if cfg.Login, err = awaitLogin(conn); err != nil {
			return err
		}
	}
	of, err := cfg.row()
	if err != nil {
		return err
	}
	head := history.Header{
		Run: cfg.Run, Proc: cfg.Life, System: cmp.Or(cfg.Variant, cfg.Scheduler), DriftBound: cfg.DriftBound, MarginBaseMS: cfg.MarginBase.Milliseconds(),
		Promises: cfg.Promises,
	}
	if of.dedupe {
		head.DedupeMS = cfg.dedupe().Milliseconds()
	}
	file, err := history.NewRecorder(cfg.History, head)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := file.Close(); closeErr != nil {
			unrecorded(conn, closeErr)
			err = errors.Join(err, closeErr)
		}
	}()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // what it does from here on nobody would know of
		select {
		case <-file.Failed():
			unrecorded(conn, file.Err())
			stop()
		case <-ctx.Done():
		}
	}()
	p := &process{
		cfg: cfg, hooks: hooks, rec: file, clock: NewClock(clock.System()), counts: &counters{}, gate: control.NewGate(conn.Send), log: log,
	}
	p.goesOn = make(chan os.Signal, 1)
	signal.Notify(p.goesOn, unix.SIGCONT)
	if hooks.Recorder != nil {
		p.rec = hooks.Recorder(cfg, p.rec)
	}
	p.leases = p.clock
	if hooks.Clock != nil {
		p.leases = hooks.Clock(cfg, p.clock)
	}
	if p.lockDB, err = open(ctx, cfg, cfg.LockNodes, p.rec, p.clock); err != nil {
		return fmt.Errorf("lock store: %w", err)
	}
	defer p.lockDB.Close()
	if p.effects, err = p.openSink(ctx, of); err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	defer p.effects.Close()
	if hooks.Sink != nil {
		p.sink = hooks.Sink(cfg, p.effects, p.sink)
	}

	l, err := of.load(ctx, p)
	if err != nil {
		return err
	}
	set := func(to *history.Clock) error { return setClock(conn, p.clock, to) }
	ticks := NewMetronome(p.leases, conn.Send)
	defer ticks.Set(0)
	go commands(conn, p.gate, set, ticks.Set, l, stop)
	go report(ctx, conn, p.counts)
	ready := func() error {
		if err := conn.Send(control.Message{Cmd: control.CmdReady}); err != nil {
			return fmt.Errorf("control: %w", err)
		}
		return nil
	}
	if err := l.run(ctx, ready); err != nil {
		return err
	}
	p.rec.Record(history.Event{Proc: cfg.Life, Type: history.Note, Op: history.NoteExit})
	return conn.Send(control.Message{Cmd: control.CmdStopped, Stats: p.counts.stats()})
}

// ask records a request to the scheduler, and how it ended; send returns that in a word.
func (p *process) ask(ctx context.Context, request history.Event, send func(context.Context) (string, error)) error {
	return p.askMany(ctx, request, func(ctx context.Context) (string, []history.Answered, error) {
		result, err := send(ctx)
		return result, nil, err
	})
}

// askMany does so for a request that is about many jobs, and has an answer for each.
func (p *process) askMany(ctx context.Context, request history.Event, send func(context.Context) (string, []history.Answered, error)) error {
	e := request
	e.ID, e.Type = p.rec.NewID(), history.Invoke
	p.rec.Record(e)
	ctx, cancel := context.WithTimeout(ctx, p.cfg.TTL)
	defer cancel()
	result, answers, err := send(ctx)
	e.Type, e.Error, e.Details = endType(store.OutcomeOf(err)), errText(err), nil
	if err == nil {
		if e.Result = result; len(answers) > 0 {
			e.Details = &history.Details{Answers: answers}
		}
	} else if state := told(err); state != "" && e.Op == history.OpCommand {
		e.Details = &history.Details{Told: state}
	}
	p.rec.Record(e)
	return err
}

// unrecorded tells the runner that this process's record is worth nothing.
func unrecorded(conn *control.Conn, err error) {
	_ = conn.Send(control.Message{Cmd: control.CmdUnrecorded, Error: err.Error()}) // a runner that is gone needs no telling
}

// openSink connects to the sink by this worker's own links.
func (p *process) openSink(ctx context.Context, of row) (sinks.Client, error) {
	kind, err := sinks.Find(p.cfg.Sink)
	if err != nil {
		return nil, err
	}
	timeout := p.cfg.TTL / 6
	c, err := kind.Open(ctx, sinks.Place{
		Nodes: func(ctx context.Context) (*cassandra.DB, error) {
			return open(ctx, p.cfg, p.cfg.SinkNodes, p.rec, p.clock)
		},
		Addr: p.cfg.SinkAddr, Secret: p.cfg.SinkSecret, Timeout: timeout,
	})
	if err != nil {
		return nil, err
	}
	p.sink = c
	if nodes, ok := c.(*sinks.OnNodes); ok && of.sink != nil {
		p.sink = of.sink(nodes.DB, timeout)
	}
	return c, nil
}

// open connects through this worker's own links.
func open(ctx context.Context, cfg Config, links map[string]string, rec Recorder, clk *Clock) (*cassandra.DB, error) {
	c, err := cfg.Session(links, rec)
	if err != nil {
		return nil, err
	}
	c.Wall = clk.Wall
	return cassandra.Open(ctx, c)
}

// Session is the configuration of a session through this worker's own links, one a node,
// with what the cluster wants to be shown; a node without a link cannot be reached at all.
// Its statements are recorded.
func (c Config) Session(links map[string]string, rec Recorder) (cassandra.Config, error) {
	s := cassandra.Config{
		ContactPoints: slices.Collect(maps.Keys(links)), Port: c.CQLPort, Keyspace: c.Keyspace,
		Dial:        DialThrough(links),
		OnStatement: func(s cassandra.StatementInfo) { NoteStatement(rec, c.Life, s) },
	}
	if c.Login == nil {
		return s, nil
	}
	return s, c.Login.Apply(&s)
}

// DialThrough opens connections to nodes through links, by the node's IP: to no other node, and
// by no other way.
func DialThrough(links map[string]string) func(ctx context.Context, ip string) (net.Conn, error) {
	return func(ctx context.Context, ip string) (net.Conn, error) {
		addr, ok := links[ip]
		if !ok {
			return nil, fmt.Errorf("no link to node %s", ip)
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
}

// NoteStatement records a shape of statements that a process sends.
func NoteStatement(rec Recorder, proc string, s cassandra.StatementInfo) {
	rec.Record(history.Event{Proc: proc, Type: history.Note, Op: history.NoteStatement, Details: &history.Details{Statement: &history.Statement{
		CQL: s.CQL, Consistency: s.Consistency, SerialConsistency: s.SerialConsistency,
	}}})
}

// awaitLogin takes the login from the control channel.
func awaitLogin(conn *control.Conn) (*login.Login, error) {
	m, err := conn.Receive()
	if err != nil {
		return nil, fmt.Errorf("control: no login came: %w", err)
	}
	if m.Cmd != control.CmdLogin || m.Login == nil {
		return nil, fmt.Errorf("control: %q came, want %s first", m.Cmd, control.CmdLogin)
	}
	return m.Login, nil
}

// commands serves the runner until the channel closes; a worker whose runner is
// gone stops.
func commands(conn *control.Conn, gate *control.Gate, set func(*history.Clock) error, tick func(time.Duration), l load, stop func()) {
	defer stop()
	for {
		m, err := conn.Receive()
		if err != nil {
			return // io.EOF: the runner is gone
		}
		switch m.Cmd {
		case control.CmdArm:
			gate.Arm(m.ID, m.Point, m.Key)
		case control.CmdDisarm:
			gate.Disarm(m.ID)
		case control.CmdGo:
			gate.Go(m)
		case control.CmdClock:
			if set(m.Clock) != nil {
				return
			}
		case control.CmdTick:
			tick(m.Every)
		case control.CmdDrain:
			l.drain()
		case control.CmdLoad:
			if m.Load != nil {
				l.offer(*m.Load)
			}
		}
	}
}

// setClock changes the clocks (nil: leaves them) and answers what they show. The runner
// has it in its own record.
func setClock(conn *control.Conn, clk *Clock, to *history.Clock) error {
	if to != nil {
		clk.Set(*to)
	}
	return conn.Send(control.Message{Cmd: control.CmdClock, Reading: &control.Reading{
		At: history.Now(), Wall: clk.Wall().UnixNano(), Lease: clk.Now(), Awake: clk.Awake(),
	}})
}

// report sends totals five times a second.
func report(ctx context.Context, conn *control.Conn, c *counters) {
	for clock.Go().Sleep(ctx, 200*time.Millisecond) == nil {
		if err := conn.Send(control.Message{Cmd: control.CmdStats, Stats: c.stats()}); errors.Is(err, io.ErrClosedPipe) {
			return
		}
	}
}

func (c *counters) stats() *control.Stats {
	return &control.Stats{
		Cycles: c.cycles.Load(), Stale: c.stale.Load(), Unknown: c.unknown.Load(), LeasesLost: c.lost.Load(), Enqueuing: c.enqueuing.Load(),
		Came: c.came.Load(), Goroutines: int64(runtime.NumGoroutine()),
	}
}

// simple is a process without a runner: nothing can be armed, and its clocks are right.
func simple(cfg Config, rec Recorder, base clock.Clock, effects sink.Sink, hooks Hooks, log *slog.Logger) *process {
	p := &process{cfg: cfg, rec: rec, clock: NewClock(base), sink: effects, hooks: hooks, counts: &counters{}, log: log}
	p.leases, p.gate = p.clock, control.NewGate(func(control.Message) error { return nil })
	return p
}

func ready() error { return nil }
