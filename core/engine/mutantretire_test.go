package engine_test

import (
	"context"
	"testing"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

func init() { mutants = append(mutants, retireMutants...) }

type retire = func(ctx context.Context, shard store.ShardID, below job.RunID, ended []job.ID) error

// retireMany has jobs forgotten while others run and processes crash.
func retireMany(c *simConfig) {
	c.retires, c.jobs, c.shards, c.crashes, c.schedules, c.pauses = true, 150, 1, 3, 0, false
	c.faults = sim.Faults{Latency: time.Millisecond, LoseRequest: 0.1, LoseReply: 0.1, Late: 0.1, LateBy: 2 * c.ttl}
	c.duration, c.dedupe, c.maxDead, c.events = 60*c.ttl, 10*c.ttl, 0, nil
	for n := range 6 {
		c.events = append(c.events, event{at: time.Duration(n+1) * 9 * c.ttl, length: 2 * c.ttl, node: n % c.nodes, kind: []string{"crash", "pause", "cut"}[n%3]})
	}
}

// TestRetireWhileOthersRun: what retireMany makes is no mistake by itself.
func TestRetireWhileOthersRun(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 6; seed++ {
		cfg := configFor(seed)
		if cfg.beyond || cfg.poison {
			continue
		}
		retireMany(&cfg)
		r := runSim(t, cfg)
		if len(r.violations) > 0 || r.counts["retired"] < cfg.jobs/4 {
			t.Errorf("seed %d: of %d jobs that were swept %d had left something that was retired, %v", seed, r.counts["swept"], r.counts["retired"], r.violations)
		}
	}
}

// retiring plants a mistake in how what jobs have left is removed.
func retiring(mistake func(retire) retire) func(*simConfig) {
	return func(c *simConfig) {
		retireMany(c)
		c.plant = func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
			o.Retire = mistake(o.Retire)
			return s, o
		}
	}
}

var retireMutants = []mutant{
	{"jobs-retire-before-end", []string{"retire"}, retiring(func(right retire) retire {
		return func(ctx context.Context, shard store.ShardID, below job.RunID, ended []job.ID) error {
			return right(ctx, shard, job.FirstRunID(below.Fence()+1), ended)
		}
	})},
	{"jobs-swept-before-retired", []string{"retire"}, retiring(func(right retire) retire {
		return func(ctx context.Context, shard store.ShardID, below job.RunID, ended []job.ID) error {
			_ = right(ctx, shard, below, ended)
			return nil
		}
	})},
}
