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
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/core/worker"
	"fencepost/harness/target/system/lockperjob"
)

// ownTimeout bounds the wait for shards that nobody else wants.
const ownTimeout = 30 * time.Second

// startEngine starts the production scheduler with so many slots and waits until it owns
// all shards, or in one of several processes its share of them.
func startEngine(ctx context.Context, env *bench.Env, b *book, handler worker.Handler, processes, slots int, stream uint64) (*process, error) {
	m := &meter{Shards: env.Shards}
	w := &watch{book: b}
	others, err := join(env, b.queue, processes)
	if err != nil {
		return nil, err
	}
	s, err := scheduler.New(scheduler.Options{
		Shards: m, Sink: env.Sink, Handlers: map[string]worker.Handler{Kind: handler}, Slots: slots, Members: others.group(),
		Engine: engine.Options{
			Name: "bench-" + b.queue + others.suffix(), Queues: []engine.Queue{{Name: b.queue, Shards: b.shards}},
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
	if err := others.settle(ctx); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	for i := range b.shards {
		id := store.ShardID{Queue: b.queue, Shard: i}
		mine := others.mine(id)
		for s.Owns(id) != mine {
			if err := clock.Go().Sleep(ctx, 2*time.Millisecond); err != nil {
				return nil, errors.Join(fmt.Errorf("shard %s is not owned as agreed: %w", id, err), p.stop())
			}
		}
		if b.shared && mine {
			b.own = append(b.own, i)
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

// Kind is that of all jobs.
const Kind = "bench"

// effectKey is the key of a job's only effect.
const effectKey = "done"

// process is a scheduler at work on a queue of its own. It keeps the book.
type process struct {
	book    *book
	submit  func(context.Context, job.Job) error
	traffic func() bench.Traffic
	// stop lets it end in order. The error is a *miscount if only that is wrong.
	stop func() error
}

// run starts a scheduler, which is stopped by what is returned and not by the end of
// ctx: it is to end in order.
func run(ctx context.Context, f func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	end := make(chan error, 1)
	go func() { end <- f(ctx) }()
	return func() error {
		cancel()
		return <-end
	}
}

// nothing is a handler that does nothing, effect one that has one fenced effect.
func nothing(context.Context, *worker.Task) error { return nil }

func effect(ctx context.Context, t *worker.Task) error {
	st, err := t.Open(ctx, effectKey)
	if err != nil {
		return err
	}
	if _, done := st.Applied[effectKey]; done {
		return nil
	}
	_, err = t.Apply(ctx, sink.Effect{Key: effectKey, Intent: effectKey, Value: t.Token()})
	return err
}

// errNotCompleted is a job that was acknowledged and is not completed in time.
var errNotCompleted = errors.New("acknowledged, and not completed in time")

// Operate implements bench.Operator: it enqueues a job and waits until it is completed, so
// that as many jobs are open as there are threads.
func (p *process) Operate(ctx context.Context, _ *bench.Thread, _ func() bool) bench.End {
	n, j := p.book.ask(time.Now())
	done := p.book.await(n)
	err := p.submit(ctx, j)
	p.book.replied(n, replyOf(err))
	if err != nil {
		if replyOf(err) == refused {
			calm(ctx)
		}
		return bench.EndOf(err)
	}
	select {
	case <-done:
		return bench.End{Outcome: store.OK, Parts: p.book.parts(n)}
	case <-ctx.Done():
		return bench.End{Outcome: store.Unknown, Err: errNotCompleted}
	}
}

// calm waits as clients do that are refused. A refusal takes no time: who asks again at
// once keeps the processor busy with being refused.
func calm(ctx context.Context) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
}

func replyOf(err error) reply {
	switch {
	case err == nil:
		return acked
	case store.OutcomeOf(err) == store.Fail:
		return refused
	}
	return none
}

// Traffic implements bench.Operator.
func (p *process) Traffic() bench.Traffic { return p.traffic() }

// meter counts what passes through a store of shards. The creation of a queue is left
// out.
type meter struct {
	store.Shards
	bench.Meter
	commits atomic.Int64
}

// Look implements store.Shards.
func (m *meter) Look(ctx context.Context, s store.ShardID, serial bool) (*store.Header, error) {
	m.Read(serial)
	return m.Shards.Look(ctx, s, serial)
}

// Commit implements store.Shards.
func (m *meter) Commit(ctx context.Context, s store.ShardID, b store.Batch, copyNo int) (store.CommitResult, error) {
	m.commits.Add(1)
	answered := m.Conditional()
	res, err := m.Shards.Commit(ctx, s, b, copyNo)
	answered(res.Applied, err)
	return res, err
}

// Scan implements store.Shards.
func (m *meter) Scan(ctx context.Context, s store.ShardID, r store.Range) ([]store.Row, error) {
	m.Read(false)
	return m.Shards.Scan(ctx, s, r)
}

// Row implements store.Shards.
func (m *meter) Row(ctx context.Context, s store.ShardID, k store.Key) (*store.Row, error) {
	m.Read(false)
	return m.Shards.Row(ctx, s, k)
}

// InboxPut implements store.Shards.
func (m *meter) InboxPut(ctx context.Context, s store.ShardID, r store.InboxRow, copyNo int) (bool, string, error) {
	answered := m.Conditional()
	applied, existing, err := m.Shards.InboxPut(ctx, s, r, copyNo)
	answered(applied, err)
	return applied, existing, err
}

// InboxDelete implements store.Shards.
func (m *meter) InboxDelete(ctx context.Context, s store.ShardID, id, nonce string, copyNo int) (bool, error) {
	answered := m.Conditional()
	gone, err := m.Shards.InboxDelete(ctx, s, id, nonce, copyNo)
	answered(gone, err)
	return gone, err
}

// InboxScan implements store.Shards.
func (m *meter) InboxScan(ctx context.Context, s store.ShardID, after, upTo string, limit int) ([]store.InboxRow, error) {
	m.Read(false)
	return m.Shards.InboxScan(ctx, s, after, upTo, limit)
}
