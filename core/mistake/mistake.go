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
	"context"
	"sync/atomic"
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
	// Locks plants it in one process with a lock client; Shards, Engine and Executor in one
	// with an engine. Those that it does not need are nil.
	Locks  func(p Process, inner store.Locks) store.Locks
	Shards func(p Process, inner store.Shards) store.Shards
	Engine func(p Process, o *engine.Options)
	// Executor returns what decorates the engine's executor; it may change the other options.
	Executor func(p Process, o *engine.Options) func(engine.Executor) engine.Executor
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
	{ID: "jobs-claims-after-release", Rules: []string{"handover", "exclusive"}, Shards: claimsAfterRelease},
	{ID: "jobs-two-takers", Rules: []string{"exclusive"}, Shards: twoTakers},
	{ID: "jobs-lost-in-move", Rules: []string{"acked-lost"}, Under: "moves", Shards: lostInMove},
	{ID: "jobs-reshard-forgets-keys", Rules: []string{"identity"}, Under: "raises", Shards: forgetsKeys},
	// Rows of jobs.
	{ID: "jobs-rescue-dead-only", Rules: []string{"liveness"}, Shards: rescueDeadOnly},
	{ID: "jobs-dlq-lost", Rules: []string{"state"}, Shards: dlqLost},
	{ID: "jobs-retries-in-memory", Rules: []string{"attempts"}, Shards: retriesInMemory},
	{ID: "jobs-claimed-twice", Rules: []string{"state"}, Shards: claimedTwice},
	{ID: "jobs-behind-the-mark", Rules: []string{"behind"}, Shards: behindTheMark},
	{ID: "jobs-swept-early", Rules: []string{"sweep"}, Engine: sweptEarly},
	{ID: "jobs-early-bird", Rules: []string{"early"}, Engine: earlyBird},
	{ID: "jobs-start-without-look", Rules: []string{"start"}, Under: "stands", Executor: startWithoutLook},
	// Schedules and sequences.
	{ID: "jobs-mark-first", Rules: []string{"schedule"}, Under: "schedules", Shards: markFirst},
	{ID: "jobs-follow-later", Rules: []string{"sequence"}, Under: "schedules", Shards: followLater},
	{ID: "jobs-counts-from-start", Rules: []string{"schedule", "calendar"}, Under: "days", Shards: countsFromStart},
	{ID: "jobs-clock-read-once", Rules: []string{"early", "liveness", "schedule"}, Under: "clocks", Engine: clockReadOnce},
}

// KindOf tells what a compare-and-set of a lock row is for.
func KindOf(from *store.Version, to store.Version) lock.OpKind {
	switch {
	case to.Holder == "":
		return lock.Release
	case from != nil && from.Fence == to.Fence && from.Attempt == to.Attempt:
		return lock.Renew
	}
	return lock.Acquire
}

// CAS is one copy of a compare-and-set of a lock row.
type CAS struct {
	Ctx      context.Context
	Inner    store.Locks
	TTL      time.Duration
	Resource string
	From     *store.Version
	To       store.Version
	N        int // 0 for the first copy
}

// Send sends it as it is now.
func (c CAS) Send() (store.CASResult, error) {
	return c.Inner.CAS(c.Ctx, c.Resource, c.From, c.To, c.N)
}

// Locks has compare-and-sets of one kind carried out by Do; 0: all.
type Locks struct {
	store.Locks
	TTL  time.Duration
	Kind lock.OpKind
	Do   func(CAS) (store.CASResult, error)
}

// CAS implements store.Locks.
func (l Locks) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, n int) (store.CASResult, error) {
	c := CAS{ctx, l.Locks, l.TTL, resource, from, to, n}
	if l.Kind != 0 && l.Kind != KindOf(from, to) {
		return c.Send()
	}
	return l.Do(c)
}

// cas plants do for one kind of compare-and-set; 0: all.
func cas(kind lock.OpKind, do func(CAS) (store.CASResult, error)) func(Process, store.Locks) store.Locks {
	return func(p Process, inner store.Locks) store.Locks { return Locks{inner, p.TTL, kind, do} }
}

// tokenReset: a release leaves the row as new, with its counter at the start.
func tokenReset(c CAS) (store.CASResult, error) {
	c.To.Fence = 1
	return c.Send()
}

// releaseAnyone frees the row without asking who holds it.
func releaseAnyone(c CAS) (store.CASResult, error) {
	for {
		row, err := c.Inner.Read(c.Ctx, c.Resource, true)
		if err != nil {
			return store.CASResult{}, err
		}
		if row.Free() {
			return store.CASResult{Applied: true}, nil
		}
		to := store.Version{Fence: row.Fence, Beat: row.Beat + 1, Attempt: c.To.Attempt, TTL: row.TTL}
		res, err := c.Inner.CAS(c.Ctx, c.Resource, row, to, c.N)
		if err != nil || res.Applied {
			return res, err
		}
	}
}

// unknownAcquireOK takes a missing answer for a yes.
func unknownAcquireOK(c CAS) (store.CASResult, error) {
	res, err := c.Send()
	if store.OutcomeOf(err) == store.Unknown {
		return store.CASResult{Applied: true}, nil
	}
	return res, err
}

// unknownAcquireFails takes a missing answer for a no: what was executed is
// left behind.
func unknownAcquireFails(c CAS) (store.CASResult, error) {
	res, err := c.Send()
	if store.OutcomeOf(err) == store.Unknown {
		return res, &store.Error{Op: "acquire " + c.Resource, Outcome: store.Fail, Cause: err}
	}
	return res, err
}

// driverReexecutes executes a request again when its answer is late, as a
// driver's retry policy does, and returns the last execution's answer as if it
// were the only one.
func driverReexecutes(c CAS) (store.CASResult, error) {
	const executions = 10
	var last error
	for i := range executions {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Ctx), c.TTL/12)
		res, err := c.Inner.CAS(ctx, c.Resource, c.From, c.To, c.N+i)
		cancel()
		if err == nil || store.OutcomeOf(err) == store.Fail {
			return res, err
		}
		last = err
	}
	return store.CASResult{}, last
}

// appliedIgnored does not look at the [applied] column.
func appliedIgnored(c CAS) (store.CASResult, error) {
	res, err := c.Send()
	res.Applied = err == nil
	return res, err
}

// takeoverNever takes every held row that it sees for one that has just been
// renewed: a lock whose holder is dead is never had again.
func takeoverNever(_ Process, inner store.Locks) store.Locks {
	return &patient{Locks: inner}
}

type patient struct {
	store.Locks
	looks atomic.Int64
}

func (p *patient) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	row, err := p.Locks.Read(ctx, resource, serial)
	if err == nil && !row.Free() && !serial {
		row.Beat += p.looks.Add(1) // another version than last time, no matter who asks
	}
	return row, err
}
