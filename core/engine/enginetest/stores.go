package enginetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"fencepost/core/engine"
	"fencepost/core/mistake"
	"fencepost/core/store"
)

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
