package mistake

import (
	"context"
	"sync"
	"time"

	"fencepost/core/store"
)

// claimsAfterRelease has each process give its shards away, from some claims on, with every tick that
// claims a run, and go on with them as their owner.
func claimsAfterRelease(_ Process, inner store.Shards) store.Shards {
	var mu sync.Mutex
	claimed := 0
	gives := map[string]bool{} // by the nonces of batches, as their copies must be alike
	return Shards{Shards: inner, OnCommit: func(c Copy) (store.CommitResult, error) {
		mu.Lock()
		if c.N == 0 && !c.Takeover() && Has(c.Batch, Claims) {
			claimed++
			gives[c.Batch.To.Nonce] = claimed >= handOverAfter
		}
		if gives[c.Batch.To.Nonce] {
			c.Batch.To.Owner, c.Batch.To.Addr = "", ""
		}
		mu.Unlock()
		return c.Send()
	}}
}

// twoTakers takes what should be its own as if its owner had handed it over: who is to be the next
// owner does not wait for the last tick of the one before.
func twoTakers(p Process, inner store.Shards) store.Shards {
	begin := time.Now()
	return Shards{Shards: inner, OnLook: func(_ context.Context, _ store.ShardID, h *store.Header) {
		if time.Since(begin) > p.TTL { // it knows who is there
			h.Owner, h.Addr = "", ""
		}
	}}
}

// lostInMove leaves out what a shard's last batch enqueues: it was acknowledged, and is nowhere.
func lostInMove(_ Process, inner store.Shards) store.Shards {
	return Without(inner, func(b store.Batch, op store.Op) bool {
		return b.To.Owner == "" && (op.Kind == store.PutNew || op.Kind == store.Put && op.Row.Kind == store.KindPending)
	})
}
