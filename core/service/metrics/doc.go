// Package metrics counts what a scheduler does, for Prometheus: it watches the engine as
// an observer, and the API reports its requests to it.
//
// # What the names of locks mean here
//
// A process's locks are its shards: lock_acquire is a takeover of a shard, lock_takeover one
// of a shard that had an owner before, lock_renew a tick, which is the shard's heartbeat
// as well as the batch of everything that happens to its jobs, and lock_release a
// hand-over. lwt_latency_seconds is from the first copy of such a batch until its outcome
// is settled; its count, divided by that of the jobs, is the number of lightweight
// transactions a job takes.
package metrics
