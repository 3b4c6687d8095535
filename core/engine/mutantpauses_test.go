package engine_test

import (
	"context"
	"sync"

	"fencepost/core/engine"
	"fencepost/core/store"
)

func init() { mutants = append(mutants, pauseMutants...) }

// pausing plants a mistake where shards are paused.
func pausing(f planter) func(*simConfig) {
	return func(c *simConfig) { c.plant, c.pauses = f, true }
}

var pauseMutants = []mutant{
	{"a takeover forgets the pause", []string{"paused"}, pausing(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return altered{Shards: s, look: func(h *store.Header) { h.Pause = store.Pause{} }}, o
	})},
	{"an owner that claims from a paused shard", []string{"paused"}, pausing(heedless)},
	{"a pause is told before it is settled", []string{"told"}, pausing(earlyAnswers(func(w *world, id store.ShardID, b store.Batch) bool {
		h, _ := w.store.ShardRows(id)
		return b.To.Fence == h.Fence && b.To.Pause != h.Pause
	}))},
	{"an observer that is not told of a pause", []string{"paused"}, pausing(liar(func(c *engine.Change) bool { return c.Kind != engine.StepPause }))},
	{"what came while a shard was paused is forgotten", []string{"liveness"}, pausing(forgetful)},
}

// heedless takes no notice of the pauses of the shards that it takes; the headers keep
// them all the same.
func heedless(w *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
	return altered{Shards: s, look: func(h *store.Header) { h.Pause.On = false }, commit: func(ctx context.Context, id store.ShardID, b store.Batch, n int) (store.CommitResult, error) {
		if h, _ := w.store.ShardRows(id); h.Pause.On && b.To.Pause.Since == h.Pause.Since && b.To.Pause.Lasted == 0 {
			b.To.Pause = h.Pause
		}
		return s.Commit(ctx, id, b, n)
	}}, o
}

// forgetful does not show its owner what was inserted while the shard was paused.
func forgetful(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
	var mu sync.Mutex
	hidden := map[string]bool{}
	return altered{Shards: s, commit: func(ctx context.Context, id store.ShardID, b store.Batch, n int) (store.CommitResult, error) {
		res, err := s.Commit(ctx, id, b, n)
		mu.Lock()
		defer mu.Unlock()
		for _, op := range b.Ops {
			if b.To.Pause.On && op.Kind == store.Put && op.Row.Kind == store.KindPending {
				hidden[op.Row.Key.String()] = true
			}
		}
		return res, err
	}, scaned: func(_ store.ShardID, rows []store.Row) []store.Row {
		mu.Lock()
		defer mu.Unlock()
		var out []store.Row
		for _, r := range rows {
			if !hidden[r.Key.String()] {
				out = append(out, r)
			}
		}
		return out
	}}, o
}
