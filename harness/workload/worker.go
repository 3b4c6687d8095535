package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/sink"
	cassandrasink "fencepost/core/sink/cassandra"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/control"
	"fencepost/harness/history"
)

// Hooks are where a known-broken variant takes hold; a nil hook changes
// nothing. Each decorates a part that the workload uses through an interface.
type Hooks struct {
	// Clock is called first; what it returns is the lock client's clock.
	Clock    func(Config, *Clock) clock.Clock
	Locks    func(Config, *cassandra.DB, store.Locks) store.Locks
	Locker   func(Config, *cassandra.DB, Locker) Locker
	Observer func(Config, lock.Observer) lock.Observer
	Sink     func(Config, *cassandra.DB, sink.Sink) sink.Sink
	Recorder func(Config, Recorder) Recorder
}

// drainTimeout bounds the end of a worker: finishing cycles and settling what
// the lock client has in the background.
const drainTimeout = 10 * time.Second

// Run is the whole life of a worker process: connect, report ready, do cycles
// until told to stop (or ctx ends), drain, report stopped.
func Run(ctx context.Context, cfg Config, conn *control.Conn, hooks Hooks, log *slog.Logger) (err error) {
	file, err := history.NewRecorder(cfg.History, history.Header{
		Run: cfg.Run, Proc: cfg.Life, System: cfg.Variant, DriftBound: cfg.DriftBound, MarginBaseMS: cfg.MarginBase.Milliseconds(),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	rec := Recorder(file)
	if hooks.Recorder != nil {
		rec = hooks.Recorder(cfg, rec)
	}

	clk := NewClock(clock.System())
	leases := clock.Clock(clk)
	if hooks.Clock != nil {
		leases = hooks.Clock(cfg, clk)
	}
	lockDB, err := open(ctx, cfg, cfg.LockNodes, rec, clk)
	if err != nil {
		return fmt.Errorf("lock store: %w", err)
	}
	defer lockDB.Close()
	sinkDB, err := open(ctx, cfg, cfg.SinkNodes, rec, clk)
	if err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	defer sinkDB.Close()

	gate := control.NewGate(conn.Send)
	counts := &counters{}
	locker, err := newLocker(ctx, cfg, lockDB, leases, rec, gate, counts, hooks, log)
	if err != nil {
		return err
	}
	fenced := sink.Sink(cassandrasink.New(sinkDB, cassandrasink.Options{RequestTimeout: cfg.TTL / 6}))
	if hooks.Sink != nil {
		fenced = hooks.Sink(cfg, sinkDB, fenced)
	}

	runCtx, stop := context.WithCancel(ctx)
	defer stop()
	set := func(to *history.Clock) error { return setClock(conn, clk, to, rec, cfg.Life) }
	go commands(conn, gate, set, stop)
	go report(runCtx, conn, counts)
	if err := conn.Send(control.Message{Cmd: control.CmdReady}); err != nil {
		return fmt.Errorf("control: %w", err)
	}
	var wg sync.WaitGroup
	for i := range cfg.Clients {
		proc := fmt.Sprintf("%s/c%d", cfg.Life, i+1)
		c := &client{
			cfg: cfg, proc: proc, rec: rec, gate: gate, locker: locker, counts: counts,
			number: clientNumber(cfg, i),
			sink:   &recordingSink{Sink: fenced, rec: rec, proc: proc},
			rng:    Rand(cfg.Seed, proc),
		}
		wg.Go(func() { c.run(runCtx) })
	}
	wg.Wait()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := locker.Close(closing); err != nil {
		log.Warn("the lock client did not settle everything", "error", err)
	}
	rec.Record(history.Event{Proc: cfg.Life, Type: history.Note, Op: history.NoteExit})
	if err := file.Err(); err != nil {
		return err
	}
	return conn.Send(control.Message{Cmd: control.CmdStopped, Stats: counts.stats()})
}

// clientNumber numbers clients across workers ("w2", client 0 -> after w1's).
func clientNumber(cfg Config, i int) int {
	var w int
	if _, err := fmt.Sscanf(cfg.Worker, "w%d", &w); err != nil || w < 1 {
		w = 1
	}
	return (w-1)*cfg.Clients + i
}

func newLocker(ctx context.Context, cfg Config, db *cassandra.DB, leases clock.Clock, rec Recorder, gate *control.Gate, counts *counters, hooks Hooks, log *slog.Logger) (Locker, error) {
	locks := store.Locks(cassandra.NewLocks(db))
	if hooks.Locks != nil {
		locks = hooks.Locks(cfg, db, locks)
	}
	obs := lock.Observer(&lockObserver{ctx: ctx, rec: rec, gate: gate, lost: func() { counts.lost.Add(1) }})
	if hooks.Observer != nil {
		obs = hooks.Observer(cfg, obs)
	}
	c, err := lock.New(locks, lock.Options{
		TTL: cfg.TTL, DriftBound: cfg.DriftBound, MarginBase: cfg.MarginBase,
		Clock: leases, Rand: Rand(cfg.Seed, cfg.Life+"/lock"),
		Observer: obs, NoSingleFlight: cfg.NoSingleFlight, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	locker := Locker(coreLocker{c})
	if hooks.Locker != nil {
		locker = hooks.Locker(cfg, db, locker)
	}
	return locker, nil
}

// open connects through this worker's own links, one a node; a node without a
// link cannot be reached at all.
func open(ctx context.Context, cfg Config, links map[string]string, rec Recorder, clk *Clock) (*cassandra.DB, error) {
	var ips []string
	for ip := range links {
		ips = append(ips, ip)
	}
	return cassandra.Open(ctx, cassandra.Config{
		ContactPoints: ips, Port: cfg.CQLPort, Keyspace: cfg.Keyspace, Wall: clk.Wall,
		Dial: func(ctx context.Context, ip string) (net.Conn, error) {
			addr, ok := links[ip]
			if !ok {
				return nil, fmt.Errorf("no link to node %s", ip)
			}
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		},
		OnStatement: func(s cassandra.StatementInfo) {
			rec.Record(history.Event{Proc: cfg.Life, Type: history.Note, Op: history.NoteStatement, Statement: &history.Statement{
				CQL: s.CQL, Consistency: s.Consistency, SerialConsistency: s.SerialConsistency,
			}})
		},
	})
}

// commands serves the runner until the channel closes; a worker whose runner is
// gone stops.
func commands(conn *control.Conn, gate *control.Gate, set func(*history.Clock) error, stop func()) {
	defer stop()
	for {
		m, err := conn.Receive()
		if err != nil {
			return // io.EOF: the runner is gone
		}
		switch m.Cmd {
		case control.CmdArm:
			gate.Arm(m.ID, m.Point)
		case control.CmdDisarm:
			gate.Disarm(m.ID)
		case control.CmdGo:
			gate.Go(m)
		case control.CmdClock:
			if set(m.Clock) != nil {
				return
			}
		case control.CmdStop:
			stop()
		}
	}
}

// setClock changes the clocks (nil: leaves them), records it and answers what
// they show. The note stands before the change: what a wrong clock did is then
// never seen before the note that explains it.
func setClock(conn *control.Conn, clk *Clock, to *history.Clock, rec Recorder, life string) error {
	if to != nil {
		rec.Record(history.Event{Proc: life, Type: history.Note, Op: history.NoteClock, Clock: to})
		clk.Set(*to)
	}
	return conn.Send(control.Message{Cmd: control.CmdClock, Reading: &control.Reading{
		At: history.Now(), Wall: clk.Wall().UnixNano(), Lease: clk.Now(), Awake: clk.Awake(),
	}})
}

// report sends totals five times a second.
func report(ctx context.Context, conn *control.Conn, c *counters) {
	t := time.NewTicker(200 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if err := conn.Send(control.Message{Cmd: control.CmdStats, Stats: c.stats()}); errors.Is(err, io.ErrClosedPipe) {
				return
			}
		}
	}
}

func (c *counters) stats() *control.Stats {
	return &control.Stats{Cycles: c.cycles.Load(), Stale: c.stale.Load(), Unknown: c.unknown.Load(), LeasesLost: c.lost.Load()}
}
