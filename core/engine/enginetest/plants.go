package enginetest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/mistake"
	"fencepost/core/store"
)

// What mistakes are made of.

func options(f func(o *engine.Options)) Plant {
	return func(_ *World, s store.Shards, o *engine.Options) store.Shards {
		f(o)
		return s
	}
}

// commits changes what becomes of each copy of a batch.
func commits(f func(w *World, c mistake.Copy) (store.CommitResult, error)) Plant {
	return func(w *World, s store.Shards, _ *engine.Options) store.Shards {
		return mistake.Shards{Shards: s, OnCommit: func(c mistake.Copy) (store.CommitResult, error) { return f(w, c) }}
	}
}

// batches changes every batch.
func batches(f func(w *World, c *mistake.Copy)) Plant {
	return commits(func(w *World, c mistake.Copy) (store.CommitResult, error) {
		f(w, &c)
		return c.Send()
	})
}

// operations changes every operation of every batch.
func operations(f func(op *store.Op)) Plant {
	return batches(func(_ *World, c *mistake.Copy) { c.Each(f) })
}

// without drops operations of batches.
func without(drop func(b store.Batch, op store.Op) bool) Plant {
	return func(_ *World, s store.Shards, _ *engine.Options) store.Shards { return mistake.Without(s, drop) }
}

// scans changes every row that is read in a range.
func scans(f func(r *store.Row)) Plant {
	return func(_ *World, s store.Shards, _ *engine.Options) store.Shards {
		return mistake.Shards{Shards: s, OnRows: func(_ store.ShardID, rows []store.Row) []store.Row {
			for n := range rows {
				f(&rows[n])
			}
			return rows
		}}
	}
}

// looks changes every header that is looked at.
func looks(f func(h *store.Header)) Plant {
	return func(_ *World, s store.Shards, _ *engine.Options) store.Shards {
		return mistake.Shards{Shards: s, OnLook: func(_ context.Context, _ store.ShardID, h *store.Header) { f(h) }}
	}
}

// earlyAnswers answers some batches as applied while they are on their way.
func earlyAnswers(which func(w *World, c mistake.Copy) bool) Plant {
	return commits(func(w *World, c mistake.Copy) (store.CommitResult, error) {
		if c.N > 0 || !which(w, c) {
			return c.Send()
		}
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), w.cfg.ttl)
			defer cancel()
			c.Ctx = ctx
			_, _ = c.Send()
		}()
		return store.CommitResult{Applied: true}, nil
	})
}

// misread takes some rejections for the word that the batch had been applied.
func misread(which func(b store.Batch, shown store.Stamp) bool) Plant {
	return commits(func(_ *World, c mistake.Copy) (store.CommitResult, error) {
		res, err := c.Send()
		if err == nil && !res.Applied && res.Stamp != nil && which(c.Batch, *res.Stamp) {
			res.Stamp, res.Exists = &c.Batch.To.Stamp, nil
		}
		return res, err
	})
}

func inInbox(w *World, id store.ShardID, job string) bool {
	for _, r := range w.store.InboxRows(id) {
		if r.ID == job {
			return true
		}
	}
	return false
}

// ends has runs end with another result than the handler's, by the context that they had.
func ends(f func(ctx context.Context, err error) error) Plant {
	return options(func(o *engine.Options) { o.Executor = results{o.Executor, f} })
}

type results struct {
	engine.Executor
	of func(context.Context, error) error
}

func (r results) Start(ctx context.Context, x engine.Execution, done func(error)) {
	r.Executor.Start(ctx, x, func(err error) { done(r.of(ctx, err)) })
}

// hasty is an executor that reports a run as interrupted before its handler returned.
type hasty struct{ engine.Executor }

func (h hasty) Start(ctx context.Context, x engine.Execution, done func(error)) {
	var once sync.Once
	stop := context.AfterFunc(ctx, func() { once.Do(func() { done(job.ErrInterrupted) }) })
	h.Executor.Start(ctx, x, func(err error) {
		stop()
		once.Do(func() { done(err) })
	})
}

// miser keeps the slots that were reserved and not used.
type miser struct{ engine.Executor }

func (miser) Release(int) {}

// forwards changes the answers to forwarded enqueues.
func forwards(f func(rec engine.Receipt, err error) (engine.Receipt, error)) Plant {
	return options(func(o *engine.Options) {
		send := o.Forward
		o.Forward = func(ctx context.Context, addr string, j job.Job) (engine.Receipt, error) {
			rec, err := send(ctx, addr, j)
			rec.ID = j.ID
			return f(rec, err)
		}
	})
}

// liar tells observers something else than the batch does.
func liar(keep func(*engine.Change) bool) Plant {
	return options(func(o *engine.Options) { o.Observer = lied{o.Observer, keep} })
}

type lied struct {
	engine.Observer
	keep func(*engine.Change) bool
}

func (l lied) Begin(op engine.Op) engine.Span {
	var told []engine.Change
	for _, c := range op.Changes {
		if l.keep(&c) {
			told = append(told, c)
		}
	}
	op.Changes = told
	return l.Observer.Begin(op)
}

type retire = func(ctx context.Context, shard store.ShardID, below job.RunID, ended []job.ID) error

// retiring makes a mistake in how what jobs have left is removed.
func retiring(f func(right retire) retire) Plant {
	return options(func(o *engine.Options) { o.Retire = f(o.Retire) })
}

