//go:build integration

package workload

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"fencepost/checker"
	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/scheduler"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/orders"
	"fencepost/harness/target/sinks"
)

// recordedShop is a worker's orders on a store in memory and a real PostgreSQL.
type recordedShop struct {
	*jobs
	tables orders.Tables
	dir    string
	runner *history.Recorder
}

func newRecordedShop(t *testing.T, ctx context.Context, session *sim.Session) *recordedShop {
	t.Helper()
	kind, err := sinks.Find("postgres")
	if err != nil {
		t.Fatal(err)
	}
	service, err := kind.Start(ctx, sinks.Options{Log: filepath.Join(t.TempDir(), "sink.log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := kind.Open(ctx, sinks.Place{Addr: service.Addr(), Secret: service.Secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s := &recordedShop{tables: client.(orders.Tables), dir: t.TempDir()}
	record := func(proc string) *history.Recorder {
		r, err := history.NewRecorder(filepath.Join(s.dir, proc+".jsonl"), history.Header{Run: "r", Proc: proc, DriftBound: 0.01, MarginBaseMS: 50, DedupeMS: DedupeWindow.Milliseconds()})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	s.runner = record(history.Harness)
	cfg := Config{Worker: "w1", Life: "w1.1", Seed: 1, TTL: 5 * time.Second, Jobs: &Jobs{
		Queue: "orders", Shards: 2, Workers: 1, Rate: 20, MaxAttempts: 50, RetryBase: 200 * time.Millisecond, Slots: 16,
		Orders: &Orders{Items: 2, Hold: time.Minute},
	}}
	p := &process{
		cfg: cfg, rec: record(cfg.Life), clock: NewClock(clock.System()), counts: &counters{}, sink: client, effects: client,
		gate: control.NewGate(func(control.Message) error { return nil }), log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	p.leases = p.clock
	s.jobs = &jobs{process: p, lanes: newLanes(cfg.Life)}
	handlers, err := s.orderHandlers()
	if err != nil {
		t.Fatal(err)
	}
	s.scheduler, err = scheduler.New(scheduler.Options{
		Shards: session, Slots: cfg.Jobs.Slots, Sink: &laneSink{Sink: client, process: p}, Handlers: handlers,
		Engine: engine.Options{
			Name: cfg.Life, Queues: []engine.Queue{{Name: cfg.Jobs.Queue, Shards: cfg.Jobs.Shards}}, Ownership: engine.Ownership{TTL: cfg.TTL, MarginBase: 50 * time.Millisecond},
			World: engine.World{Clock: p.leases, Wall: p.clock.Wall}, Retention: engine.Retention{DedupeWindow: DedupeWindow},
			Reports: engine.Reports{Observer: &shardObserver{ctx: ctx, process: p, lanes: s.lanes}, Logger: p.log},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.enqueuer = newEnqueuer(p, s.scheduler, shardIssuer, cfg.Jobs.Orders.draw)
	return s
}

func (s *recordedShop) phase(name string) {
	s.runner.Record(history.Event{Proc: history.Harness, Type: history.Note, Op: history.NotePhase, Details: &history.Details{Phase: name}})
}

// settled: nothing is pending or running.
func settled(st *sim.Store, shards int) bool {
	for n := range shards {
		_, rows := st.ShardRows(store.ShardID{Queue: "orders", Shard: n})
		for _, r := range rows {
			if r.Kind == store.KindPending || r.Kind == store.KindRunning {
				return false
			}
		}
	}
	return true
}

// TestOrdersAreRecorded: what the record says of orders, and the tables of the shop, is
// what the checker finds in order; and no order is lost on the way.
func TestOrdersAreRecorded(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	st := sim.New()
	session := st.Connect("w1.1", 1)
	if _, err := session.EnsureQueue(ctx, "orders", 2); err != nil {
		t.Fatal(err)
	}
	s := newRecordedShop(t, ctx, session)
	if err := orders.Make(ctx, s.tables.Pool(), s.cfg.Jobs.Orders.Items, 30); err != nil {
		t.Fatal(err)
	}
	s.runner.Record(history.Event{Proc: history.Harness, Type: history.Note, Op: history.NoteExpect, Details: &history.Details{Expect: &history.Expect{DrainBoundMS: 60_000}}})
	s.phase("before")
	ended := make(chan error, 1)
	go func() { ended <- s.scheduler.Run(ctx) }()
	feed, full := context.WithTimeout(ctx, 6*time.Second)
	defer full()
	var wg sync.WaitGroup
	wg.Go(func() { s.enqueuer.run(feed) })
	wg.Wait()
	s.phase("drain")
	for deadline := time.Now().Add(time.Minute); !settled(st, 2); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not all orders came to an end")
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	s.phase("seal")
	s.rec.Record(history.Event{Proc: s.cfg.Life, Type: history.Note, Op: history.NoteExit})
	err := orders.Read(t.Context(), s.tables.Pool(), func(b history.Book) {
		s.runner.Record(history.Event{Proc: history.Harness, Type: history.Note, Op: history.NoteBook, Details: &history.Details{Book: &b}})
	})
	if err := errors.Join(err, s.runner.Close(), s.rec.(*history.Recorder).Close()); err != nil {
		t.Fatal(err)
	}
	h, err := history.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	r := checker.Check(t.Context(), h, checker.Options{})
	t.Logf("%s: %s; %+v", r.Verdict, r.Summary, *r.Counts.Orders)
	for _, p := range r.Properties {
		shops := p.ID == "P16" || p.ID == "P17"
		if p.Status == checker.StatusFail || shops && p.Status != checker.StatusPass {
			t.Errorf("%s: %s (%s) %+v", p.ID, p.Status, p.Detail, p.Violations)
		}
	}
	n := r.Counts.Orders
	if n.Shipped == 0 || n.Rejected == 0 || n.Open > 0 || n.Placed != n.Shipped+n.Rejected+n.Cancelled || n.Payments != n.Shipped {
		t.Errorf("%+v", *n)
	}
}
