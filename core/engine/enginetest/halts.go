package enginetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/store"
)

// simHalt is one call that paused or resumed a whole queue, and the shards of which it was
// answered that they are so.
type simHalt struct {
	on              bool
	shards          []store.ShardID
	begun, returned time.Time
}

// halt pauses or resumes a queue, as scheduler.SetPaused does: one process asks the owners of all
// shards at once, waits for those that it does not know yet, and says which shards may not be so.
// It reports whether all are.
func (w *World) halt(ctx context.Context, q engine.Queue, on bool, r *rand.Rand) bool {
	p := w.near(store.ShardID{Queue: q.Name, Shard: r.IntN(q.Shards)}, 4, r)
	rctx, stop := context.WithTimeout(ctx, w.cfg.ttl/10+time.Duration(r.Int64N(int64(3*w.cfg.ttl))))
	defer stop()
	c := simHalt{on: on, begun: time.Now()}
	errs := make([]error, q.Shards)
	var wg sync.WaitGroup
	for n := range errs {
		wg.Go(func() {
			time.Sleep(time.Duration(n + 1)) // one after the other, or it would not replay
			errs[n] = w.haltShard(rctx, p, store.ShardID{Queue: q.Name, Shard: n}, on)
		})
	}
	wg.Wait()
	c.returned = time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for n, err := range errs {
		if err == nil {
			c.shards = append(c.shards, store.ShardID{Queue: q.Name, Shard: n})
		}
	}
	w.halts = append(w.halts, c)
	if len(c.shards) < q.Shards {
		w.counts["halt-partly"]++
		return false
	}
	w.counts["halt-ok"]++
	return true
}

// haltShard waits for a ttl until the process knows the shard's owner.
func (w *World) haltShard(ctx context.Context, p *process, s store.ShardID, on bool) error {
	if w.cfg.ownPauses && !p.eng.Owns(s) {
		return nil
	}
	for until := time.Now().Add(w.cfg.ttl); ; {
		err := w.pauseBy(ctx, p, s, on)
		nobody := errors.Is(err, engine.ErrNotOwner) && store.OutcomeOf(err) == store.Fail
		if !nobody || ctx.Err() != nil || time.Now().After(until) {
			return err
		}
		sleep(ctx, w.cfg.ttl/20)
	}
}

// judgeQueuePauses: each shard was as it was said to be, at some time of the call.
func (w *World) judgeQueuePauses(t *truth) {
	for _, c := range w.halts {
		for _, id := range c.shards {
			var applied []appliedPause
			if s := t.shards[id]; s != nil {
				applied = s.pauses
			}
			if was, _ := meanwhile(applied, c.on, c.begun, c.returned); !was {
				w.violate("halt", "queue %s: told that paused is %v; its shard %d was changed so: %+v", id.Queue, c.on, id.Shard, applied)
			}
		}
	}
}

// haltMutants are wrong about pauses of whole queues.
var haltMutants = []Mutant{
	{Name: "a queue is paused where its own process is", Rules: []string{"halt"}, Under: "halts",
		World: func(c *Config) { c.ownPauses = true }},
}