// undated takes a job's own time out of its row.
func undated(body []byte) []byte {
	j, err := job.Decode(body)
	if err != nil {
		return body
	}
	j.Due = time.Time{}
	out, err := j.Encode()
	if err != nil {
		return body
	}
	return out
}

// remembered answers every read of a row as the first one was.
func remembered(_ *World, s store.Shards, _ *engine.Options) store.Shards {
	var mu sync.Mutex
	rows := map[string]*store.Row{}
	return mistake.Shards{Shards: s, OnRow: func(ctx context.Context, id store.ShardID, k store.Key) (*store.Row, error) {
		name := id.String() + " " + k.String()
		mu.Lock()
		row := rows[name]
		mu.Unlock()
		if row != nil {
			return row, nil
		}
		row, err := s.Row(ctx, id, k)
		if err == nil && row != nil {
			mu.Lock()
			rows[name] = row
			mu.Unlock()
		}
		return row, err
	}}
}

// lateMarks is a store whose user lets the mark of ended rows rise after the last page of
// a sweep only.
type lateMarks struct {
	store.Shards
	mu   *sync.Mutex
	low  map[store.ShardID]int64
	more map[store.ShardID]bool
}

func markAfterLastPage(_ *World, s store.Shards, _ *engine.Options) store.Shards {
	return lateMarks{s, &sync.Mutex{}, map[store.ShardID]int64{}, map[store.ShardID]bool{}}
}

func (l lateMarks) Scan(ctx context.Context, id store.ShardID, r store.Range) ([]store.Row, error) {
	if r.Kind != store.KindEnded {
		return l.Shards.Scan(ctx, id, r)
	}
	l.mu.Lock()
	r.AfterAt, r.AfterID = l.low[id], "\x7f"
	l.mu.Unlock()
	rows, err := l.Shards.Scan(ctx, id, r)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.more[id] = err != nil || len(rows) == r.Limit
	return rows, err
}

func (l lateMarks) Commit(ctx context.Context, id store.ShardID, b store.Batch, n int) (store.CommitResult, error) {
	l.mu.Lock()
	if !l.more[id] {
		l.low[id] = b.To.LowEnded
	}
	b.To.LowEnded = l.low[id]
	var ops []store.Op
	for _, op := range b.Ops {
		if op.Kind != store.DeleteUpTo || op.Row.Kind != store.KindEnded || op.Row.At <= l.low[id] {
			ops = append(ops, op)
		}
	}
	b.Ops = ops
	l.mu.Unlock()
	return l.Shards.Commit(ctx, id, b, n)
}

// heedless takes no notice of the pauses of the shards that it takes; the headers keep
// them all the same.
func heedless(w *World, s store.Shards, _ *engine.Options) store.Shards {
	return mistake.Shards{Shards: s,
		OnLook: func(_ context.Context, _ store.ShardID, h *store.Header) { h.Pause.On = false },
		OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
			to := &c.Batch.To.Pause
			if h, _ := w.store.ShardRows(c.Shard); h.Pause.On && to.Since == h.Pause.Since && to.Lasted == 0 {
				*to = h.Pause
			}
			return c.Send()
		}}
}

// forgetful does not show its owner what was inserted while the shard was paused.
func forgetful(_ *World, s store.Shards, _ *engine.Options) store.Shards {
	var mu sync.Mutex
	hidden := map[string]bool{}
	return mistake.Shards{Shards: s,
		OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
			res, err := c.Send()
			mu.Lock()
			defer mu.Unlock()
			for _, op := range c.Batch.Ops {
				if c.Batch.To.Pause.On && op.Kind == store.Put && op.Row.Kind == store.KindPending {
					hidden[op.Row.Key.String()] = true
				}
			}
			return res, err
		},
		OnRows: func(_ store.ShardID, rows []store.Row) []store.Row {
			mu.Lock()
			defer mu.Unlock()
			return slices.DeleteFunc(rows, func(r store.Row) bool { return hidden[r.Key.String()] })
		}}
}

// firstRead answers with the schedules' rows as the node first read them.
func firstRead(w *World, s store.Shards, o *engine.Options) store.Shards {
	node, _, _ := strings.Cut(o.Name, ".")
	return mistake.Shards{Shards: s, OnRows: func(id store.ShardID, rows []store.Row) []store.Row {
		w.mu.Lock()
		defer w.mu.Unlock()
		for n, r := range rows {
			if r.Kind != store.KindSchedule {
				continue
			}
			name := fmt.Sprint(node, id, r.Key)
			if _, ok := w.firstRows[name]; !ok {
				w.firstRows[name] = r
			}
			rows[n] = w.firstRows[name]
		}
		return rows
	}}
}

// Poisons: jobs of which the store never takes some row.
const (
	poisonBody = "poison in every row"
	poisonRun  = "poison when it runs"
	poisonNote = "poison in its error"
)

var errPoison = errors.New(poisonNote)

func encoded(s string) []byte { return []byte(base64.StdEncoding.EncodeToString([]byte(s))) }

// poisonous marks the batches that the store never takes.
func poisonous(b store.Batch) bool {
	for _, op := range b.Ops {
		switch {
		case bytes.Contains(op.Row.Body, encoded(poisonBody)),
			op.Row.Kind == store.KindRunning && bytes.Contains(op.Row.Body, encoded(poisonRun)),
			op.Row.Kind == store.KindJob && strings.HasSuffix(op.Row.Note, poisonNote):
			return true
		}
	}
	return false
}
