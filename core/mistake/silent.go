package mistake

import (
	"context"
	"slices"
	"sync"
	"time"

	"fencepost/core/member"
	"fencepost/core/store"
)

// silentIsDead takes the shards of a process whose heartbeats have stood still for a
// ttl as if it had handed them over, though it ticks.
func silentIsDead(p Process, inner store.Shards) store.Shards {
	begin := time.Now()
	var mu sync.Mutex
	watch := member.NewWatch(p.TTL, 0)
	silent := func(ctx context.Context, owner string) bool {
		nonces, err := p.Members.Members(ctx, p.Cell)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			watch.Saw(nonces, time.Since(begin))
		}
		worker, _ := life(owner)
		// The first looks show nobody's silence.
		return time.Since(begin) > 2*p.TTL && !slices.Contains(watch.Present(), worker)
	}
	return Shards{Shards: inner, OnLook: func(ctx context.Context, _ store.ShardID, h *store.Header) {
		if h.Owner != "" && silent(ctx, h.Owner) {
			h.Owner = ""
		}
	}}
}
