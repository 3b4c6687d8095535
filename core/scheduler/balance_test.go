package scheduler

import (
	"testing"
	"time"

	"fencepost/core/store"
)

// TestBalance: which shard is given away of two queues with two each, all of which were another's shares
// for long.
func TestBalance(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	q0, q1 := store.ShardID{Queue: "q", Shard: 0}, store.ShardID{Queue: "q", Shard: 1}
	r0, r1 := store.ShardID{Queue: "r", Shard: 0}, store.ShardID{Queue: "r", Shard: 1}
	all := []store.ShardID{r0, r1, q0, q1}
	begin := func() *balance {
		return &balance{self: "a", ttl: ttl, heirs: map[store.ShardID]heir{}, told: map[store.ShardID]time.Duration{}}
	}
	shares := map[store.ShardID]string{q0: "a", r0: "b", q1: "b", r1: "a"}
	see := func(now time.Duration, a, b []store.ShardID) view {
		v := view{now: now, shards: all, shares: shares, holders: map[store.ShardID]string{}, own: "a.1"}
		for _, id := range a {
			v.holders[id] = "a.1"
		}
		for _, id := range b {
			v.holders[id] = "b.1"
		}
		return v
	}
	for name, c := range map[string]struct {
		a, b []store.ShardID
		want store.ShardID
		ok   bool
	}{
		"everything":            {all, nil, r0, true},
		"all of one queue":      {[]store.ShardID{q0, q1}, []store.ShardID{r0, r1}, q1, true},
		"the fuller queue":      {[]store.ShardID{r0, q0, q1}, []store.ShardID{r1}, q1, true},
		"another half than its": {[]store.ShardID{r0, q1}, []store.ShardID{r1, q0}, store.ShardID{}, false},
		"its share":             {[]store.ShardID{r1, q0}, []store.ShardID{r0, q1}, store.ShardID{}, false},
		"one that nobody has":   {[]store.ShardID{r0, q0}, []store.ShardID{r1}, store.ShardID{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bal := begin()
			if id, ok := bal.next(see(ttl, c.a, c.b)); ok {
				t.Errorf("%s is given away at once", id)
			}
			if id, ok := bal.next(see(3*ttl, c.a, c.b)); id != c.want || ok != c.ok {
				t.Errorf("%s, %v, want %s, %v", id, ok, c.want, c.ok)
			}
		})
	}
	bal := begin()
	bal.next(see(ttl, all, nil))
	shares = map[store.ShardID]string{q0: "a", r0: "c", q1: "b", r1: "a"}
	if id, ok := bal.next(see(3*ttl, all, nil)); !ok || id != q1 {
		t.Errorf("%s, %v: %s has just become another's share", id, ok, r0)
	}
}
