package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"fencepost/bench"
	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/lock"
	"fencepost/core/scheduler"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/core/worker"
	"fencepost/harness/target/system/lockperjob"
)

// ownTimeout bounds the wait for shards that nobody else wants.
const ownTimeout = 30 * time.Second

// startEngine starts the production scheduler with so many slots and waits until it owns
// all shards.
func startEngine(ctx context.Context, env *bench.Env, b *book, handler worker.Handler, slots int, stream uint64) (*process, error) {
	m := &meter{Shards: env.Shards}
	w := &watch{book: b}
	s, err := scheduler.New(scheduler.Options{
		Shards: m, Sink: env.Sink, Handlers: map[string]worker.Handler{Kind: handler}, Slots: slots,
		Engine: engine.Options{
			Name: "bench-" + b.queue, Queues: []engine.Queue{{Name: b.queue, Shards: b.shards}},
			World: engine.World{Clock: env.Clock, Rand: env.Rand(stream)}, Reports: engine.Reports{Observer: w, Logger: env.Logger},
		},
	})
	if err != nil {
		return nil, err
	}
	stop := run(ctx, s.Run)
	p := &process{
		book:   b,
		submit: func(ctx context.Context, j job.Job) error { _, err := s.Submit(ctx, j); return err },
		traffic: func() bench.Traffic {
			t := m.Traffic()
			t.SinkLWTs = env.SinkLWTs()
			return t
		},
		stop: func() error { return errors.Join(stop(), agree(b.queue, w.sent.Load(), m.commits.Load())) },
	}
	ctx, cancel := context.WithTimeout(ctx, ownTimeout)
	defer cancel()
	for i := range b.shards {
		id := store.ShardID{Queue: b.queue, Shard: i}
		for !s.Owns(id) {
			if err := clock.Go().Sleep(ctx, 2*time.Millisecond); err != nil {
				return nil, errors.Join(fmt.Errorf("shard %s is not owned: %w", id, err), p.stop())
			}
		}
	}
	return p, nil
}

// miscount: the engine's own count of what it sent is not the store's.
type miscount struct {
	queue        string
	sent, passed int64
}

func (e *miscount) Error() string {
	return fmt.Sprintf("queue %s: the engine reported %d conditional batches and the store saw %d: do not trust its count", e.queue, e.sent, e.passed)
}

func agree(queue string, sent, passed int64) error {
	if sent == passed {
		return nil
	}
	return &miscount{queue, sent, passed}
}

// watch is the engine's observer: it keeps the book and counts batches by the engine's
// own account.
type watch struct {
	book *book
	sent atomic.Int64
}

var _ engine.Observer = (*watch)(nil)

// Begin implements engine.Observer.
func (w *watch) Begin(engine.Op) engine.Span { return (*span)(w) }

// Step implements engine.Observer.
func (w *watch) Step(s engine.Step) {
	switch s.Kind {
	case engine.StepLost:
		w.book.lose()
	case engine.StepStart:
		w.book.start(s.Job)
	case engine.StepFinish:
		w.book.finish(s.Job, s.Err)
	case engine.StepComplete:
		w.book.end(s.Job)
	}
}

// span counts the copies of a batch.
type span watch

// Sending implements engine.Span.
func (s *span) Sending(int) { s.sent.Add(1) }

// End implements engine.Span.
func (*span) End(engine.Result) {}

// How the rival is run: with more slots than the bare updates need threads to use all
// processors, and so many jobs in flight that no slot waits for the next poll.
const (
	rivalSlots    = 64
	rivalInFlight = 400
)

// rivals make schedulers that take a lock for every job, on sessions of their own.
type rivals struct {
	db, effects *cassandra.DB
}

func newRivals(ctx context.Context, env *bench.Env) (*rivals, error) {
	var r rivals
	for _, db := range []**cassandra.DB{&r.db, &r.effects} {
		var err error
		if *db, err = env.Session(ctx); err != nil {
			return nil, err
		}
	}
	return &r, lockperjob.CreateTables(ctx, r.db)
}

func conditional(db *cassandra.DB) int64 {
	s := db.Sent()
	return s.Conditional + s.Serial
}

// start starts a scheduler. With effects it has a sink, which does not compare tokens.
func (r *rivals) start(ctx context.Context, env *bench.Env, b *book, handler worker.Handler, effects bool, stream uint64) (*process, error) {
	o := lockperjob.Options{
		DB: r.db, Name: "bench-" + b.queue, Queue: b.queue, Buckets: b.shards, Slots: rivalSlots,
		Clock: env.Clock, Rand: env.Rand(stream), Logger: env.Logger,
		Handlers: map[string]worker.Handler{Kind: handler}, Observer: rivalWatch{book: b},
	}
	if effects {
		o.Sink = lockperjob.NewSink(r.effects, cassandra.DefaultRequestTimeout)
	}
	s, err := lockperjob.New(o)
	if err != nil {
		return nil, err
	}
	return &process{
		book:   b,
		submit: func(ctx context.Context, j job.Job) error { _, err := s.Submit(ctx, j); return err },
		traffic: func() bench.Traffic {
			return bench.Traffic{LWTs: conditional(r.db), Plain: r.db.Sent().Plain, SinkLWTs: conditional(r.effects)}
		},
		stop: run(ctx, s.Run),
	}, nil
}

// rivalWatch keeps the book of a rival.
type rivalWatch struct{ book *book }

var _ lockperjob.Observer = rivalWatch{}

// Update implements lockperjob.Observer: a job is completed when its row says so.
func (w rivalWatch) Update(u lockperjob.Update) func(error) {
	return func(err error) {
		if u.Do == lockperjob.DoComplete && err == nil {
			w.book.end(u.Job)
		}
	}
}

// Step implements lockperjob.Observer.
func (w rivalWatch) Step(s lockperjob.Step) {
	switch s.Kind {
	case lockperjob.StepStart:
		w.book.start(s.Job)
	case lockperjob.StepFinish:
		w.book.finish(s.Job, s.Err)
	}
}

// Begin implements lock.Observer.
func (w rivalWatch) Begin(lock.Op) lock.Span { return w }

// LeaseLost implements lock.Observer.
func (rivalWatch) LeaseLost(string, string, int64, error) {}

// Sending implements lock.Span.
func (rivalWatch) Sending(int) {}

// End implements lock.Span.
func (rivalWatch) End(lock.Result) {}

// tableTimeout bounds the read of all rows of all of the rival's jobs.
const tableTimeout = 2 * time.Minute

// verify compares the rows of all queues with their books.
func (r *rivals) verify(ctx context.Context, books map[uint32]*book, found map[uint32]*findings) error {
	ctx, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	rows, err := lockperjob.NewRows(r.db, "").Jobs(ctx)
	if err != nil {
		return fmt.Errorf("read all jobs of the lock-per-job arms: %w", err)
	}
	for _, row := range rows {
		tag := tagOf(row.ID)
		if b := books[tag]; b != nil {
			b.row(jobRow{row.ID, row.State, row.Attempt}, found[tag])
		}
	}
	for tag, b := range books {
		b.unseen(found[tag])
		left := 0
		for bucket := range b.shards {
			pending, err := lockperjob.NewRows(r.db, b.queue).Pending(ctx, bucket)
			if err != nil {
				return fmt.Errorf("read bucket %d of %s: %w", bucket, b.queue, err)
			}
			left += len(pending)
		}
		if doubts := b.doubts(); left < b.unfinished || left > b.unfinished+doubts {
			found[tag].add("%d jobs are pending: there must be %d, and %d more at most", left, b.unfinished, doubts)
		}
	}
	return nil
}
