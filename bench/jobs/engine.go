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
	"fencepost/core/scheduler"
	"fencepost/core/store"
	"fencepost/core/worker"
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
			t := m.traffic()
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
