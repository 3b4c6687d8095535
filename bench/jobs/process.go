package jobs

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"fencepost/bench"
	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/worker"
)

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
