package mistake

import "fencepost/core/store"

// forgetsKeys takes today's number of a queue's shards for the first one, as if the number in the
// configuration had been changed and all processes restarted.
func forgetsKeys(_ Process, inner store.Shards) store.Shards {
	return Shards{Shards: inner, OnQueue: func(q *store.Queue) { q.First = q.Shards }}
}
