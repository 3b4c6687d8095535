// Package mistake has mistakes that lock clients and job schedulers make, each as a decorator
// of what they use: the rows of locks and shards, and the engine's Options. The core has no
// switch for them.
//
// A mistake is planted twice. The simulations of the engine (package enginetest) and of the
// lock (the tests of package lock) plant each row of All that is about them, and must find it
// by one of the row's rules. A real run plants it as the known-broken variant broken/ID, and
// package system says by which property it must be found there. The tests of package checker
// do the same in runs without a cluster (package simrun), with the mistakes that such runs
// show. So the rules of the simulations and the checker are known to see the same mistakes.
// Mistakes that only one of them can plant stand there.
//
// Nothing else imports the package; it is in no production binary.
package mistake

import (
	"time"

	"fencepost/core/engine"
	"fencepost/core/lock"
	"fencepost/core/store"
)

// Process is what a mistake knows of the process in which it is planted.
type Process struct {
	// TTL is the length of a lease, or of the trust in a shard.
	TTL time.Duration
	// Members are the heartbeats of all processes, under Cell.
	Members store.Members
	Cell    string
}

// Mistake is one of them.
type Mistake struct {
	// ID is the name in tables; the variant of a real run is broken/ID.
	ID string
	// Rules are those of its simulation of which one must find it.
	Rules []string
	// Under is what the engine's simulation must be full of for it to show: one of
	// enginetest.Conditions, "" for nothing in particular.
	Under string
	// Locks plants it in one process with a lock client; Shards and Engine in one with an
	// engine. Those that it does not need are nil.
	Locks  func(p Process, inner store.Locks) store.Locks
	Shards func(p Process, inner store.Shards) store.Shards
	Engine func(p Process, o *engine.Options)
}

// All are the mistakes that simulations and real runs share.
var All = []Mistake{
	// Rows of locks.
	{ID: "token-reset", Rules: []string{"chain", "token"}, Locks: cas(lock.Release, tokenReset)},
	{ID: "release-anyone", Rules: []string{"ok", "exclusive"}, Locks: cas(lock.Release, releaseAnyone)},
	{ID: "unknown-acquire-ok", Rules: []string{"ok"}, Locks: cas(lock.Acquire, unknownAcquireOK)},
	{ID: "unknown-acquire-fails", Rules: []string{"fail"}, Locks: cas(lock.Acquire, unknownAcquireFails)},
	{ID: "driver-reexecutes", Rules: []string{"fail"}, Locks: cas(0, driverReexecutes)},
	{ID: "applied-ignored", Rules: []string{"ok"}, Locks: cas(lock.Acquire, appliedIgnored)},
	{ID: "takeover-never", Rules: []string{"liveness"}, Locks: takeoverNever},
	// Batches of shards.
	{ID: "jobs-tick-blind", Rules: []string{"twice", "state", "tokens"}, Under: "cut", Shards: tickBlind},
	{ID: "jobs-unknown-means-no", Rules: []string{"fail", "acked-lost", "claim"}, Shards: unknownMeansNo},
	{ID: "jobs-early-hand-over", Rules: []string{"handover", "exclusive"}, Under: "claims", Shards: earlyHandOver},
	{ID: "jobs-silent-is-dead", Rules: []string{"exclusive"}, Shards: silentIsDead},
	// Rows of jobs.
	{ID: "jobs-rescue-dead-only", Rules: []string{"liveness"}, Shards: rescueDeadOnly},
	{ID: "jobs-dlq-lost", Rules: []string{"state"}, Shards: dlqLost},
	{ID: "jobs-retries-in-memory", Rules: []string{"attempts"}, Shards: retriesInMemory},
	{ID: "jobs-claimed-twice", Rules: []string{"state"}, Shards: claimedTwice},
	{ID: "jobs-behind-the-mark", Rules: []string{"behind"}, Shards: behindTheMark},
	{ID: "jobs-swept-early", Rules: []string{"sweep"}, Engine: sweptEarly},
	{ID: "jobs-early-bird", Rules: []string{"early"}, Engine: earlyBird},
	// Schedules and sequences.
	{ID: "jobs-mark-first", Rules: []string{"schedule"}, Under: "schedules", Shards: markFirst},
	{ID: "jobs-follow-later", Rules: []string{"sequence"}, Under: "schedules", Shards: followLater},
	{ID: "jobs-counts-from-start", Rules: []string{"schedule", "calendar"}, Under: "days", Shards: countsFromStart},
	{ID: "jobs-clock-read-once", Rules: []string{"early", "liveness", "schedule"}, Under: "clocks", Engine: clockReadOnce},
}
