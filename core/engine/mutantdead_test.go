package engine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"fencepost/core/engine"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

func init() { mutants = append(mutants, deadMutants...) }

var deadMutants = []mutant{
	{"jobs-mark-after-last-page", []string{"dead"}, func(c *simConfig) {
		sweepMany(c)
		c.plant = markAfterLastPage
	}},
	{"jobs-pinned-marks", []string{"dead"}, with(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		o.TrimEvery = 1000
		return s, o
	})},
}

// sweepMany has an outage of longer than the dedupe window after many jobs have ended, so
// that there are many pages to sweep afterwards.
func sweepMany(c *simConfig) {
	c.jobs, c.shards, c.crashes, c.schedules, c.pauses = 220, 1, 0, 0, false
	c.faults = sim.Faults{Latency: time.Millisecond}
	c.duration, c.dedupe = 110*c.ttl, 40*c.ttl
	c.events = []event{{at: 40 * c.ttl, length: 42 * c.ttl, kind: "outage"}}
}

// TestSweepAfterAnOutage: what sweepMany makes is no mistake by itself.
func TestSweepAfterAnOutage(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 2; seed++ {
		cfg := configFor(seed)
		if cfg.beyond || cfg.poison {
			continue
		}
		sweepMany(&cfg)
		r := runSim(t, cfg)
		if len(r.violations) > 0 || r.counts["swept"] < cfg.maxDead {
			t.Errorf("seed %d: %d of %d jobs were swept, %v", seed, r.counts["swept"], cfg.jobs, r.violations)
		}
	}
}

// lateMarks is a store whose user lets the mark of ended rows rise after the last page of
// a sweep only.
type lateMarks struct {
	store.Shards
	mu   *sync.Mutex
	low  map[store.ShardID]int64
	more map[store.ShardID]bool
}

func markAfterLastPage(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
	return lateMarks{s, &sync.Mutex{}, map[store.ShardID]int64{}, map[store.ShardID]bool{}}, o
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
