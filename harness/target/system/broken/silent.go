package broken

import (
	"context"
	"slices"
	"sync"
	"time"

	"fencepost/core/member"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/record/history"
	"fencepost/harness/target/workload"
)

func init() {
	plant("jobs-silent-is-dead", only(workload.Hooks{Shards: silentIsDeadOn}))
}

// silentIsDead takes the shards of a process whose heartbeats have stood still for a
// ttl as if it had handed them over, though it ticks.
func silentIsDead(cfg workload.Config, beats store.Members, cell string, inner store.Shards) store.Shards {
	begin := time.Now()
	var mu sync.Mutex
	watch := member.NewWatch(cfg.TTL, 0)
	silent := func(ctx context.Context, owner string) bool {
		nonces, err := beats.Members(ctx, cell)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			watch.Saw(nonces, time.Since(begin))
		}
		// The first looks show nobody's silence.
		return time.Since(begin) > 2*cfg.TTL && !slices.Contains(watch.Present(), history.Worker(owner))
	}
	return shards{Shards: inner, looked: func(ctx context.Context, _ store.ShardID, h store.Header) store.Header {
		if h.Owner != "" && silent(ctx, h.Owner) {
			h.Owner = ""
		}
		return h
	}}
}

func silentIsDeadOn(cfg workload.Config, db *cassandra.DB, inner store.Shards) store.Shards {
	return silentIsDead(cfg, cassandra.NewMembers(db), cfg.Jobs.Queue, inner)
}
